#!/usr/bin/env bash
# Puts a Chromium where the browser tests of clients/typescript look for one, and does nothing where there is one. Only
# as root with apt-get; elsewhere it says so and passes, for those tests then say that they were not run.
set -euo pipefail

for program in chromium chromium-browser google-chrome; do
  if [[ -x /usr/bin/$program ]]; then exit 0; fi
done
[[ -z ${CHROMIUM:-} ]] || exit 0

if ((EUID == 0)) && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  install=(apt-get -qq install --yes --no-install-recommends chromium)
  # A fresh machine has no package lists, an old one has stale ones.
  "${install[@]}" >&2 || { apt-get -qq update >&2 && "${install[@]}" >&2; } && exit 0
fi
echo "chromium.sh: there is no Chromium for the browser tests; install one, or name it in CHROMIUM" >&2
