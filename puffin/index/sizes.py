"""The rate of false positives of an index, and the bytes that it takes by the distinct values of each file."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from puffin.errors import UsageError
from puffin.index.bloom import BLOCK_BYTES, MOST_LG_BLOCKS, WORDS
from puffin.index.checksums import CRC_BYTES

DEFAULT_FPP = 0.01

_FPP_RANGE = (1e-6, 0.5)
_BITS = 32  # of a word
_BYTES_PER_FILE = 24  # of a compressed directory: mostly the random part of a path
_BYTES_PER_SEGMENT = 1024
_MOST_VALUES_PER_BLOCK = 400


def check_fpp(fpp: float) -> None:
    """Raise UsageError for a rate of false positives that is not between 0.000001 and 0.5."""
    lowest, highest = _FPP_RANGE
    if not lowest <= fpp <= highest:
        raise UsageError(f"fpp: expected a rate from {lowest:f} to {highest}, found {fpp}")


def index_bytes(distinct: npt.NDArray[np.float64], fpp: float) -> int:
    """The expected bytes of one segment, by the distinct values of each file; 0 without files."""
    if len(distinct) == 0:
        return 0
    blocks = np.maximum(distinct, 1) / values_per_block(fpp)
    lg_blocks = np.clip(np.ceil(np.log2(blocks)), 0, MOST_LG_BLOCKS).astype(np.int64)
    rows = 1 << np.unique(lg_blocks)
    of_filters = int((BLOCK_BYTES << lg_blocks).sum()) + int(rows.sum()) * CRC_BYTES
    return of_filters + len(distinct) * _BYTES_PER_FILE + _BYTES_PER_SEGMENT


@functools.lru_cache(maxsize=16)
def values_per_block(fpp: float) -> float:
    """How many distinct values a block may get on average, if a filter may have this rate of false positives."""
    low, high = 0.0, float(_MOST_VALUES_PER_BLOCK)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _rate(middle) <= fpp else (low, middle)
    return low


def _rate(load: float) -> float:
    """The rate of false positives if each block gets so many values on average, by chance."""
    counts = np.arange(1, 2 * _MOST_VALUES_PER_BLOCK)
    chances = np.exp(counts * np.log(load) - load - np.cumsum(np.log(counts)))  # Poisson
    shares = 1 - (1 - 1 / _BITS) ** counts
    return float((chances * shares**WORDS).sum())
