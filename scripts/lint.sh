#!/usr/bin/env bash
# All that can be judged without running the product. Each step stands alone; all are run before the verdict, so that
# one round shows every finding.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0

verdict=0
step() { "$@" || verdict=1; }
tool() { go tool -modfile=tools/go.mod "$@"; }

# An exception of a statement stands below a comment that gives its reason, and names the rule that it is from.
unreasoned() {
  awk '
    /@sqlc-vet-disable/ && (previous !~ /^-- / || previous ~ /^-- name:/ || !/@sqlc-vet-disable +[a-z]/) {
      print FILENAME ":" FNR ": name the rule, and give the reason in the comment line above"; found = 1
    }
    { previous = $0 }
    END { exit found }' sql/queries/*.sql
}

# The Go client is a module of its own: ./... does not reach it.
client() (cd clients/go && go vet ./... && go tool -modfile=../../tools/go.mod golangci-lint run ./...)

step tool golangci-lint run ./...
step go vet ./...
step client
step tool sqlc vet
step unreasoned
step go test -tags floors ./test/floors # the linter's own test: does each rule bite?
exit $verdict
