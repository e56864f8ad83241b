#!/usr/bin/env bash
# Fails where the generated code in the tree is not what the generators make of it. The tree is compared with itself
# before and after, untracked files included, so that work in progress may be checked as well as a clean clone.
set -euo pipefail
cd "$(dirname "$0")/.."

index=$(mktemp -d)
trap 'rm -rf "$index"' EXIT

# snapshot prints the id of a git tree that holds all files which are not ignored; the real index stays as it is.
snapshot() {
  GIT_INDEX_FILE=$index/index git add --all
  GIT_INDEX_FILE=$index/index git write-tree
}

before=$(snapshot)
scripts/gen.sh
after=$(snapshot)

if [ "$before" != "$after" ]; then
  git --no-pager diff --stat --patch "$before" "$after"
  echo "check-gen: the code above was not generated from what it stands for; it is now: look at it and commit it" >&2
  exit 1
fi
if [ "${CI:-}" = true ] && [ -n "$(git status --porcelain)" ]; then
  git status
  echo "check-gen: a clone must be as clean after the checks as before" >&2
  exit 1
fi
