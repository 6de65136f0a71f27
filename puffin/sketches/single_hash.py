"""The hash of a theta sketch for one value at a time: numpy takes too long for the single value of a lookup."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from puffin.sketches.hashing import ADD_1, ADD_2, C1, C2, FMIX_1, FMIX_2, SEED

_MASK = (1 << 64) - 1
_BLOCK, _WORD = 16, 8


@functools.lru_cache(1024)  # a filter asks for a hash up to three times
def hash_one(data: bytes) -> int:
    """The hash of a serialized value, as `puffin.sketches.hashing` computes it for arrays of them."""
    h1 = h2 = SEED
    length = len(data)
    ends = length - length % _BLOCK
    for start in range(0, ends, _BLOCK):
        low = int.from_bytes(data[start : start + _WORD], "little")
        high = int.from_bytes(data[start + _WORD : start + _BLOCK], "little")
        h1 ^= _mixed(low, C1, 31, C2)
        h1 = ((h1 << 27 | h1 >> 37) + h2 & _MASK) * 5 + ADD_1 & _MASK
        h2 ^= _mixed(high, C2, 33, C1)
        h2 = ((h2 << 31 | h2 >> 33) + h1 & _MASK) * 5 + ADD_2 & _MASK
    if ends < length:
        h1 ^= _mixed(int.from_bytes(data[ends : ends + _WORD], "little"), C1, 31, C2)
        if length - ends > _WORD:
            h2 ^= _mixed(int.from_bytes(data[ends + _WORD :], "little"), C2, 33, C1)
    h1, h2 = h1 ^ length, h2 ^ length
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return (_avalanche(h1) + _avalanche(h2) & _MASK) >> 1


def hash_tuple(hashes: Sequence[int]) -> int:
    """The hash of a tuple from those of its values, as `puffin.sketches.tuple_hashes` computes it."""
    return max(1, hash_one(b"".join(each.to_bytes(_WORD, "little") for each in hashes)))


def _mixed(word: int, before: int, bits: int, after: int) -> int:
    word = word * before & _MASK
    return (word << bits | word >> 64 - bits) * after & _MASK


def _avalanche(word: int) -> int:
    word = (word ^ word >> 33) * FMIX_1 & _MASK
    word = (word ^ word >> 33) * FMIX_2 & _MASK
    return word ^ word >> 33
