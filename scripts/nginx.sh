#!/usr/bin/env bash
# Prints the path of an nginx for test/gateway, and installs Debian's where there is none. It is not started, now or at
# the next boot: the test runs one of its own, on loopback, from a directory of its own.
set -euo pipefail

say() { echo "nginx.sh: $*" >&2; }

find_nginx() {
  PATH=$PATH:/usr/sbin:/usr/local/sbin command -v nginx
}

# install runs in a subshell of its own, so that it cleans up at its end. Debian asks policy-rc.d before it starts the
# service of a package that it installs; 101 is "no".
install() (
  policy=/usr/sbin/policy-rc.d
  if [[ ! -e $policy ]]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" || return
  fi
  export DEBIAN_FRONTEND=noninteractive
  packages=(apt-get install --yes --no-install-recommends nginx)
  # A fresh machine has no package lists, an old one has stale ones.
  "${packages[@]}" >&2 || { apt-get update >&2 && "${packages[@]}" >&2; } || return
  if command -v systemctl >/dev/null; then
    systemctl disable --quiet nginx.service >&2 || say "nginx may be started at the next boot"
  fi
)

if ! find_nginx >/dev/null && ((EUID == 0)) && command -v apt-get >/dev/null; then
  install || say "apt-get could not install the package nginx"
fi
if ! find_nginx; then
  say "there is no nginx here, and test/gateway needs one: run sudo scripts/nginx.sh on Debian, or install it your way"
  exit 1
fi
