"""
Loops that numpy cannot run in one pass, compiled by numba if it is installed.

Kernels only add speed: every caller has another way to the same result, and takes it unless `kernels_ready`. Importing
numba and loading what it has compiled takes up to a second, and compiling fifteen, once after installation. So callers
with enough work ask for it by `load_kernels`. Kernels see arrays only; their callers know what these mean.

Bytes of files may be hostile, and numba checks no bounds. So each position that comes from them is compared with the
end of the bytes before a kernel reads or writes there.
"""

from __future__ import annotations

import functools
import importlib
from zipimport import zipimporter

MODULES = ("murmur", "decimals", "hashes", "heavy", "parquet", "pages", "page_values", "codecs")
"""Those that most runs need; the others are compiled or loaded at their first use."""
_LARGEST_TOLD = (32 << 20) - (64 << 10)  # bytes, a little less than the largest array by which glibc goes
_is_ready = False


def kernels_ready() -> bool:
    """Whether this process has loaded the kernels."""
    return _is_ready


@functools.cache
def load_kernels() -> bool:
    """Compile the kernels once and return whether they are ready; without numba they never are."""
    global _is_ready
    if __spec__ is not None and isinstance(__spec__.loader, zipimporter):
        from puffin.kernels.packed import unpacked

        if (place := unpacked(__spec__.loader.archive)) is not None:
            __path__.insert(0, str(place))
    try:
        for module in MODULES:
            importlib.import_module(f"{__name__}.{module}")
    except ImportError:
        return False
    _keep_freed_memory()
    _is_ready = True
    return True


def _keep_freed_memory() -> None:
    """
    Make glibc keep the memory of freed arrays for the next ones, up to 64 MiB in a thread, as far as it lets us.

    Kernels fill arrays of about a MiB again and again. By default glibc returns memory to the system as soon as more
    than a few of these are free, and the system clears each page that it gives out. Once an array of almost 32 MiB was
    freed, glibc keeps twice its size (mallopt(3), M_MMAP_THRESHOLD). The array is never filled, so it takes no memory.
    """
    import numpy as np

    np.empty(_LARGEST_TOLD, np.uint8)
