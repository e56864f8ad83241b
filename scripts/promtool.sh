#!/usr/bin/env bash
# Prints the path of a promtool, and installs Debian's prometheus for it where there is none. Prometheus itself is not
# started, now or at the next boot: only the tool that checks and tests its rules is wanted.
set -euo pipefail

say() { echo "promtool.sh: $*" >&2; }

# install runs in a subshell of its own, so that it cleans up at its end. Debian asks policy-rc.d before it starts the
# service of a package that it installs; 101 is "no".
install() (
  policy=/usr/sbin/policy-rc.d
  if [[ ! -e $policy ]]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" || return
  fi
  export DEBIAN_FRONTEND=noninteractive
  packages=(apt-get install --yes --no-install-recommends prometheus)
  # A fresh machine has no package lists, an old one has stale ones.
  "${packages[@]}" >&2 || { apt-get update >&2 && "${packages[@]}" >&2; } || return
  if command -v systemctl >/dev/null; then
    systemctl disable --quiet prometheus.service >&2 || say "prometheus may be started at the next boot"
  fi
)

if ! command -v promtool >/dev/null && ((EUID == 0)) && command -v apt-get >/dev/null; then
  install || say "apt-get could not install the package prometheus"
fi
if ! command -v promtool; then
  say "there is no promtool here, and the rules in deploy/observability need one: run sudo scripts/promtool.sh on Debian, or install Prometheus your way"
  exit 1
fi
