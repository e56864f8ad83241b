#!/usr/bin/env bash
# Prints the path of a promtool, and installs Debian's prometheus for it where there is none. Prometheus itself is not
# started, now or at the next boot: only the tool that checks and tests its rules is wanted.
set -euo pipefail
# shellcheck source=scripts/debian.sh
source "${BASH_SOURCE%/*}/debian.sh"

say() { echo "promtool.sh: $*" >&2; }

if ! command -v promtool >/dev/null && can_install; then
  install_package prometheus prometheus.service || say "apt-get could not install the package prometheus"
fi
if ! command -v promtool; then
  say "there is no promtool here, and the rules in deploy/observability need one: run sudo scripts/promtool.sh on Debian, or install Prometheus your way"
  exit 1
fi
