#!/bin/sh
# Runs tests in environments of their own, on versions that .venv does not have: the end-to-end smoke tests of the job
# once for each pyspark requirement given, and on the lowest versions of everything the tests of codecs, sketches and
# server too (but for those whose own tools need newer ones).
# Usage: matrix.sh PYTHON REQUIREMENT...
set -eu

run() { # NAME, the tests, pip's arguments
    venv=.venv-$1
    tests=$2
    shift 2
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet '.[all]' 'pytest>=8.2' 'hypothesis>=6.100' 'httpx>=0.28' "$@"
    echo "== $("$venv/bin/python" -c 'import pyarrow, pyspark; print("pyspark", pyspark.__version__, "pyarrow", pyarrow.__version__)')"
    # shellcheck disable=SC2086 # a list of folders
    "$venv/bin/python" -m pytest --quiet $tests
}

python=$1
shift
for requirement in "$@"; do
    run "$(printf '%s' "$requirement" | tr -c 'a-zA-Z0-9.' '-')" tests/smoke "$requirement"
done
server='tests/server/test_endpoints.py tests/server/test_limits.py tests/server/test_process.py tests/server/test_stats.py'
run lowest "tests/smoke tests/format tests/sketches tests/values/test_single_value.py $server" --constraint tools/lowest-versions.txt
