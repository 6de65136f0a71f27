"""What is told of compiling, which takes long and happens once."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import logging, numba
logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
logging.getLogger("numba").setLevel(logging.WARNING)
from puffin.kernels import compiler
print("imported", file=__import__("sys").stderr)
for step in (1, 2):
    numba.njit("int64(int64)")(lambda x: x + step)
"""


def test_compiling_is_logged_once_and_only_when_it_happens() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert run.stderr.splitlines() == [
        "imported",
        "puffin.kernels.compiler: compiling kernels, which takes some seconds, once on this machine",
    ]
