#!/usr/bin/env bash
# Prints the path of an nginx for test/gateway, and installs Debian's where there is none. It is not started, now or at
# the next boot: the test runs one of its own, on loopback, from a directory of its own.
set -euo pipefail
# shellcheck source=scripts/debian.sh
source "${BASH_SOURCE%/*}/debian.sh"

say() { echo "nginx.sh: $*" >&2; }

find_nginx() {
  PATH=$PATH:/usr/sbin:/usr/local/sbin command -v nginx
}

if ! find_nginx >/dev/null && can_install; then
  install_package nginx nginx.service || say "apt-get could not install the package nginx"
fi
if ! find_nginx; then
  say "there is no nginx here, and test/gateway needs one: run sudo scripts/nginx.sh on Debian, or install it your way"
  exit 1
fi
