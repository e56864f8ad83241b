#!/usr/bin/env bash
# Puts a Chromium where the browser tests of clients/typescript look for one, and does nothing where there is one. Only
# as root with apt-get; elsewhere it says so and passes, for those tests then say that they were not run.
set -euo pipefail
# shellcheck source=scripts/debian.sh
source "${BASH_SOURCE%/*}/debian.sh"

for program in chromium chromium-browser google-chrome; do
  if [[ -x /usr/bin/$program ]]; then exit 0; fi
done
[[ -z ${CHROMIUM:-} ]] || exit 0

if can_install && install_package chromium; then exit 0; fi
echo "chromium.sh: there is no Chromium for the browser tests; install one, or name it in CHROMIUM" >&2
