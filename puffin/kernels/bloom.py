"""
Split-block Bloom filters (Parquet format, "Bloom Filter"): insert hashes; `puffin.index.bloom` has it in numpy.

The bits of some hundred hashes are computed first, in loops that the compiler vectorizes. The loop that sets them is
then short enough for several cache misses to overlap.
"""

from __future__ import annotations

import numpy as np

from puffin.kernels.compiler import NEW_UINT64S, NONE, UINT64, UINT64S, Uint32s, Uint64s, compiled, inlined

_U = np.uint64
_U32 = np.uint32
_HALF = _U(32)
_TO_BIT = _U32(27)
_AT_ONCE = 512


@inlined
def _find_bits(keys: Uint32s, salts: tuple[int, int], bits: Uint64s) -> None:
    """The bits that keys set in two neighbouring words of their blocks."""
    for k in range(len(keys)):
        i = _U(k)
        low = _U32(1) << (_U32(keys[i] * _U32(salts[0])) >> _TO_BIT)
        high = _U32(1) << (_U32(keys[i] * _U32(salts[1])) >> _TO_BIT)
        bits[i] = _U(low) | (_U(high) << _HALF)


@compiled(NONE, NEW_UINT64S, UINT64S, UINT64)
def insert(pairs: Uint64s, hashes: Uint64s, shift: np.uint64) -> None:
    """
    Set the bits of hashes in a filter.

    Args:
        pairs: The words of the filter in pairs, the first in the low half: four for each block; updated.
        shift: 32 less the logarithm of the number of blocks.
    """
    keys = np.empty(_AT_ONCE, np.uint32)
    a, b = np.empty(_AT_ONCE, np.uint64), np.empty(_AT_ONCE, np.uint64)
    c, d = np.empty(_AT_ONCE, np.uint64), np.empty(_AT_ONCE, np.uint64)
    for start in range(0, len(hashes), _AT_ONCE):
        some = hashes[start : start + _AT_ONCE]
        for k in range(len(some)):
            keys[_U(k)] = _U32(some[_U(k)])
        of_some = keys[: len(some)]
        _find_bits(of_some, (0x47B6137B, 0x44974D91), a)
        _find_bits(of_some, (0x8824AD5B, 0xA2B7289D), b)
        _find_bits(of_some, (0x705495C7, 0x2DF1424B), c)
        _find_bits(of_some, (0x9EFC4947, 0x5C6BFB31), d)
        for k in range(len(some)):
            i = _U(k)
            block = ((some[i] >> _HALF) >> shift) * _U(4)
            pairs[block] |= a[i]
            pairs[block + _U(1)] |= b[i]
            pairs[block + _U(2)] |= c[i]
            pairs[block + _U(3)] |= d[i]
