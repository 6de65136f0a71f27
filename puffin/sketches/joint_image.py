"""
The byte image of joint sketches: the payload of a ``puffin-sidecar-joint-v1`` blob.

Everything is little-endian::

    byte   0  version            1 byte, 1
           1  reserved           1 byte, 0
           2  sets               2 bytes; their field ids ascend from set to set
    for each set
              columns            1 byte, 2 to 4
              for each column
                field id         4 bytes, above the one before it; that of the first column is the same in all sets
                type             1 byte length, then UTF-8
                mapping          1 byte length, then UTF-8: the digest of a name mapping; empty without one
              row counts         4 bytes length, then the image of row counts
              distribution       4 bytes length, then the image of a distribution, without values

An error gives the offset of the field in this image, or the offset in the image of the row counts or distribution.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from puffin.sketches.distribution_image import FLAGS_OFFSET, HAS_VALUES
from puffin.sketches.image_rules import ImageRules


class JointColumn(NamedTuple):
    """
    A column of a set.

    Attributes:
        type: As which its values were hashed.
        mapping: The digest of the table's name mapping for it, if a file that was read had no field ids.
    """

    field_id: int
    type: str
    mapping: str | None = None


LEAST_COLUMNS, MOST_COLUMNS = 2, 4

_RULES = ImageRules("joint sketches")
_VERSION = 1
_PREAMBLE = struct.Struct("<BBH")
_BYTE, _FIELD_ID, _SIZE = struct.Struct("<B"), struct.Struct("<i"), struct.Struct("<I")


def write_image(sets: Sequence[tuple[Sequence[JointColumn], bytes, bytes]]) -> bytes:
    parts = [_PREAMBLE.pack(_VERSION, 0, len(sets))]
    for columns, counts, distribution in sets:
        parts.append(_BYTE.pack(len(columns)))
        for field_id, type_, mapping in columns:
            parts.append(_FIELD_ID.pack(field_id))
            for text in (type_.encode(), (mapping or "").encode()):
                parts += _BYTE.pack(len(text)), text
        for image in (counts, distribution):
            parts += _SIZE.pack(len(image)), image
    return b"".join(parts)


def parse_image(image: bytes | bytearray | memoryview) -> list[tuple[tuple[JointColumn, ...], memoryview, memoryview]]:
    """Read the columns of each set and its two images; raise CorruptSketchError if a field breaks its rule."""
    cursor = _Cursor(memoryview(image).cast("B"))
    version, reserved, count = cursor.take(_PREAMBLE)
    _RULES.expect(version == _VERSION, 0, "version", _VERSION, version)
    _RULES.expect(reserved == 0, 1, "reserved byte", 0, reserved)
    found = []
    before: list[int] = []
    for _ in range(count):
        at = cursor.offset
        columns = _columns(cursor)
        ids = [column.field_id for column in columns]
        _RULES.expect(ids > before, at, "set", f"field ids above {before}", ids)
        first = before[0] if before else ids[0]
        _RULES.expect(ids[0] == first, at, "set", f"one that begins with field {first}", ids)
        counts = cursor.bytes(cursor.take(_SIZE)[0])
        distribution = cursor.bytes(cursor.take(_SIZE)[0])
        flags = distribution[FLAGS_OFFSET] if len(distribution) > FLAGS_OFFSET else 0
        at = cursor.offset - len(distribution) + FLAGS_OFFSET
        _RULES.expect(flags & HAS_VALUES == 0, at, "flags", "no values", flags)
        found.append((columns, counts, distribution))
        before = ids
    _RULES.expect_size(cursor.view, cursor.offset)
    return found


def _columns(cursor: _Cursor) -> tuple[JointColumn, ...]:
    at = cursor.offset
    (count,) = cursor.take(_BYTE)
    _RULES.expect(LEAST_COLUMNS <= count <= MOST_COLUMNS, at, "columns", f"{LEAST_COLUMNS} to {MOST_COLUMNS}", count)
    columns: list[JointColumn] = []
    for _ in range(count):
        at = cursor.offset
        (field_id,) = cursor.take(_FIELD_ID)
        least = columns[-1].field_id + 1 if columns else 1
        _RULES.expect(field_id >= least, at, "field id", f"at least {least}", field_id)
        columns.append(JointColumn(field_id, cursor.text(), cursor.text() or None))
    return tuple(columns)


class _Cursor:
    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.offset = 0

    def take(self, form: struct.Struct) -> tuple[int, ...]:
        return form.unpack(self.bytes(form.size))

    def bytes(self, size: int) -> memoryview:
        end = self.offset + size
        _RULES.expect_at_least(self.view, end)
        found = self.view[self.offset : end]
        self.offset = end
        return found

    def text(self) -> str:
        at = self.offset
        data = bytes(self.bytes(self.take(_BYTE)[0]))
        try:
            return data.decode()
        except UnicodeDecodeError:
            _RULES.expect(False, at, "text", "UTF-8", data)
            raise
