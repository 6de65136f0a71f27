"""
The payload of a ``deletion-vector-v1`` blob: the deleted rows of one data file.

::

    u32 BE   length of magic and vector
    4 bytes  magic D1 D3 39 64            ┐
    u64 LE   number of bitmaps    ┐       │ what the length counts
    u32 LE   key                  │ the   │ and the checksum covers
    bitmap   portable Roaring     │ vector│
    ...      (key, bitmap) again  ┘       ┘
    u32 BE   CRC-32 of magic and vector

A position is a key (its high 32 bits) and a member of that key's bitmap (its low 32 bits). This module parses the
framing, pyroaring the bitmaps. pyroaring does not report the size of a bitmap, and its older releases trust malformed
ones. So this module first walks each bitmap, checks every length against the bytes left, and passes on the sound slice.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from puffin.errors import CorruptDeletionVectorError, UsageError

if TYPE_CHECKING:
    from pyroaring import FrozenBitMap

MAGIC = b"\xd1\xd3\x39\x64"

MAX_KEY = 2**31 - 2
"""The highest key Iceberg's Java reader accepts."""

MAX_POSITION = (MAX_KEY << 32) + 2**32 - 1

_LENGTH_SIZE = 4
_CRC_SIZE = 4
_COUNT_SIZE = 8
_VECTOR_OFFSET = _LENGTH_SIZE + len(MAGIC)
_MIN_SIZE = _VECTOR_OFFSET + _COUNT_SIZE + _CRC_SIZE

_MAX_BITMAPS = 2**31 - 1
_MIN_BITMAP_SIZE = 4 + 8  # a key, then the cookie and the container count of an empty bitmap


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The deleted rows of a data file. ``bitmaps`` has the low 32 bits of positions by ascending key, none empty."""

    bitmaps: Mapping[int, FrozenBitMap]

    @classmethod
    def from_bytes(cls, payload: bytes, *, expected_cardinality: int | None = None) -> DeletionVector:
        """Decode a payload; CorruptDeletionVectorError if it breaks a rule or has an unexpected cardinality."""
        cursor = _unframed(payload)
        vector = cls(dict(_take_bitmaps(cursor)))
        if cursor.left:
            raise _corrupt("end of the vector", cursor.offset, "no further bytes", f"{cursor.left} more bytes")
        if expected_cardinality is not None and vector.cardinality != expected_cardinality:
            raise _corrupt("cardinality", _VECTOR_OFFSET, expected_cardinality, vector.cardinality)
        return vector

    @classmethod
    def from_positions(cls, positions: Iterable[int] | npt.NDArray[np.integer[Any]]) -> DeletionVector:
        """Build from positions in any order, repeats allowed; UsageError if one is not from 0 to ``MAX_POSITION``."""
        from pyroaring import FrozenBitMap

        values = np.sort(_checked_positions(positions))
        keys = values >> 32
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        return cls(
            {
                int(keys[start]): _run_optimized(FrozenBitMap((part & 0xFFFFFFFF).astype(np.uint32)))
                for start, part in zip(starts, np.split(values, starts[1:]), strict=False)
            }
        )

    def to_bytes(self) -> bytes:
        """
        Encode as a payload, byte-equal to Iceberg's Java writer unless a key below the highest has no positions.

        Java writes an empty bitmap for such a key. This omits it, so that the positions bound the size; every reader
        understands that. UsageError if the vector exceeds 2 GiB, the most that readers accept.
        """
        parts = [MAGIC, struct.pack("<Q", len(self.bitmaps))]
        for key, bitmap in self.bitmaps.items():
            parts += struct.pack("<I", key), bitmap.serialize()
        body = b"".join(parts)
        if len(body) >= 2**31:
            raise UsageError(f"deletion vector: {len(body)} bytes are more than the {2**31 - 1} a payload can have")
        return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))

    @property
    def cardinality(self) -> int:
        """The number of deleted rows."""
        return sum(map(len, self.bitmaps.values()))

    def first(self, n: int) -> list[int]:
        """The ``n`` lowest positions, ascending, or all if there are fewer."""
        ascending = chain.from_iterable((key << 32 | low for low in bitmap) for key, bitmap in self.bitmaps.items())
        return list(islice(ascending, n))

    def positions(self) -> npt.NDArray[np.int64]:
        """All positions, ascending, at eight bytes each, even if the payload was small."""
        parts = [_low_bits(bitmap) + (key << 32) for key, bitmap in self.bitmaps.items()]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def live_mask(self, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """Whether each row of ``[start, stop)`` is live; unpacks only the positions in that range."""
        from pyroaring import FrozenBitMap

        if not 0 <= start <= stop:
            raise UsageError(f"row range: expected 0 <= start <= stop, found [{start}, {stop})")
        mask = np.ones(stop - start, np.bool_)
        for key in range(start >> 32, (stop + 2**32 - 1) >> 32):
            if bitmap := self.bitmaps.get(key):
                base = key << 32
                window = FrozenBitMap(range(max(start - base, 0), min(stop - base, 2**32)))
                mask[_low_bits(bitmap & window) + (base - start)] = False
        return mask

    def difference(self, other: DeletionVector) -> DeletionVector:
        """The positions of this vector that the other lacks."""
        left = {
            key: _run_optimized(bitmap - other.bitmaps[key]) if key in other.bitmaps else bitmap
            for key, bitmap in self.bitmaps.items()
        }
        return DeletionVector({key: bitmap for key, bitmap in left.items() if bitmap})

    def union(self, other: DeletionVector) -> DeletionVector:
        """The rows deleted by either vector."""
        merged = dict(self.bitmaps)
        for key, bitmap in other.bitmaps.items():
            merged[key] = _run_optimized(merged[key] | bitmap) if key in merged else bitmap
        return DeletionVector(dict(sorted(merged.items())))


def _checked_positions(positions: Iterable[int] | npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    values = positions if isinstance(positions, np.ndarray) else np.array(list(positions))
    if values.size == 0:
        return np.empty(0, np.int64)
    if values.dtype.kind not in "iu" or values.ndim != 1:
        raise UsageError(f"positions: expected one dimension of 64-bit integers, found {values.ndim} of {values.dtype}")
    low, high = int(values.min()), int(values.max())
    if low < 0 or high > MAX_POSITION:
        raise UsageError(f"positions: expected 0 to {MAX_POSITION}, found {low if low < 0 else high}")
    return values.astype(np.int64)


def _low_bits(bitmap: FrozenBitMap) -> npt.NDArray[np.int64]:
    return np.asarray(bitmap.to_array(), np.int64)


def _run_optimized(bitmap: FrozenBitMap) -> FrozenBitMap:
    bitmap.run_optimize()  # changes the encoding, not the members
    return bitmap


def _unframed(payload: bytes) -> _Cursor:
    """Check length, magic and checksum of a payload; return its vector."""
    size = len(payload)
    if size < _MIN_SIZE:
        raise _corrupt("payload size", 0, f"at least {_MIN_SIZE} bytes", size)
    (length,) = struct.unpack_from(">I", payload)
    if length != size - _LENGTH_SIZE - _CRC_SIZE:
        raise _corrupt("length of magic and vector", 0, size - _LENGTH_SIZE - _CRC_SIZE, length)
    body = memoryview(payload)[_LENGTH_SIZE:-_CRC_SIZE]
    if (magic := bytes(body[: len(MAGIC)])) != MAGIC:
        raise _corrupt("magic", _LENGTH_SIZE, MAGIC.hex(" "), magic.hex(" "))
    (stored,) = struct.unpack_from(">I", payload, size - _CRC_SIZE)
    if (computed := zlib.crc32(body)) != stored:
        raise _corrupt("CRC-32 of magic and vector", size - _CRC_SIZE, f"{computed:08x}", f"{stored:08x}")
    return _Cursor(memoryview(payload)[:-_CRC_SIZE], _VECTOR_OFFSET)


def _take_bitmaps(cursor: _Cursor) -> Iterable[tuple[int, FrozenBitMap]]:
    from pyroaring import FrozenBitMap

    at = cursor.offset
    count = cursor.take_uint("bitmap count", _COUNT_SIZE)
    if count > (most := min(_MAX_BITMAPS, cursor.left // _MIN_BITMAP_SIZE)):
        raise _corrupt("bitmap count", at, f"at most {most}", count)
    previous = -1
    for _ in range(count):
        at = cursor.offset
        key = cursor.take_uint("key", 4)
        if not previous < key <= MAX_KEY:
            raise _corrupt("key", at, f"{previous + 1} to {MAX_KEY}", key)
        previous = key
        at = cursor.offset
        _walk_bitmap(cursor)
        try:
            bitmap = FrozenBitMap.deserialize(bytes(cursor.data[at : cursor.offset]))
        except (ValueError, IndexError) as exc:
            raise _corrupt("bitmap", at, "a portable Roaring bitmap", exc) from exc
        if bitmap:
            yield key, _run_optimized(bitmap)


# --- one bitmap of the Roaring format specification (all little endian) --------------------------------------
#
#     no runs:  u32 12346 │ u32 containers                           ┐ cookie
#     runs:     u16 12347 │ u16 containers - 1 │ one bit a container ┘ header
#     u16 key, u16 cardinality - 1                for each container
#     u32 offset from the start of the bitmap     for each container; with runs, only from four containers up
#     the containers: array   u16 member, ascending       up to 4096 members
#                     bitset  8192 bytes                  more than 4096 members
#                     runs    u16 runs, (u16 first, u16 length - 1) for each

_COOKIE_WITHOUT_RUNS = 12346
_COOKIE_WITH_RUNS = 12347
_MAX_CONTAINERS = 2**16
_OFFSETS_FROM = 4
_MAX_ARRAY = 4096
_BITSET_SIZE = 2**16 // 8


def _walk_bitmap(cursor: _Cursor) -> None:
    """Move past one bitmap and check everything that pyroaring trusts."""
    start = cursor.offset
    is_run, has_offsets = _take_cookie(cursor)
    count = len(is_run)
    at = cursor.offset
    header = cursor.take_array("container headers", "<u2", 2 * count).reshape(count, 2).astype(np.int64)
    keys, cardinalities = header[:, 0], header[:, 1] + 1
    for index in np.flatnonzero(keys[1:] <= keys[:-1])[:1] + 1:
        raise _corrupt("container key", at + 4 * index, f"more than {keys[index - 1]}", keys[index])
    at = cursor.offset
    offsets = cursor.take_array("container offsets", "<u4", count) if has_offsets else None
    for index in range(count):
        if offsets is not None and offsets[index] != cursor.offset - start:
            raise _corrupt("container offset", at + 4 * index, cursor.offset - start, offsets[index])
        _walk_container(cursor, int(cardinalities[index]), bool(is_run[index]))


def _take_cookie(cursor: _Cursor) -> tuple[npt.NDArray[Any], bool]:
    """A flag per container that is true for runs, and whether the bitmap has an offset header."""
    at = cursor.offset
    cookie = cursor.take_uint("Roaring cookie", 4)
    if cookie == _COOKIE_WITHOUT_RUNS:
        at = cursor.offset
        count = cursor.take_uint("container count", 4)
        if count > _MAX_CONTAINERS:
            raise _corrupt("container count", at, f"at most {_MAX_CONTAINERS}", count)
        return np.zeros(count, np.uint8), True
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = cursor.take_array("run flags", "u1", (count + 7) // 8)
        return np.unpackbits(flags, count=count, bitorder="little"), count >= _OFFSETS_FROM
    raise _corrupt("Roaring cookie", at, f"{_COOKIE_WITHOUT_RUNS} or {_COOKIE_WITH_RUNS}", cookie)


def _walk_container(cursor: _Cursor, cardinality: int, is_run: bool) -> None:
    at = cursor.offset
    if is_run:
        run_count = cursor.take_uint("run count", 2)
        runs = cursor.take_array("runs", "<u2", 2 * run_count).reshape(run_count, 2).astype(np.int64)
        first, last = runs[:, 0], runs.sum(axis=1)
        # Adjacent runs are errors too, because only some releases of pyroaring accept them.
        ordered = bool((first[1:] > last[:-1] + 1).all() and (last < 2**16).all())
        found = int((last - first + 1).sum())
    elif cardinality <= _MAX_ARRAY:
        members = cursor.take_array("array container", "<u2", cardinality)
        ordered = bool((members[1:] > members[:-1]).all())
        found = cardinality
    else:
        ordered = True
        found = int.from_bytes(cursor.take("bitset container", _BITSET_SIZE), "little").bit_count()
    if not ordered:
        raise _corrupt("container", at, "members strictly ascending and below 65536", "disorder")
    if found != cardinality:
        raise _corrupt("container", at, f"{cardinality} members, as its header says", found)


@dataclass(slots=True)
class _Cursor:
    """A position in ``data`` that never moves past the end."""

    data: memoryview
    offset: int

    @property
    def left(self) -> int:
        return len(self.data) - self.offset

    def take(self, what: str, size: int) -> memoryview:
        if size > self.left:
            raise _corrupt(what, self.offset, f"{size} bytes", f"{self.left} left")
        self.offset += size
        return self.data[self.offset - size : self.offset]

    def take_uint(self, what: str, size: int) -> int:
        return int.from_bytes(self.take(what, size), "little")

    def take_array(self, what: str, dtype: str, count: int) -> npt.NDArray[Any]:
        return np.frombuffer(self.take(what, count * np.dtype(dtype).itemsize), dtype)


def _corrupt(what: str, offset: int, expected: object, found: object) -> CorruptDeletionVectorError:
    return CorruptDeletionVectorError(f"deletion vector: {what} at offset {offset}: expected {expected}, found {found}")
