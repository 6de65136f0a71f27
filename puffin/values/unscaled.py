"""
Unscaled decimals as big-endian two's complement in the fewest bytes that hold the sign (table spec, appendix D).

A big-endian number of L bytes, loaded as little-endian words padded with zeros, is the byte-swapped number shifted
right by the omitted bytes. So this module never lays values out as bytes. It only groups them into up to 8 bytes, 9 to
15, and 16, because the hash takes words with a length for each, and treats a full block of 16 differently.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from puffin.kernels import kernels_ready
from puffin.values.serialized import SLICE_ROWS, WordArray, Words, for_kernel


def minimal_bytes(words: npt.NDArray[np.int64]) -> Iterator[Words]:
    """
    Serialize unscaled values to their minimal bytes, in up to three groups.

    ``words`` has one row per value, and at least one row: the 64 low bits and, in an optional second column, the 64
    high bits in two's complement. Without that column the low bits carry the sign.
    """
    low = words[:, 0]
    if words.shape[1] == 1:
        yield _up_to_eight(low)
        return
    high = words[:, 1]
    is_short = high == low >> 63
    if is_short.all():
        yield _up_to_eight(low)
        return
    if is_short.any():
        yield _up_to_eight(low[is_short])
        words = words[~is_short]
    yield from _nine_to_sixteen(words)


def minimal_sizes(words: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The size of each value in `minimal_bytes`; the words have two columns."""
    if len(words) == 0:
        return np.empty(0, np.int64)
    low, high = np.ascontiguousarray(words[:, 0]), words[:, 1]
    sizes = _byte_length(low)
    is_long = high != low >> 63
    if is_long.any():
        sizes[is_long] = _byte_length(high[is_long]) + np.uint64(8)
    return sizes.view(np.int64)


def group_order(words: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """The positions of values in the order in which `minimal_bytes` yields them; the words have two columns."""
    sizes = minimal_sizes(words)
    return np.argsort(np.where(sizes <= 8, 0, np.where(sizes == 16, 1, 2)), kind="stable")


def total_minimal_size(words: npt.NDArray[np.int64]) -> int:
    """The total size of the values in `minimal_bytes`; the words have two columns."""
    if kernels_ready():
        from puffin.kernels.decimals import total_length

        return int(total_length(for_kernel(words.reshape(-1))))
    slices = (words[start : start + SLICE_ROWS] for start in range(0, len(words), SLICE_ROWS))
    return sum(int(minimal_sizes(some).sum()) for some in slices)


def _up_to_eight(low: npt.NDArray[np.int64]) -> Words:
    if kernels_ready():
        from puffin.kernels.decimals import minimal_words

        words, lengths = minimal_words(for_kernel(low))
        return Words(words, None, lengths)
    length = _byte_length(low)
    return Words(low.view(np.uint64).byteswap() >> (64 - 8 * length), None, length)


def _nine_to_sixteen(halves: npt.NDArray[np.int64]) -> Iterator[Words]:
    if kernels_ready():
        yield from _nine_to_sixteen_compiled(halves)
        return
    low, high = halves[:, 0], halves[:, 1]
    length = _byte_length(high) + np.uint64(8)
    first, second = high.view(np.uint64).byteswap(), low.view(np.uint64).byteswap()
    is_full = length == 16
    if is_full.any():
        yield Words(first[is_full], second[is_full], 16)
    if not is_full.all():
        first, second, length = first[~is_full], second[~is_full], length[~is_full]
        left_out = 8 * (16 - length)
        yield Words((first >> left_out) | (second << (64 - left_out)), second >> left_out, length)


def _nine_to_sixteen_compiled(halves: npt.NDArray[np.int64]) -> Iterator[Words]:
    from puffin.kernels.decimals import minimal_pairs

    pairs = np.empty((len(halves), 2), np.uint64)
    length = minimal_pairs(for_kernel(halves.reshape(-1)), pairs.reshape(-1))
    is_full = length == 16
    fulls = int(np.count_nonzero(is_full))
    if fulls > 0:
        full = pairs if fulls == len(pairs) else pairs[is_full]
        yield Words(full[:, 0], full[:, 1], 16)
    if fulls < len(pairs):
        if fulls > 0:
            pairs, length = pairs[~is_full], length[~is_full]
        yield Words(pairs[:, 0], pairs[:, 1], length)


def _byte_length(values: npt.NDArray[np.int64]) -> WordArray:
    """The fewest bytes that hold each value with its sign: 127 takes one, 128 two."""
    magnitude = (values ^ (values >> 63)).view(np.uint64)
    largest = int(magnitude.max())
    length = np.ones(len(values), np.uint64)
    for sign_bit in range(7, 64, 8):
        if largest >> sign_bit == 0:
            break
        length += magnitude >= np.uint64(1 << sign_bit)
    return length
