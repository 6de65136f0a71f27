"""What is told of compiling, which takes long and happens once."""

from __future__ import annotations

import subprocess
import sys

IMPORTED = """
import logging, numba
logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
logging.getLogger("numba").setLevel(logging.WARNING)
from puffin.kernels import compiler
print("imported", file=__import__("sys").stderr)
"""
COMPILED = """
for step in (1, 2):
    numba.njit("int64(int64)")(lambda x: x + step)
"""
COMPILED_WITHOUT_CACHE = """
for step in (1, 2):
    assert compiler.compiled(compiler.INT64, compiler.INT64)(lambda x: x + step)(1) == 1 + step
"""


def logged(script: str) -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", IMPORTED + script], capture_output=True, text=True, check=True
    ).stderr.splitlines()


def test_compiling_is_logged_once_and_only_when_it_happens() -> None:
    assert logged(COMPILED) == [
        "imported",
        "puffin.kernels.compiler: compiling kernels, which takes some seconds, once on this machine",
    ]


def test_kernels_are_compiled_where_numba_has_no_place_to_keep_them() -> None:
    """As in a container that can write neither beside the sources nor at home: here the source is no file."""
    assert logged(COMPILED_WITHOUT_CACHE) == [
        "imported",
        "puffin.kernels.compiler: each process compiles kernels; NUMBA_CACHE_DIR can name a directory to keep them: "
        "cannot cache function '<lambda>': no locator available for file '<string>'",
        "puffin.kernels.compiler: compiling kernels, which takes some seconds",
    ]
