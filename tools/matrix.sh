#!/bin/sh
# Runs the end-to-end smoke tests of the job once for each pyspark requirement given, in an environment of its own.
# Usage: matrix.sh PYTHON REQUIREMENT...
set -eu

python=$1
shift
for requirement in "$@"; do
    venv=.venv-$(printf '%s' "$requirement" | tr -c 'a-zA-Z0-9.\n' '-')
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet '.[all]' "$requirement" 'pytest>=8.2'
    echo "== $requirement: $("$venv/bin/python" -c 'import pyspark; print("pyspark", pyspark.__version__)')"
    "$venv/bin/python" -m pytest --quiet tests/smoke
done
