#!/bin/sh
# Builds the virtual environment named by $1, with everything that tests and demo need, and finds a Java for Spark.
# What the system lacks is installed from the distribution when run as root; otherwise the message says how.
set -eu

venv=$1
python=${PYTHON:-python3}
tools=$(dirname "$0")

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    echo "setup: expected Python 3.10 or newer, found $("$python" --version 2>&1)" >&2
    exit 1
}
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    sh "$tools/apt.sh" python3-venv || {
        echo "setup: Python has no venv module: sudo apt-get install python3-venv" >&2
        exit 1
    }
fi

echo "setup: building $venv, which takes minutes the first time"
java_home=$(sh "$tools/java.sh" --install)
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/pip" install --quiet --upgrade 'pip>=23' 'uv>=0.5'
sh "$tools/install.sh" "$venv" --editable '.[all,dev]'
# An editable install is compiled by whoever imports it first, unless the environment forbids that.
"$venv/bin/python" -m compileall -q puffin stats_jobs
printf '%s\n' "$java_home" >"$venv/java-home"
