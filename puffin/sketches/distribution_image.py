"""
The byte image of distributions: the payload of a ``puffin-sidecar-distribution-v1`` blob.

Everything is little-endian. Arrays of numbers are byte planes, as in row counts: the lowest bytes of all numbers, then
their second bytes, up to their highest::

    byte   0  version            1 byte, 1
           1  flags              1 byte: bit 0 set if there are values, bit 1 if there are buckets, the others 0
           2  seed hash          2 bytes, as in the image of a sketch
           4  count              4 bytes
           8  theta              8 bytes
          16  rows               8 bytes
          24  missed             8 bytes
          32  hashes             8 planes of count bytes; ascending, distinct, above 0
      then    low                8 planes of count bytes; each at most rows
      then    slack              8 planes of count bytes: high less low
      then    heavy              count bytes, each 0 or 1
    if there are values
      then    lengths            count bytes; 128 more for a value that was cut
      then    values             the bytes of one value after the other
    if there are buckets
      then    width              1 byte: 1, 2, 4 or 8, the fewest planes that the largest bucket needs
      then    exponent           1 byte: 15 or 16
      then    buckets            width planes of 2^exponent bytes; the rows of each bucket, rows together

A value that is not heavy is in the sample: its hash is below theta.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.sketches.image_arrays import from_planes, to_planes
from puffin.sketches.image_rules import SEED_HASH, ImageRules
from puffin.sketches.theta_image import MAX_THETA
from puffin.values.value_bytes import MOST_BYTES, binary_array, contents

if TYPE_CHECKING:
    from puffin.sketches.distribution import Distribution

MAX_COUNT = 1 << 20
"""The most values to read."""
FEWER_BUCKETS, BUCKETS = 1 << 15, 1 << 16
"""How many buckets count the rows of all values."""
FLAGS_OFFSET, HAS_VALUES = 1, 1
"""The byte of an image, and its bit, that say whether there are values."""

_RULES = ImageRules("distribution")
_expect = _RULES.expect
_VERSION, _HAS_BUCKETS, _IS_CUT = 1, 2, 128
_WIDTHS = 1, 2, 4, 8
_PREAMBLE = struct.Struct("<BBHIQQQ")
_VERSION_OFFSET, _SEED_HASH_OFFSET = 0, 2
_COUNT_OFFSET, _THETA_OFFSET, _ROWS_OFFSET, _MISSED_OFFSET = 4, 8, 16, 24
_MAX_ROWS = (1 << 63) - 1
_WORD = 8
_HALF = 32  # bits


def write_image(found: Distribution) -> bytes:
    count, values = len(found.hashes), found.values
    flags = (0 if values is None else HAS_VALUES) | (0 if found.buckets is None else _HAS_BUCKETS)
    head = _PREAMBLE.pack(_VERSION, flags, SEED_HASH, count, found.theta, found.rows, found.missed)
    numbers = (found.hashes, found.low, found.high - found.low)
    planes = [to_planes(each.astype("<u8", copy=False)) for each in numbers]
    parts = [head, *planes, found.is_heavy.astype(np.uint8).tobytes()]
    if values is not None:
        lengths, data = contents(values)
        parts += [(lengths + np.where(found.is_cut, _IS_CUT, 0)).astype(np.uint8).tobytes(), data.tobytes()]
    if found.buckets is not None:
        width = _width_of(found.buckets)
        parts += [bytes([width, len(found.buckets).bit_length() - 1]), to_planes(found.buckets.astype(f"<u{width}"))]
    return b"".join(parts)


def parse_image(image: bytes | bytearray | memoryview, make: type[Distribution]) -> Distribution:
    """Read a distribution; raise CorruptSketchError if a field breaks its rule."""
    view = memoryview(image).cast("B")
    _RULES.expect_at_least(view, _PREAMBLE.size)
    version, flags, seed_hash, count, theta, rows, missed = _PREAMBLE.unpack_from(view)
    _expect(version == _VERSION, _VERSION_OFFSET, "version", _VERSION, version)
    _expect(flags & ~(HAS_VALUES | _HAS_BUCKETS) == 0, FLAGS_OFFSET, "flags", "0 to 3", flags)
    _RULES.expect_seed_hash(seed_hash, _SEED_HASH_OFFSET)
    _RULES.expect_at_most(count, MAX_COUNT, _COUNT_OFFSET, "count")
    _expect(1 <= theta <= MAX_THETA, _THETA_OFFSET, "theta", f"1 to {MAX_THETA}", theta)
    _RULES.expect_at_most(rows, _MAX_ROWS, _ROWS_OFFSET, "rows")
    _RULES.expect_at_most(missed, rows, _MISSED_OFFSET, "missed")
    at = [_PREAMBLE.size + i * count * _WORD for i in range(4)]
    heavy_at, lengths_at = at[3], at[3] + count
    size = lengths_at + (count if flags & HAS_VALUES else 0)
    _RULES.expect_at_least(view, size)
    hashes, low, slack = (from_planes(view[start : start + count * _WORD], _WORD).astype(np.uint64) for start in at[:3])
    is_above = np.ones(count, np.bool_)
    is_above[1:] = hashes[1:] > hashes[:-1]
    is_sound = is_above & (hashes > 0) & (hashes <= MAX_THETA)
    _RULES.expect_each(hashes, is_sound, (at[0], 1), "hash", "above the one before it")
    _RULES.expect_each(low, low <= rows, (at[1], 1), "low", f"at most {rows}")
    _RULES.expect_each(slack, slack <= np.uint64(rows) - low, (at[2], 1), "slack", f"at most {rows} with low")
    heavy = np.frombuffer(view[heavy_at:lengths_at], np.uint8)
    _RULES.expect_each(heavy, heavy <= 1, (heavy_at, 1), "heavy", "0 or 1")
    is_heavy = heavy.astype(np.bool_)
    _RULES.expect_each(hashes, is_heavy | (hashes < theta), (at[0], 1), "hash", f"below theta {theta}")
    values, is_cut = None, np.zeros(count, np.bool_)
    if flags & HAS_VALUES:
        values, is_cut, size = _parse_values(view, lengths_at, count)
    buckets = None
    if flags & _HAS_BUCKETS:
        buckets, size = _parse_buckets(view, size, rows)
    _RULES.expect_size(view, size)
    return make(
        rows=rows,
        missed=missed,
        theta=theta,
        hashes=hashes,
        low=low,
        high=low + slack,
        is_heavy=is_heavy,
        values=values,
        is_cut=is_cut,
        buckets=buckets,
    )


def _parse_values(view: memoryview, at: int, count: int) -> tuple[pa.LargeBinaryArray, npt.NDArray[np.bool_], int]:
    """The values, whether each was cut, and where they end; their lengths begin at an offset."""
    start = at + count
    lengths = np.frombuffer(view[at:start], np.uint8).astype(np.int64)
    is_cut, lengths = lengths >= _IS_CUT, lengths % _IS_CUT
    _RULES.expect_each(lengths, lengths <= MOST_BYTES, (at, 1), "length", f"at most {MOST_BYTES}")
    size = start + int(lengths.sum())
    _RULES.expect_at_least(view, size)
    return binary_array(lengths, np.frombuffer(view[start:size], np.uint8)), is_cut, size


def _parse_buckets(view: memoryview, at: int, rows: int) -> tuple[npt.NDArray[np.uint64], int]:
    """The buckets from an offset on, and where they end."""
    start = at + 2
    _RULES.expect_at_least(view, start)
    width, exponent = view[at], view[at + 1]
    _expect(width in _WIDTHS, at, "width", "1, 2, 4 or 8", width)
    _expect(1 << exponent in (FEWER_BUCKETS, BUCKETS), at + 1, "exponent", "15 or 16", exponent)
    size = start + (width << exponent)
    _RULES.expect_at_least(view, size)
    buckets = from_planes(view[start:size], width).astype(np.uint64)
    _expect(width == _width_of(buckets), at, "width", _width_of(buckets), width)
    total = _total(buckets)
    _expect(total == rows, start, "rows of all buckets", rows, total)
    return buckets, size


def _total(buckets: npt.NDArray[np.uint64]) -> int:
    """The rows of all buckets; they may be too many for 64 bits."""
    high, low = buckets >> np.uint64(_HALF), buckets & np.uint64((1 << _HALF) - 1)
    return (int(high.sum()) << _HALF) + int(low.sum())


def _width_of(buckets: npt.NDArray[np.uint64]) -> int:
    most = int(buckets.max())
    return next(width for width in _WIDTHS if most < 1 << 8 * width)
