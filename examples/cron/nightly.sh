#!/bin/sh
# nightly.sh CATALOG NAMESPACE: brings the statistics of a namespace up to date, tries again what may pass, and leaves
# one JSON line for each table of each run in summary.jsonl, and what failed in errors.jsonl.
set -u
: "${LOGS:=/var/log/puffin}" "${ATTEMPTS:=3}" "${WAIT:=300}"

attempt=1
while :; do
    puffin analyze --catalog "$1" --namespace "$2" --only-stale \
        --log-format json --summary "$LOGS/summary.jsonl" >/dev/null 2>>"$LOGS/errors.jsonl"
    code=$?
    # 0 is done; 2 is a wrong call, which another try does not cure. What is done already is not done again.
    if [ "$code" -ne 1 ] || [ "$attempt" -ge "$ATTEMPTS" ]; then
        exit "$code"
    fi
    attempt=$((attempt + 1))
    sleep "$WAIT"
done
