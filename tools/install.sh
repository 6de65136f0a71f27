#!/bin/sh
# Installs packages into the virtual environment $1: install.sh VENV ARGUMENT... with the arguments of pip install.
#
# The uv of .venv does it in a fraction of pip's time. It does not read pip's configuration, so pip takes over where
# only that says where packages come from. Its cache stays off: where a registry does not let clients keep what it sends,
# uv stores every pyspark again at each call, some gigabytes a time, and never removes one.
set -eu

venv=$1
shift
.venv/bin/uv pip install --quiet --no-cache --python "$venv/bin/python" "$@" || {
    echo "install.sh: uv failed, trying pip" >&2
    "$venv/bin/pip" install --quiet "$@"
}
