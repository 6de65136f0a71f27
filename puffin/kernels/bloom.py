"""
Split-block Bloom filters (Parquet format, "Bloom Filter"): insert hashes; `puffin.index.bloom` has it in numpy.

Each access to a block outside the processor's cache costs as much as several hashes. So hashes for a large filter are
sorted by its parts first; that pays for many at a time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from puffin.kernels.compiler import NEW_UINT32S, NONE, STRIDED_UINT64S, UINT64, compiled, inlined

_U = np.uint64
_U32 = np.uint32
_PARTS, _PART_SHIFT = 64, 58


@inlined
def _set_bits(words: npt.NDArray[np.uint32], hash_: np.uint64, shift: np.uint64) -> None:
    """Set the bits of a hash; ``shift`` is 32 less the logarithm of the number of blocks."""
    first = np.int64((hash_ >> _U(32)) >> shift) * 8
    key = _U32(hash_)
    # Written out, so that the compiler makes one vector of the eight words.
    words[first] |= _U32(1) << (_U32(key * _U32(0x47B6137B)) >> _U32(27))
    words[first + 1] |= _U32(1) << (_U32(key * _U32(0x44974D91)) >> _U32(27))
    words[first + 2] |= _U32(1) << (_U32(key * _U32(0x8824AD5B)) >> _U32(27))
    words[first + 3] |= _U32(1) << (_U32(key * _U32(0xA2B7289D)) >> _U32(27))
    words[first + 4] |= _U32(1) << (_U32(key * _U32(0x705495C7)) >> _U32(27))
    words[first + 5] |= _U32(1) << (_U32(key * _U32(0x2DF1424B)) >> _U32(27))
    words[first + 6] |= _U32(1) << (_U32(key * _U32(0x9EFC4947)) >> _U32(27))
    words[first + 7] |= _U32(1) << (_U32(key * _U32(0x5C6BFB31)) >> _U32(27))


@compiled(NONE, NEW_UINT32S, STRIDED_UINT64S, UINT64)
def insert(words: npt.NDArray[np.uint32], hashes: npt.NDArray[np.uint64], shift: np.uint64) -> None:
    """Set the bits of hashes in a filter of eight words a block."""
    for i in range(len(hashes)):
        _set_bits(words, hashes[i], shift)


@compiled(NONE, NEW_UINT32S, STRIDED_UINT64S, UINT64)
def insert_many(words: npt.NDArray[np.uint32], hashes: npt.NDArray[np.uint64], shift: np.uint64) -> None:
    """As `insert`, part by part of the filter."""
    ends = np.zeros(_PARTS + 1, np.int64)
    for i in range(len(hashes)):
        ends[np.int64(hashes[i] >> _U(_PART_SHIFT)) + 1] += 1
    for k in range(_PARTS):
        ends[k + 1] += ends[k]
    by_part = np.empty(len(hashes), np.uint64)
    for i in range(len(hashes)):
        part = np.int64(hashes[i] >> _U(_PART_SHIFT))
        by_part[ends[part]] = hashes[i]
        ends[part] += 1
    for i in range(len(by_part)):
        _set_bits(words, by_part[i], shift)
