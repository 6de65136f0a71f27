"""
The hash of a theta sketch: MurmurHash3 x64 128 with seed 9001, first 64 bits shifted right by one.

Two arrays hold the hash state, one row for each value of a slice. Each step of the algorithm is one numpy pass over
them, in place where possible. Values of at most 16 bytes arrive as words and need no gathering. Byte strings absorb
their 16-byte blocks in lock-step, longest first, so the unfinished strings are always a prefix. The last few long
strings leave the lock-step and absorb one by one, because a numpy pass over three rows costs as much as one over a
thousand. The remaining 0 to 15 bytes of a string are again two words padded with zeros.

Compiled kernels, where loaded, do the same value by value and several times as fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.kernels import kernels_ready
from puffin.values.serialized import SLICE_ROWS, ByteStrings, SerializedValues, WordArray, Words, for_kernel, words_at
from puffin.values.single_value import single_values

_Integers: TypeAlias = npt.NDArray[np.int64]

SEED = 9001

C1 = 0x87C37B91114253D5
C2 = 0x4CF5AD432745937F
FMIX_1 = 0xFF51AFD7ED558CCD
FMIX_2 = 0xC4CEB9FE1A85EC53
ADD_1 = 0x52DCE729
ADD_2 = 0x38495AB5
_MASK = (1 << 64) - 1

_BLOCK = 16
_SLICE_BYTES = 1 << 24  # one longer value is a slice of its own
_FEW_ROWS = 32  # below this many rows a Python loop over the blocks is faster than numpy passes
_RUN_BLOCKS = 1 << 14

# _KEEP[n] keeps the first n bytes of a little-endian word.
_KEEP = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)


def hash_array(array: pa.Array | pa.ChunkedArray, type_string: str) -> Iterator[WordArray]:
    """
    Hash the values of a column as Iceberg's Java implementation does; arguments and errors are those of
    `single_values`.

    NULL, empty strings and empty binaries have no hash, as in Java. Hashes are below 2^63. They come in slices, with
    repetitions and in no particular order.
    """
    return (hash_serialized(values) for values in single_values(array, type_string))


def hash_serialized(values: SerializedValues) -> WordArray:
    """Hash serialized values in their order, without those of no bytes."""
    if isinstance(values, Words):
        if kernels_ready():
            return _hash_words_compiled(values)
        return _hash_words(values.low, values.high, values.length)
    return _hash_byte_strings_compiled(values) if kernels_ready() else _hash_byte_strings(values)


# --- compiled -----------------------------------------------------------------------------------------------------


def _hash_words_compiled(values: Words) -> WordArray:
    from puffin.kernels.murmur import hash_blocks, hash_pairs_of_lengths, hash_words, hash_words_of_lengths

    if values.high is None:
        low = for_kernel(values.low)  # Arrow may place its buffers at odd addresses
        if isinstance(values.length, int):
            return hash_words(low, np.uint64(values.length))
        return hash_words_of_lengths(low, values.length)
    low, high = (np.require(words, requirements="A") for words in (values.low, values.high))
    if not isinstance(values.length, int):
        return hash_pairs_of_lengths(low, high, values.length)
    if values.length == _BLOCK:
        return hash_blocks(low, high)
    return hash_pairs_of_lengths(low, high, np.full(len(low), values.length, np.uint64))


def _hash_byte_strings_compiled(strings: ByteStrings) -> WordArray:
    from puffin.kernels.murmur import hash_strings

    return hash_strings(strings.data, words_at(strings.data), strings.offsets)


# --- words --------------------------------------------------------------------------------------------------------


def _hash_words(low: WordArray, high: WordArray | None, length: int | WordArray) -> WordArray:
    h1 = np.full(len(low), SEED, np.uint64)
    h2 = np.full(len(low) if high is not None else 1, SEED, np.uint64)
    if isinstance(length, int) and length == _BLOCK and high is not None:
        _absorb_block(h1, h2, low, high)
    else:
        _absorb_tail(h1, h2, low, high)
    return _finish(h1, h2, np.uint64(length) if isinstance(length, int) else length)


def _absorb_block(h1: WordArray, h2: WordArray, low: WordArray, high: WordArray) -> None:
    h1 ^= _mix_low(low)
    _rotate(h1, 27)
    h1 += h2
    h1 *= 5
    h1 += ADD_1
    h2 ^= _mix_high(high)
    _rotate(h2, 31)
    h2 += h1
    h2 *= 5
    h2 += ADD_2


def _absorb_tail(h1: WordArray, h2: WordArray, low: WordArray, high: WordArray | None) -> None:
    """A missing byte is a zero byte: a word of zeros mixes to zero and changes nothing."""
    h1 ^= _mix_low(low)
    if high is not None:
        h2 ^= _mix_high(high)


def _mix_low(words: WordArray) -> WordArray:
    mixed = words * np.uint64(C1)
    _rotate(mixed, 31)
    mixed *= np.uint64(C2)
    return mixed


def _mix_high(words: WordArray) -> WordArray:
    mixed = words * np.uint64(C2)
    _rotate(mixed, 33)
    mixed *= np.uint64(C1)
    return mixed


def _rotate(words: WordArray, bits: int) -> None:
    wrapped = words >> (64 - bits)
    words <<= bits
    words |= wrapped


def _finish(h1: WordArray, h2: WordArray, length: WordArray | np.uint64) -> WordArray:
    """Overwrite ``h1``. ``h2`` may be one row for all while no value has more than eight bytes."""
    h1 ^= length
    h2 = h2 ^ length
    h1 += h2
    h2 = h2 + h1
    _avalanche(h1)
    _avalanche(h2)
    h1 += h2
    h1 >>= 1
    return h1


def _avalanche(words: WordArray) -> None:
    words ^= words >> 33
    words *= np.uint64(FMIX_1)
    words ^= words >> 33
    words *= np.uint64(FMIX_2)
    words ^= words >> 33


# --- byte strings -------------------------------------------------------------------------------------------------


def _hash_byte_strings(strings: ByteStrings) -> WordArray:
    lengths = np.diff(strings.offsets)
    starts, lengths = strings.offsets[:-1][lengths > 0], lengths[lengths > 0]
    slices = [np.empty(0, np.uint64)]
    row = 0
    while row < len(starts):
        within = int(np.searchsorted(starts, starts[row] + _SLICE_BYTES))
        stop = min(max(within, row + 1), row + SLICE_ROWS)
        slices.append(_hash_slice(strings.data, starts[row:stop], lengths[row:stop]))
        row = stop
    return np.concatenate(slices)


def _hash_slice(data: npt.NDArray[np.uint8], starts: _Integers, lengths: _Integers) -> WordArray:
    """Hash neighbouring strings of at least one byte each."""
    begin, end = int(starts[0]), int(starts[-1] + lengths[-1])
    padded = np.empty(end - begin + _BLOCK, np.uint8)  # the masks clear what the last strings load beyond the end
    padded[: end - begin] = data[begin:end]
    words = words_at(padded)

    blocks = lengths >> 4
    longest_first = np.argsort(-blocks) if blocks.min() != blocks.max() else None
    if longest_first is not None:
        starts, lengths, blocks = starts[longest_first], lengths[longest_first], blocks[longest_first]
    positions = starts - begin
    h1 = np.full(len(starts), SEED, np.uint64)
    h2 = np.full(len(starts), SEED, np.uint64)
    _absorb_blocks(h1, h2, words, positions, blocks)

    tails = positions + (blocks << 4)
    tail_lengths = lengths & 15
    low = words[tails] & _KEEP[np.minimum(tail_lengths, 8)]
    is_long_tail = int(tail_lengths.max()) > 8
    high = words[tails + 8] & _KEEP[np.maximum(tail_lengths - 8, 0)] if is_long_tail else None
    _absorb_tail(h1, h2, low, high)
    hashes = _finish(h1, h2, lengths.view(np.uint64))
    if longest_first is None:
        return hashes
    in_order = np.empty_like(hashes)
    in_order[longest_first] = hashes
    return in_order


def _absorb_blocks(h1: WordArray, h2: WordArray, words: WordArray, positions: _Integers, blocks: _Integers) -> None:
    """Advance the two states row by row together until few rows are left; ``blocks`` descends."""
    fewest_first = blocks[::-1]
    done = 0
    while (rows := len(blocks) - int(np.searchsorted(fewest_first, done, "right"))) > _FEW_ROWS:
        here = positions[:rows] + done * _BLOCK
        _absorb_block(h1[:rows], h2[:rows], words[here], words[here + 8])
        done += 1
    for row in range(rows):
        begin, end = int(positions[row]) + done * _BLOCK, int(positions[row] + blocks[row] * _BLOCK)
        for start in range(begin, end, _RUN_BLOCKS * _BLOCK):
            stop = min(start + _RUN_BLOCKS * _BLOCK, end)
            low, high = words[start:stop:_BLOCK], words[start + 8 : stop + 8 : _BLOCK]
            h1[row], h2[row] = _absorb_run(int(h1[row]), int(h2[row]), low, high)


def _absorb_run(h1: int, h2: int, low: WordArray, high: WordArray) -> tuple[int, int]:
    """`_absorb_block` for consecutive blocks of one string; Python only computes the chain of states."""
    for k1, k2 in zip(_mix_low(low).tolist(), _mix_high(high).tolist(), strict=True):
        h1 ^= k1
        h1 = (((h1 << 27) | (h1 >> 37)) + h2) & _MASK
        h1 = (h1 * 5 + ADD_1) & _MASK
        h2 ^= k2
        h2 = (((h2 << 31) | (h2 >> 33)) + h1) & _MASK
        h2 = (h2 * 5 + ADD_2) & _MASK
    return h1, h2
