#!/bin/sh
# Runs tests in environments of their own, on versions that .venv does not have: the end-to-end smoke tests of the job
# once for each pyspark requirement given, and on the lowest versions of everything the tests of codecs, sketches and
# server too (but for those whose own tools need newer ones).
# Usage: matrix.sh PYTHON REQUIREMENT...
set -eu

install() { # NAME, arguments of pip install
    venv=.venv-$1
    shift
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    sh "$tools/install.sh" "$venv" '.[all]' 'pytest>=8.2' 'pytest-xdist>=3.7' 'hypothesis>=6.100' 'httpx>=0.28' \
        "$@"
}

run() { # NAME, tests
    bin=.venv-$1/bin
    shift
    echo "== $("$bin/python" -c 'import pyarrow, pyspark; print("pyspark", pyspark.__version__, "pyarrow", pyarrow.__version__)')"
    "$bin/python" -m pytest --quiet --numprocesses 2 "$@"
}

environment_of() { # REQUIREMENT
    printf '%s' "$1" | tr -c 'a-zA-Z0-9.' '-'
}

tools=$(dirname "$0")
python=$1
shift

# The next environment is installed, which is downloading for the most part, while the tests of the one before it run.
installed=
for requirement in "$@"; do
    name=$(environment_of "$requirement")
    install "$name" "$requirement" &
    installing=$!
    [ -z "$installed" ] || run "$installed" tests/smoke
    wait $installing
    installed=$name
done
install lowest --constraint "$tools/lowest-versions.txt" &
installing=$!
run "$installed" tests/smoke
wait $installing
run lowest tests/smoke tests/format tests/sketches tests/values/test_single_value.py \
    tests/server/test_endpoints.py tests/server/test_limits.py tests/server/test_process.py tests/server/test_stats.py
