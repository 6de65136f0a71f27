"""
Loops that numpy cannot run in one pass, compiled by numba if it is installed.

Kernels only add speed: every caller has another way to the same result, and takes it unless `kernels_ready`. Importing
numba and compiling takes about a second (a third of that with numba's cache), so callers with enough work ask for it
by `load_kernels`. Kernels see arrays only; their callers know what these mean.
"""

from __future__ import annotations

import functools
import importlib

_MODULES = ("murmur", "decimals", "hashes", "heavy", "parquet", "pages", "page_values", "deltas", "avro")
_is_ready = False


def kernels_ready() -> bool:
    """Whether this process has loaded the kernels."""
    return _is_ready


@functools.cache
def load_kernels() -> bool:
    """Compile the kernels once and return whether they are ready; without numba they never are."""
    global _is_ready
    try:
        for module in _MODULES:
            importlib.import_module(f"{__name__}.{module}")
    except ImportError:
        return False
    _is_ready = True
    return True
