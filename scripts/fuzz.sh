#!/usr/bin/env bash
# Fuzzes every target of the packages given, one after the other: go test takes one target of one package at a time.
# A finding is written to testdata/fuzz beside the test, and plain `go test` tries it again from then on.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${FUZZTIME:-10s}

# Only packages with a target are built; their tests are not run.
files='{{$dir := .Dir}}{{range .TestGoFiles}}{{$dir}}/{{.}}
{{end}}{{range .XTestGoFiles}}{{$dir}}/{{.}}
{{end}}'
go list -f "$files" "${@:-./...}" | sed '/^$/d' | { xargs -r grep -l '^func Fuzz' || true; } | xargs -r -n1 dirname | sort -u |
  while read -r dir; do
    for target in $(go test -list '^Fuzz' "$dir" | grep '^Fuzz'); do
      echo "fuzz $target in ${dir#"$PWD/"} for $time"
      go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$dir" </dev/null
    done
  done
