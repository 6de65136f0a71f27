"""The shortest big-endian two's complement of numbers, as words for the hash."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from puffin.kernels.compiler import INT64, INT64S, PAIR_OF_NEW_UINT64S, compiled

_U = np.uint64


@compiled(PAIR_OF_NEW_UINT64S, INT64S)
def minimal_words(values: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """The bytes of each number, first byte lowest, and their lengths."""
    words = np.empty(len(values), np.uint64)
    lengths = np.empty(len(values), np.uint64)
    for i in range(len(values)):
        value = values[i]
        magnitude = _U(value ^ (value >> 63))
        length = _U(1)
        for bit in range(7, 63, 8):
            length += _U(magnitude >> _U(bit) != 0)
        word = _U(value)
        word = ((word & _U(0x00FF00FF00FF00FF)) << _U(8)) | ((word >> _U(8)) & _U(0x00FF00FF00FF00FF))
        word = ((word & _U(0x0000FFFF0000FFFF)) << _U(16)) | ((word >> _U(16)) & _U(0x0000FFFF0000FFFF))
        word = (word << _U(32)) | (word >> _U(32))
        words[i] = word >> (_U(64) - (length << _U(3)))
        lengths[i] = length
    return words, lengths


@compiled(INT64, INT64S)
def total_length(halves: npt.NDArray[np.int64]) -> int:
    """The bytes that numbers take, each given as low and high half; -1 if the low half of one does not suffice."""
    total = 0
    is_long = 0
    for i in range(len(halves) // 2):
        low = halves[2 * i]
        sign = low >> 63
        is_long |= halves[2 * i + 1] ^ sign
        magnitude = low ^ sign
        total += 1
        for bit in range(7, 63, 8):
            total += magnitude >> bit != 0
    return -1 if is_long != 0 else total
