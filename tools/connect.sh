#!/bin/sh
# Runs the tests over Spark Connect with servers of other releases than that of .venv, in environments of their own: each
# with the client of .venv, and with its own.
# Usage: connect.sh PYTHON REQUIREMENT...
set -eu

tools=$(dirname "$0")
python=$1
shift
for requirement in "$@"; do
    venv=.venv-connect-$(printf '%s' "$requirement" | tr -c 'a-zA-Z0-9.' '-')
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    # numpy, since pyspark 3.5 has it below 2 and pyarrow needs 2.
    sh "$tools/install.sh" "$venv" '.[all]' "$requirement" deltalake 'hypothesis>=6.100' 'numpy>=2' 'pytest>=8.2,<9.2'
    for client in .venv "$venv"; do
        echo "== server of $requirement, client $("$client/bin/python" -c 'import pyspark; print(pyspark.__version__)')"
        PUFFIN_CONNECT_SERVER="$PWD/$venv/bin/python" "$client/bin/python" -m pytest --quiet tests/interop/test_spark_connect.py
    done
done
