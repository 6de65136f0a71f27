#!/bin/sh
# Checks the messages of commits: a subject of at most 72 characters, and a body that says why. Older commits had no rule.
set -eu
cd "$(dirname "$0")/.."
[ -e .git ] || exit 0 # sources without a history have no messages

bad=$(git log --no-merges --after=2026-11-22T11:00:00Z --format='%h%x09%s%x09%w(0)%b%x00' | tr '\n\0' ' \n' | awk -F '\t' '
    { sub(/^ /, "", $1) }
    length($2) > 72 { print $1 ": expected a subject of at most 72 characters, found " length($2) ": " $2 }
    NF > 2 && $3 ~ /^ *$/ { print $1 ": expected a body that says why, found none: " $2 }')
[ -z "$bad" ] || {
    printf '%s\n' "$bad" >&2
    exit 1
}
