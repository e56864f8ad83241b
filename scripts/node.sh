#!/usr/bin/env bash
# Runs a command with a Node.js that the TypeScript client can use: scripts/node.sh npm test. It takes the one on PATH
# where that is new enough; else it installs one from the npm registry, for which any npm will do, into the user's cache
# directory. As root with apt-get it gets that npm from the distribution.
set -euo pipefail
# shellcheck source=scripts/debian.sh
source "${BASH_SOURCE%/*}/debian.sh"

oldest=20
version=20.20.2    # of the npm package node-linux-<arch>, which holds the program of that version and nothing else
npm_version=10.9.9 # the npm that comes with it

say() { echo "node.sh: $*" >&2; }

usable() {
  local major
  major=$("$1" --version 2>/dev/null) || return 1
  major=${major#v}
  ((${major%%.*} >= oldest))
}

run() {
  PATH=$1${1:+:}$PATH exec "${@:2}"
}

(($# > 0)) || { say "usage: scripts/node.sh COMMAND…" && exit 2; }
if found=$(command -v node) && usable "$found" && command -v npm >/dev/null; then run "" "$@"; fi

case $(uname -s)-$(uname -m) in
  Linux-x86_64 | Linux-amd64) arch=x64 ;;
  Linux-aarch64 | Linux-arm64) arch=arm64 ;;
  *) say "install Node.js $oldest or later" && exit 1 ;;
esac
cache=${XDG_CACHE_HOME:-$HOME/.cache}
place=$cache/orderonce/node-$version
bin=$place/node_modules/.bin

if ! usable "$bin/node"; then
  if ! command -v npm >/dev/null && can_install; then
    say "installing the distribution's npm, to fetch Node.js $version with"
    install_package npm || say "apt-get could not install the package npm"
  fi
  command -v npm >/dev/null || { say "install Node.js $oldest or later" && exit 1; }
  # Unpacked beside the final place and renamed, so that nobody finds half of it.
  mkdir -p "$(dirname "$place")" && temp=$(mktemp -d "$place.XXXXXX")
  trap 'rm -rf "$temp"' EXIT
  say "installing Node.js $version into $place"
  npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$temp" "node-linux-$arch@$version" "npm@$npm_version" >&2
  ln -sf "../node-linux-$arch/bin/node" "$temp/node_modules/.bin/node"
  usable "$temp/node_modules/.bin/node" || { say "the Node.js of the npm registry does not run here" && exit 1; }
  rm -rf "$place" && mv "$temp" "$place"
  trap - EXIT
fi
run "$bin" "$@"
