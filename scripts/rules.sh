#!/usr/bin/env bash
# Checks the alerts and runs their tests, with the promtool of a Prometheus.
set -euo pipefail
cd "$(dirname "$0")/.."

promtool=$(scripts/promtool.sh)
cd deploy/observability
"$promtool" check rules orderonce.rules.yml
"$promtool" test rules orderonce.rules.test.yml
