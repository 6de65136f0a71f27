"""
MurmurHash3 x64 128 with seed 9001, first 64 bits shifted right by one: the hash of a theta sketch, value by value.

``puffin.sketches.hashing`` does the same in numpy, pass by pass, and documents the input. Words and lengths are all
``uint64``: with one signed number in a sum, numba would compute in floating point.
"""

from __future__ import annotations

import numpy as np

from puffin.kernels.compiler import (
    BYTES,
    INT64S,
    NEW_UINT64S,
    STRIDED_UINT64S,
    UINT64,
    UINT64S,
    WORDS_AT_EVERY_BYTE,
    Bytes,
    Int64s,
    Uint64s,
    WordsAt,
    compiled,
    inlined,
)

_U = np.uint64
_SEED = _U(9001)
_C1, _C2 = _U(0x87C37B91114253D5), _U(0x4CF5AD432745937F)
_FMIX_1, _FMIX_2 = _U(0xFF51AFD7ED558CCD), _U(0xC4CEB9FE1A85EC53)
_ADD_1, _ADD_2 = _U(0x52DCE729), _U(0x38495AB5)
_ONE, _FIVE, _EIGHT = _U(1), _U(5), _U(8)
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)  # of the first bytes of a word
_AT_ONCE = 512  # strings


@inlined
def _rotate(word: np.uint64, bits: int) -> np.uint64:
    return (word << _U(bits)) | (word >> _U(64 - bits))


@inlined
def _mix_low(word: np.uint64) -> np.uint64:
    return _rotate(word * _C1, 31) * _C2


@inlined
def _mix_high(word: np.uint64) -> np.uint64:
    return _rotate(word * _C2, 33) * _C1


@inlined
def _avalanche(word: np.uint64) -> np.uint64:
    word ^= word >> _U(33)
    word *= _FMIX_1
    word ^= word >> _U(33)
    word *= _FMIX_2
    return word ^ (word >> _U(33))


@inlined
def _finish(h1: np.uint64, h2: np.uint64, length: np.uint64) -> np.uint64:
    h1 ^= length
    h2 ^= length
    h1 += h2
    h2 += h1
    return (_avalanche(h1) + _avalanche(h2)) >> _ONE


@compiled(NEW_UINT64S, UINT64S, UINT64)
def hash_words(low: Uint64s, length: np.uint64) -> Uint64s:
    """Hash values of one length of at most eight bytes."""
    hashes = np.empty(len(low), np.uint64)
    for i in range(len(low)):
        hashes[i] = _finish(_SEED ^ _mix_low(low[i]), _SEED, length)
    return hashes


@compiled(NEW_UINT64S, UINT64S, UINT64S)
def hash_words_of_lengths(low: Uint64s, lengths: Uint64s) -> Uint64s:
    """Hash values of at most eight bytes, each with its length."""
    hashes = np.empty(len(low), np.uint64)
    for i in range(len(low)):
        hashes[i] = _finish(_SEED ^ _mix_low(low[i]), _SEED, lengths[i])
    return hashes


@compiled(NEW_UINT64S, STRIDED_UINT64S, STRIDED_UINT64S, UINT64S)
def hash_pairs_of_lengths(low: Uint64s, high: Uint64s, lengths: Uint64s) -> Uint64s:
    """Hash values of nine to fifteen bytes, each with its length."""
    hashes = np.empty(len(low), np.uint64)
    for i in range(len(low)):
        hashes[i] = _finish(_SEED ^ _mix_low(low[i]), _SEED ^ _mix_high(high[i]), lengths[i])
    return hashes


@compiled(NEW_UINT64S, STRIDED_UINT64S, STRIDED_UINT64S)
def hash_blocks(low: Uint64s, high: Uint64s) -> Uint64s:
    """Hash values of sixteen bytes."""
    hashes = np.empty(len(low), np.uint64)
    for i in range(len(low)):
        h1 = (_rotate(_SEED ^ _mix_low(low[i]), 27) + _SEED) * _FIVE + _ADD_1
        h2 = (_rotate(_SEED ^ _mix_high(high[i]), 31) + h1) * _FIVE + _ADD_2
        hashes[i] = _finish(h1, h2, _U(16))
    return hashes


@compiled(NEW_UINT64S, BYTES, WORDS_AT_EVERY_BYTE, INT64S)
def hash_strings(data: Bytes, words_at: WordsAt, offsets: Int64s) -> Uint64s:
    """
    Hash the strings ``data[offsets[i]:offsets[i + 1]]``, without the empty ones.

    ``words_at`` has the little-endian word at each byte of ``data`` that has seven more after it.
    """
    hashes = np.empty(len(offsets) - 1, np.uint64)
    h1s, h2s, lengths = np.empty((3, _AT_ONCE), np.uint64)
    lows, highs = np.empty((2, _AT_ONCE), np.uint64)
    done = 0
    for start in range(0, len(hashes), _AT_ONCE):
        found = _U(0)
        for i in range(start, min(start + _AT_ONCE, len(hashes))):
            at = offsets[i]
            length = offsets[i + 1] - at
            h1 = h2 = _SEED
            for _ in range(length >> 4):
                h1 = (_rotate(h1 ^ _mix_low(words_at[_U(at)]), 27) + h2) * _FIVE + _ADD_1
                h2 = (_rotate(h2 ^ _mix_high(words_at[_U(at + 8)]), 31) + h1) * _FIVE + _ADD_2
                at += 16
            left = length & 15
            if at + 16 <= len(data):
                # Two whole words, masked to the end of the string: a branch would often be mispredicted.
                low = words_at[_U(at)] & _MASKS[_U(min(left, 8))]
                high = words_at[_U(at + 8)] & _MASKS[_U(max(left - 8, 0))]
            else:
                low = high = _U(0)
                for j in range(left):
                    if j < 8:
                        low |= _U(data[at + j]) << _EIGHT * _U(j)
                    else:
                        high |= _U(data[at + j]) << _EIGHT * _U(j - 8)
            h1s[found], h2s[found], lengths[found], lows[found], highs[found] = h1, h2, _U(length), low, high
            found += _U(length != 0)
        of_some = hashes[done : done + np.int64(found)]
        for k in range(len(of_some)):  # the compiler makes vectors of this loop
            at_k = _U(k)
            h1, h2 = h1s[at_k] ^ _mix_low(lows[at_k]), h2s[at_k] ^ _mix_high(highs[at_k])
            of_some[at_k] = _finish(h1, h2, lengths[at_k])
        done += len(of_some)
    return hashes[:done]
