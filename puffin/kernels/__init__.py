"""
The loops that numpy cannot run in one pass, compiled by numba where it is installed.

Nothing here is needed for an answer, only for its speed: whoever calls a kernel has another way to the same result, and
takes it while `kernels_ready` says no. Importing numba and compiling takes about a second (a third of it where numba's
cache has the compiled code), so nothing is compiled until `load_kernels` is called, by whoever knows that there is work
enough. A kernel sees arrays only: what they mean is its caller's to know.

* ``murmur``: the hash of a theta sketch
* ``decimals``: the bytes of a decimal
* ``selection``: the hashes below theta
* ``counting``: how many rows have each hash
* ``parquet``: levels and dictionary indices counted, Snappy's blocks found
* ``avro``: where the values of records stand; ``avro_values`` is the same loop for Python, which anybody may call
"""

from __future__ import annotations

import functools
import importlib

_MODULES = ("murmur", "decimals", "selection", "counting", "parquet", "avro")
_is_ready = False


def kernels_ready() -> bool:
    """Whether the kernels have been loaded in this process."""
    return _is_ready


@functools.cache
def load_kernels() -> bool:
    """Compile the kernels, unless that is done; returns whether they are ready, which they never are without numba."""
    global _is_ready
    try:
        for module in _MODULES:
            importlib.import_module(f"{__name__}.{module}")
    except ImportError:
        return False
    _is_ready = True
    return True
