#!/usr/bin/env bash
# Looks for known vulnerabilities that the code, its tests or what they import can reach, with govulncheck. Its database
# is asked online; where that cannot be reached, a snapshot of it comes as the module golang.org/x/vulndb, as any module
# does, and is kept in the user's cache directory. Where neither is to be had, nothing is checked, and this says so and
# passes: a missing network is no fault of the code.
#
# A vulnerability of a dependency fails. One of the standard library is mended by another Go, not by a commit: it is
# shown with the version that mends it, and fails with --stdlib, as a release is built.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0 GOWORK=off

case ${1:-} in
  "") stdlib=warn ;;
  --stdlib) stdlib=fail ;;
  *) echo "usage: scripts/vuln.sh [--stdlib]" >&2 && exit 2 ;;
esac

database=golang.org/x/vulndb
fewest=4000 # entries: it had 4 789 in November 2026 and none is taken away, so fewer are half of it or laid out anew

cache=${XDG_CACHE_HOME:-$HOME/.cache}
[[ $(uname -s) == Darwin ]] && cache=$HOME/Library/Caches
place=$cache/orderonce/vulndb

say() { echo "vuln.sh: $*" >&2; }

temp=$(mktemp -d)
modules=$temp/modules
trap 'rm -rf "$temp" "$modules"' EXIT

# newest prints the name of the newest snapshot at hand, with conditions for find. Pseudo-versions sort by their dates.
newest() {
  find "$place" -mindepth 1 -maxdepth 1 -name 'v*' "$@" -printf '%f\n' 2>/dev/null | sort | tail -n 1 | grep .
}

# fetch puts the latest snapshot into place, by a rename beside it, so that nobody reads half of one. A module cache of
# its own spares the user's a copy for every day. The time of the folder is when it was last the latest.
fetch() {
  local version
  version=$(cd "$temp" && timeout 20 go list -m -f '{{.Version}}' "$database@latest" 2>"$temp/error") || return
  if [[ ! -d $place/$version ]]; then
    mkdir -p "$place" && modules=$(mktemp -d "$place/.fetching-XXXXXX") || return
    (cd "$temp" && GOFLAGS=-modcacherw GOMODCACHE=$modules timeout 120 go mod download "$database@$version") \
      2>"$temp/error" || return
    mv -T "$modules/$database@$version/data/osv" "$place/$version" || return
    find "$place" -mindepth 1 -maxdepth 1 -mtime +7 -exec rm -rf {} +
  fi
  touch "$place/$version"
}

# scan runs govulncheck with its arguments, and leaves what it said in the report and its status in $status.
scan() {
  status=0
  "$govulncheck" "$@" -test -tags floors,faults ./... >"$temp/report" 2>&1 || status=$?
}

govulncheck=$(go tool -modfile=tools/go.mod -n govulncheck)

# Asked for its version, govulncheck reads the date of its database, and leaves the line out where it cannot.
status=1
if date=$(timeout 5 "$govulncheck" -version 2>/dev/null | sed -n 's/^DB updated: //p' | grep .); then
  scan
fi
if ((status != 0 && status != 3)); then
  if ! version=$(newest -mtime -1); then
    fetch || say "no newer snapshot of the database: $(tail -n 1 "$temp/error")"
    if ! version=$(newest); then
      say "NOT CHECKED: the database of known vulnerabilities is out of reach, online and as a module"
      exit 0
    fi
  fi
  if (($(find "$place/$version" -name 'GO-*.json' | wc -l) < fewest)); then
    say "snapshot $version holds too few entries to be whole: look at $place"
    exit 1
  fi
  date=$(sed -E 's/.*[-.]([0-9]{4})([0-9]{2})([0-9]{2})[0-9]{6}-.*/\1-\2-\3, a snapshot/' <<<"$version")
  scan -db "file://$place/$version"
fi

# brief keeps one trace of each finding, which is enough to begin with; lines is one line of each, without traces.
brief() { sed -E '/^ +#([2-9]|[0-9]{2,}): /d' "$temp/report"; }
lines() {
  awk '/^Vulnerability #/ { id = $3; getline; sub(/^ +/, ""); what = $0 }
    /^ +Found in: / { found = $3 }
    /^ +Fixed in: / { print "  " id " in " found ", fixed in " $3 ": " what }' "$temp/report"
}

say "the database is of $date"
case $status in
  0) ;;
  3)
    # Only this sentence names the standard library alone; should govulncheck find other words, the check fails.
    alone='^Your code is affected by [0-9]+ vulnerabilit(y|ies) from the Go standard library\.$'
    if [[ $stdlib == fail ]] || ! grep -qE "$alone" "$temp/report"; then
      brief
      exit 1
    fi
    say "WARNING: the code can reach known vulnerabilities of $(go env GOVERSION): build with a Go that mends them"
    lines >&2
    ;;
  *)
    cat "$temp/report"
    exit 1
    ;;
esac
