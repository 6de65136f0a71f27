"""xxHash64 with seed 0, the hash of Parquet's Bloom filters, value by value; `puffin.index.xxhash` has it in numpy."""

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
_P1, _P2, _P3 = _U(0x9E3779B185EBCA87), _U(0xC2B2AE3D27D4EB4F), _U(0x165667B19E3779F9)
_P4, _P5 = _U(0x85EBCA77C2B2AE63), _U(0x27D4EB2F165667C5)
_LOW_HALF = _U(0xFFFFFFFF)
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)  # of the first bytes of a word
_AT_ONCE = 512  # strings
_START_1, _START_2, _START_3, _START_4 = _U(0x60EA27EEADC0B5D6), _P2, _U(0), _U(0x61C8864E7A143579)


@inlined
def _rotate(word: np.uint64, bits: int) -> np.uint64:
    return (word << _U(bits)) | (word >> _U(64 - bits))


@inlined
def _round(state: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(state + word * _P2, 31) * _P1


@inlined
def _absorb(state: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(state ^ (_rotate(word * _P2, 31) * _P1), 27) * _P1 + _P4


@inlined
def _absorb_half(state: np.uint64, half: np.uint64) -> np.uint64:
    return _rotate(state ^ (half * _P1), 23) * _P2 + _P3


@inlined
def _absorb_byte(state: np.uint64, byte: np.uint64) -> np.uint64:
    return _rotate(state ^ ((byte & _U(0xFF)) * _P5), 11) * _P1


@inlined
def _absorb_tail(state: np.uint64, tail: np.uint64, left: np.uint64) -> np.uint64:
    """The bytes that are left, at most seven; a branch for each would often be mispredicted."""
    has_half = left >= _U(4)
    state = _absorb_half(state, tail & _LOW_HALF) if has_half else state
    tail = tail >> _U(32) if has_half else tail
    left &= _U(3)
    state = _absorb_byte(state, tail) if left > _U(0) else state
    state = _absorb_byte(state, tail >> _U(8)) if left > _U(1) else state
    return _absorb_byte(state, tail >> _U(16)) if left > _U(2) else state


@inlined
def _avalanche(state: np.uint64) -> np.uint64:
    state ^= state >> _U(33)
    state *= _P2
    state ^= state >> _U(29)
    state *= _P3
    return state ^ (state >> _U(32))


@compiled(NEW_UINT64S, UINT64S, UINT64)
def hash_words(low: Uint64s, length: np.uint64) -> Uint64s:
    """Hash values of four or of eight bytes."""
    hashes = np.empty(len(low), np.uint64)
    if length == _U(4):
        for i in range(len(low)):
            hashes[i] = _avalanche(_absorb_half(_P5 + length, low[i] & _LOW_HALF))
    else:
        for i in range(len(low)):
            hashes[i] = _avalanche(_absorb(_P5 + length, low[i]))
    return hashes


@compiled(NEW_UINT64S, STRIDED_UINT64S, STRIDED_UINT64S)
def hash_blocks(low: Uint64s, high: Uint64s) -> Uint64s:
    """Hash values of sixteen bytes."""
    hashes = np.empty(len(low), np.uint64)
    for i in range(len(low)):
        hashes[i] = _avalanche(_absorb(_absorb(_P5 + _U(16), low[i]), high[i]))
    return hashes


@compiled(NEW_UINT64S, BYTES, WORDS_AT_EVERY_BYTE, INT64S)
def hash_strings(data: Bytes, words_at: WordsAt, offsets: Int64s) -> Uint64s:
    """
    Hash the strings ``data[offsets[i]:offsets[i + 1]]``.

    ``words_at`` has the little-endian word at each byte of ``data`` that has seven more after it.
    """
    hashes = np.empty(len(offsets) - 1, np.uint64)
    states, tails, lefts = np.empty((3, _AT_ONCE), np.uint64)
    for start in range(0, len(hashes), _AT_ONCE):
        some = hashes[start : start + _AT_ONCE]
        for k in range(len(some)):
            at, end = offsets[start + k], offsets[start + k + 1]
            length = end - at
            state = _P5
            if length >= 32:
                v1, v2, v3, v4 = _START_1, _START_2, _START_3, _START_4
                while at + 32 <= end:
                    v1, v2 = _round(v1, words_at[_U(at)]), _round(v2, words_at[_U(at + 8)])
                    v3, v4 = _round(v3, words_at[_U(at + 16)]), _round(v4, words_at[_U(at + 24)])
                    at += 32
                state = _rotate(v1, 1) + _rotate(v2, 7) + _rotate(v3, 12) + _rotate(v4, 18)
                state = (state ^ _round(_U(0), v1)) * _P1 + _P4
                state = (state ^ _round(_U(0), v2)) * _P1 + _P4
                state = (state ^ _round(_U(0), v3)) * _P1 + _P4
                state = (state ^ _round(_U(0), v4)) * _P1 + _P4
            state += _U(length)
            while at + 8 <= end:
                state = _absorb(state, words_at[_U(at)])
                at += 8
            tail = _U(0)
            if at + 8 <= len(data):
                tail = words_at[_U(at)] & _MASKS[_U(end - at)]
            else:
                for j in range(end - at):
                    tail |= _U(data[at + j]) << _U(8 * j)
            states[_U(k)], tails[_U(k)], lefts[_U(k)] = state, tail, _U(end - at)
        for k in range(len(some)):  # the compiler makes vectors of this loop
            at_k = _U(k)
            some[at_k] = _avalanche(_absorb_tail(states[at_k], tails[at_k], lefts[at_k]))
    return hashes
