"""
xxHash64 with seed 0 of serialized values: the hash of Parquet's Bloom filters.

Without compiled kernels numpy hashes all values of one length together, which is slow only where strings have very
many lengths.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from puffin.kernels import kernels_ready
from puffin.values.serialized import ByteStrings, SerializedValues, WordArray, for_kernel, words_at

_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_MASK = (1 << 64) - 1
_STARTS = ((_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK)


def hash_serialized(values: SerializedValues) -> WordArray:
    """Hash values in their order; those of `Words` have 4, 8 or 16 bytes."""
    if kernels_ready():
        return _hash_compiled(values)
    if isinstance(values, ByteStrings):
        return _hash_strings(values)
    words = [values.low] if values.high is None else [values.low, values.high]
    length = int(values.length)
    return _finish(np.full(len(values.low), (_P5 + length) & _MASK, np.uint64), words, length)


def _hash_compiled(values: SerializedValues) -> WordArray:
    from puffin.kernels.xxhash import hash_blocks, hash_strings, hash_words

    if isinstance(values, ByteStrings):
        data = np.ascontiguousarray(values.data)
        return hash_strings(data, words_at(data), values.offsets)
    # Arrow may place its buffers at odd addresses.
    if values.high is None:
        return hash_words(for_kernel(values.low), np.uint64(int(values.length)))
    return hash_blocks(np.require(values.low, np.uint64, ["A"]), np.require(values.high, np.uint64, ["A"]))


def _hash_strings(strings: ByteStrings) -> WordArray:
    hashes = np.empty(len(strings.offsets) - 1, np.uint64)
    lengths = np.diff(strings.offsets)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        padded = np.zeros((len(rows), -(-length // 8) * 8), np.uint8)
        padded[:, :length] = strings.data[strings.offsets[rows][:, None] + np.arange(length)]
        words = list(padded.view(np.uint64).T)
        stripes = length // 32 * 4
        state = _absorb_stripes(words[:stripes]) if stripes else np.full(len(rows), _P5, np.uint64)
        state += np.uint64(length)
        hashes[rows] = _finish(state, words[stripes:], length % 32)
    return hashes


def _absorb_stripes(words: list[WordArray]) -> WordArray:
    lanes = [np.full(len(words[0]), start, np.uint64) for start in _STARTS]
    for i, word in enumerate(words):
        lanes[i % 4] = _round(lanes[i % 4], word)
    rotated = (_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    state: WordArray = np.sum(list(rotated), axis=0, dtype=np.uint64)
    for lane in lanes:
        state = (state ^ _round(np.zeros_like(lane), lane)) * np.uint64(_P1) + np.uint64(_P4)
    return state


def _finish(state: WordArray, words: list[WordArray], length: int) -> WordArray:
    """Absorb ``length`` bytes that are left, in words padded with zeros, and mix the state."""
    for word in words[: length // 8]:
        state = _rotate(state ^ _round(np.zeros_like(word), word), 27) * np.uint64(_P1) + np.uint64(_P4)
    left = length % 8
    if left:
        rest = words[length // 8].copy()
        if left >= 4:
            half = rest & np.uint64(0xFFFFFFFF)
            state = _rotate(state ^ (half * np.uint64(_P1)), 23) * np.uint64(_P2) + np.uint64(_P3)
            rest >>= np.uint64(32)
        for _ in range(left % 4):
            byte = rest & np.uint64(0xFF)
            state = _rotate(state ^ (byte * np.uint64(_P5)), 11) * np.uint64(_P1)
            rest >>= np.uint64(8)
    state = (state ^ (state >> np.uint64(33))) * np.uint64(_P2)
    state = (state ^ (state >> np.uint64(29))) * np.uint64(_P3)
    return state ^ (state >> np.uint64(32))


def _round(state: WordArray, word: WordArray) -> WordArray:
    return _rotate(state + word * np.uint64(_P2), 31) * np.uint64(_P1)


def _rotate(words: npt.NDArray[np.uint64], bits: int) -> WordArray:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
