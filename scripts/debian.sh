# shellcheck shell=bash
# For other scripts to source: installing a package of Debian's whose service nobody wants.

# can_install says whether this is a Debian, and we are root on it.
can_install() { ((EUID == 0)) && command -v apt-get >/dev/null; }

# install_package installs a package. Its service, where it has one, is not started, now or at the next boot. It runs in a
# subshell of its own, so that it cleans up at its end. Debian asks policy-rc.d before it starts the service of a package
# that it installs; 101 is "no".
install_package() (
  package=$1 service=${2:-}
  policy=/usr/sbin/policy-rc.d
  if [[ -n $service && ! -e $policy ]]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" || return
  fi
  export DEBIAN_FRONTEND=noninteractive
  install=(apt-get install --yes --no-install-recommends "$package")
  # A fresh machine has no package lists, an old one has stale ones.
  "${install[@]}" >&2 || { apt-get update >&2 && "${install[@]}" >&2; } || return
  if [[ -n $service ]] && command -v systemctl >/dev/null; then
    systemctl disable --quiet "$service" >&2 || echo "$service may be started at the next boot" >&2
  fi
)
