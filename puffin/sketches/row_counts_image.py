"""
The byte image of row counts: the payload of a ``puffin-sidecar-row-counts-v1`` blob.

Everything is little-endian. Hashes and rows follow a preamble, each as eight byte planes: the lowest bytes of all
numbers, then their second bytes, up to their highest::

    byte   0  version            1 byte, 1
           1  reserved           1 byte, 0
           2  seed hash          2 bytes, as in the image of a sketch
           4  count              4 bytes
           8  theta              8 bytes
          16  hashes             8 planes of count bytes; ascending, distinct, above 0 and below theta
      then    rows               8 planes of count bytes; each from 1 to 2^63 - 1

The high bytes of rows are mostly zero, and those of ascending hashes change slowly. Planes let a codec find that and
save a fifth. An error gives the offset of the lowest byte of the number it names.
"""

from __future__ import annotations

import struct

import numpy as np

from puffin.sketches.hash_arrays import Hashes, Rows
from puffin.sketches.image_arrays import from_planes, to_planes
from puffin.sketches.image_rules import SEED_HASH, ImageRules
from puffin.sketches.theta_image import MAX_THETA

MAX_COUNT = 1 << 28
"""The most hashes to read: those of the largest sketch, with their headroom."""

_RULES = ImageRules("row counts")
_expect = _RULES.expect
_VERSION = 1
_MAX_ROWS = (1 << 63) - 1

_PREAMBLE = struct.Struct("<BBHIQ")
_VERSION_OFFSET, _RESERVED_OFFSET, _SEED_HASH_OFFSET = 0, 1, 2
_COUNT_OFFSET, _THETA_OFFSET, _HASHES_OFFSET = 4, 8, 16
_WORD_SIZE = 8


def write_image(theta: int, hashes: Hashes, rows: Rows) -> bytes:
    preamble = _PREAMBLE.pack(_VERSION, 0, SEED_HASH, len(hashes), theta)
    return preamble + to_planes(hashes.astype("<u8", copy=False)) + to_planes(rows.astype("<i8", copy=False))


def parse_image(image: bytes | bytearray | memoryview) -> tuple[int, Hashes, Rows]:
    """Read theta, hashes and rows, the arrays read-only; raise CorruptSketchError if a field breaks its rule."""
    view = memoryview(image).cast("B")
    _RULES.expect_at_least(view, _PREAMBLE.size)
    version, reserved, seed_hash, count, theta = _PREAMBLE.unpack_from(view)
    _expect(version == _VERSION, _VERSION_OFFSET, "version", _VERSION, version)
    _expect(reserved == 0, _RESERVED_OFFSET, "reserved byte", 0, reserved)
    _RULES.expect_seed_hash(seed_hash, _SEED_HASH_OFFSET)
    _RULES.expect_at_most(count, MAX_COUNT, _COUNT_OFFSET, "count")
    _expect(1 <= theta <= MAX_THETA, _THETA_OFFSET, "theta", f"1 to {MAX_THETA}", theta)
    rows_offset = _HASHES_OFFSET + count * _WORD_SIZE
    _RULES.expect_size(view, rows_offset + count * _WORD_SIZE)
    hashes = from_planes(view[_HASHES_OFFSET:rows_offset], _WORD_SIZE).astype(np.uint64)
    rows = from_planes(view[rows_offset:], _WORD_SIZE).astype(np.uint64)
    is_below = (hashes > 0) & (hashes < theta)
    _RULES.expect_each(hashes, is_below, (_HASHES_OFFSET, 1), "hash", f"above 0 and below theta {theta}")
    is_above = hashes[1:] > hashes[:-1]
    _RULES.expect_each(hashes[1:], is_above, (_HASHES_OFFSET + 1, 1), "hash", "above the one before it")
    _RULES.expect_each(rows, (rows > 0) & (rows <= _MAX_ROWS), (rows_offset, 1), "rows", f"1 to {_MAX_ROWS}")
    for array in (hashes, rows):
        array.setflags(write=False)
    return theta, hashes, rows.view(np.int64)
