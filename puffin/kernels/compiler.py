"""How kernels are compiled: ahead of their first call, for one signature each, without holding Python's global lock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import types

_Function = TypeVar("_Function", bound=Callable[..., Any])

UINT64, INT64, INT32 = types.uint64, types.int64, types.int32
NONE = types.void
# Arrays that kernels only read, one value behind the other.
BYTES = types.Array(types.uint8, 1, "C", readonly=True)
UINT64S = types.Array(types.uint64, 1, "C", readonly=True)
INT64S = types.Array(types.int64, 1, "C", readonly=True)
STRIDED_UINT64S = types.Array(types.uint64, 1, "A", readonly=True)
WORDS_AT_EVERY_BYTE = types.Array(types.uint64, 1, "A", readonly=True, aligned=False)
# Arrays that kernels make or fill.
NEW_UINT64S = types.Array(types.uint64, 1, "C")
NEW_INT64S = types.Array(types.int64, 1, "C")
NEW_BYTES = types.Array(types.uint8, 1, "C")
PAIR_OF_NEW_UINT64S: Any = types.Tuple((NEW_UINT64S, NEW_UINT64S))  # type: ignore[no-untyped-call]

# Executors import us from an archive that each session makes anew: what was compiled for the last is of no use.
_IS_UNPACKED = Path(__file__).exists()


def compiled(returns: Any, *takes: Any) -> Callable[[_Function], _Function]:
    """Compile a function for arguments of these types; it takes no others."""
    compile_: Any = numba.njit(returns(*takes), nogil=True, cache=_IS_UNPACKED)
    return compile_  # type: ignore[no-any-return]


def inlined(function: _Function) -> _Function:
    """A function that kernels may call; it becomes part of each of them."""
    made: Any = numba.njit(inline="always")(function)
    return made  # type: ignore[no-any-return]
