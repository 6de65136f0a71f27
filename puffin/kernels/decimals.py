"""The shortest big-endian two's complement of numbers, as words for the hash."""

from __future__ import annotations

from typing import Any

import numpy as np

from puffin.kernels.compiler import INT64, INT64S, NEW_UINT64S, PAIR_OF_NEW_UINT64S, Int64s, Uint64s, compiled, inlined

_U = np.uint64


@inlined
def _length(value: np.int64) -> np.uint64:
    magnitude = _U(value ^ (value >> 63))
    length = _U(1)
    for bit in range(7, 63, 8):
        length += _U(magnitude >> _U(bit) != 0)
    return length


@inlined
def swapped(word: Any) -> Any:
    """A word with its bytes in reverse."""
    word = ((word & _U(0x00FF00FF00FF00FF)) << _U(8)) | ((word >> _U(8)) & _U(0x00FF00FF00FF00FF))
    word = ((word & _U(0x0000FFFF0000FFFF)) << _U(16)) | ((word >> _U(16)) & _U(0x0000FFFF0000FFFF))
    return (word << _U(32)) | (word >> _U(32))


@compiled(PAIR_OF_NEW_UINT64S, INT64S)
def minimal_words(values: Int64s) -> tuple[Uint64s, Uint64s]:
    """The bytes of each number, first byte lowest, and their lengths."""
    words = np.empty(len(values), np.uint64)
    lengths = np.empty(len(values), np.uint64)
    for i in range(len(values)):
        length = _length(values[i])
        words[i] = swapped(_U(values[i])) >> (_U(64) - (length << _U(3)))
        lengths[i] = length
    return words, lengths


@compiled(NEW_UINT64S, INT64S, NEW_UINT64S)
def minimal_pairs(halves: Int64s, pairs: Uint64s) -> Uint64s:
    """
    Fill in the bytes of numbers that need nine to sixteen, two words each, and return their lengths.

    Each number is given as low and high half.
    """
    lengths = np.empty(len(halves) >> 1, np.uint64)
    for i in range(len(halves) >> 1):
        first, second = swapped(_U(halves[2 * i + 1])), swapped(_U(halves[2 * i]))
        length = _length(halves[2 * i + 1]) + _U(8)
        omitted = (_U(16) - length) << _U(3)
        if omitted > _U(0):
            first = (first >> omitted) | (second << (_U(64) - omitted))
            second >>= omitted
        pairs[2 * i] = first
        pairs[2 * i + 1] = second
        lengths[i] = length
    return lengths


@compiled(INT64, INT64S)
def total_length(halves: Int64s) -> int:
    """The bytes that numbers take, each given as low and high half."""
    total = _U(0)
    for i in range(len(halves) // 2):
        low, high = halves[2 * i], halves[2 * i + 1]
        is_long = high != low >> 63
        total += _length(high if is_long else low) + (_U(is_long) << _U(3))
    return int(total)
