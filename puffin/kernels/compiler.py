"""Compile kernels ahead of their first call, for one signature each, without Python's global lock."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba import types
from numba.core import event

_log = logging.getLogger(__name__)

_Function = TypeVar("_Function", bound=Callable[..., Any])

UINT64, INT64, INT32 = types.uint64, types.int64, types.int32
NONE = types.void
# Arrays that kernels only read.
BYTES = types.Array(types.uint8, 1, "C", readonly=True)
UINT32S = types.Array(types.uint32, 1, "C", readonly=True)
UINT64S = types.Array(types.uint64, 1, "C", readonly=True)
INT64S = types.Array(types.int64, 1, "C", readonly=True)
STRIDED_UINT64S = types.Array(types.uint64, 1, "A", readonly=True)
WORDS_AT_EVERY_BYTE = types.Array(types.uint64, 1, "A", readonly=True, aligned=False)
INT64_ROWS = types.Array(types.int64, 2, "C", readonly=True)
# Arrays that kernels create or fill.
NEW_UINT64S = types.Array(types.uint64, 1, "C")
NEW_INT64S = types.Array(types.int64, 1, "C")
NEW_BYTES = types.Array(types.uint8, 1, "C")
NEW_UINT32S = types.Array(types.uint32, 1, "C")
NEW_INT64_ROWS = types.Array(types.int64, 2, "C")
NEW_WORDS_AT_EVERY_BYTE = types.Array(types.uint64, 1, "A", aligned=False)
THREE_INT64S: Any = types.Tuple((INT64, INT64, INT64))  # type: ignore[no-untyped-call]
PAIR_OF_NEW_UINT64S: Any = types.Tuple((NEW_UINT64S, NEW_UINT64S))  # type: ignore[no-untyped-call]

# Arrays of both kinds, for Python.
Bytes: TypeAlias = npt.NDArray[np.uint8]
Uint32s: TypeAlias = npt.NDArray[np.uint32]
Uint64s: TypeAlias = npt.NDArray[np.uint64]
Int64s: TypeAlias = npt.NDArray[np.int64]
WordsAt: TypeAlias = npt.NDArray[np.uint64]

# numba keeps nothing of sources in an archive; `puffin.kernels.packed` unpacks them where it can.
_are_kept = Path(__file__).exists()


def compiled(returns: Any, *takes: Any) -> Callable[[_Function], _Function]:
    """Compile a function for arguments of exactly these types, and keep it for other processes if numba can."""

    def compile_(function: _Function) -> _Function:
        global _are_kept
        try:
            made: Any = numba.njit(returns(*takes), nogil=True, cache=_are_kept)(function)
        except (RuntimeError, OSError) as exc:  # numba finds no directory that it can write, or fails to use it
            if not _are_kept:
                raise
            _are_kept = False
            _log.warning("each process compiles kernels; NUMBA_CACHE_DIR can name a directory to keep them: %s", exc)
            return compile_(function)
        return made  # type: ignore[no-any-return]

    return compile_


def inlined(function: _Function) -> _Function:
    """
    Compile a function into each kernel that calls it.

    If it has a loop of its own, numba counts references to the arrays that it takes, which costs up to 10 ns a call: a
    kernel does not call such a function for each value.
    """
    made: Any = numba.njit(inline="always")(function)
    return made  # type: ignore[no-any-return]


class _Teller(event.Listener):
    """Logs once if numba has to compile kernels."""

    has_told = False

    def on_start(self, _: event.Event) -> None:
        if not self.has_told:
            self.has_told = True
            _log.info("compiling kernels, which takes some seconds%s", ", once on this machine" if _are_kept else "")

    def on_end(self, _: event.Event) -> None:
        """Required by numba; does nothing."""


_register: Any = event.register
_register("numba:compile", _Teller())
