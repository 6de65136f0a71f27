"""
Read the records of an Avro file by field id, as far as Iceberg's manifests need it.

The schema is compiled once into functions that read or skip. Only wanted fields become values, in their stored form:
the table knows the logical types better. Nothing is trusted: a length never reaches past the end.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from puffin.errors import CorruptMetadataError, UnsupportedTableError, in_one_line
from puffin.files.avro.avro_schema import Primitive, Record, Type, Union, WantedIds, parse_type
from puffin.files.avro.container import MALFORMED, Block, Container
from puffin.files.avro.texts import SoughtTexts
from puffin.kernels import kernels_ready

MAX_TYPES = 10_000  # in a schema, with named types counted wherever they occur; Iceberg's have some fifty
_MAX_SHIFT = 63
_SMALLEST_BLOCK = 4096  # bytes; a smaller one is read before arrays for it are made
_NOTHING: WantedIds = {}


def read_records(
    data: bytes, wanted: WantedIds, where: str, sought: SoughtTexts | None = None
) -> Iterator[dict[int, Any]]:
    """
    Read the records of an Avro file, each as its wanted fields by field id; missing fields are omitted.

    Args:
        where: The file's path, for errors.
        sought: If given, the records of a block without any of these texts are not decoded, and come empty.

    Raises:
        CorruptMetadataError: The bytes are not a complete Avro file with field ids.
        UnsupportedTableError: This version does not know the codec.
    """
    with _named_in_errors(where):
        yield from _records(data, wanted, sought)


def read_file_metadata(data: bytes, where: str) -> Mapping[str, bytes]:
    """The header of an Avro file, by name; errors are those of `read_records`."""
    with _named_in_errors(where):
        return Container(io.BytesIO(data), len(data)).metadata


@contextlib.contextmanager
def _named_in_errors(where: str) -> Iterator[None]:
    try:
        yield
    except NotImplementedError as exc:
        raise UnsupportedTableError(f"{where}: {exc}") from exc
    except MALFORMED as exc:
        raise CorruptMetadataError(f"{where}: expected an Avro file: {in_one_line(exc)}") from exc


class _Cursor:
    """A place in ``data`` that never moves past the end; ``gaps`` has the ends of runs of unwanted fields, if known."""

    __slots__ = ("at", "data", "gaps")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.gaps: Iterator[int] | None = None

    def take(self, size: int) -> bytes:
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise ValueError(f"expected {size} bytes at offset {self.at}, found {len(self.data) - self.at}")
        taken = self.data[self.at : end]
        self.at = end
        return taken


_Read: TypeAlias = Callable[[_Cursor], Any]


def _records(data: bytes, wanted: WantedIds, sought: SoughtTexts | None) -> Iterator[dict[int, Any]]:
    container = Container(io.BytesIO(data), len(data))
    type_ = parse_type(container.schema)
    read = _Compiler().compiled(type_, wanted, jumps=True)
    gaps_in = _gaps_of(type_, wanted)
    for block in container.blocks():
        cursor = _Cursor(block.content)
        records = _bounded(block.records, cursor)
        if sought is not None and not sought.may_be_in(block.content):
            yield from itertools.repeat({}, records)
            continue
        cursor.gaps = gaps_in(block)
        for _ in range(records):
            before = cursor.at
            yield read(cursor)
            _check_progress(1, before, cursor)


# --- gaps ---------------------------------------------------------------------------------------------------------


def _gaps_of(type_: Type, wanted: WantedIds) -> Callable[[Block], Iterator[int] | None]:
    """
    Finds the ends of runs of unwanted fields in a block, in order, or None if nothing is faster than reading them.

    Most of a manifest is metrics by column. Without kernels they are read, and dropped.
    """
    if not (kernels_ready() and isinstance(type_, Record)):
        return lambda _: None
    from puffin.files.avro.column_program import Finder, compile_gaps

    program = compile_gaps(type_, wanted)

    def gaps(block: Block) -> Iterator[int] | None:
        if not program.slots or len(block.content) < _SMALLEST_BLOCK:
            return None
        try:
            found = Finder([block], program).find(block.records)
        except ValueError:  # reading will tell what is wrong
            return None
        return iter(found.words.T.ravel().tolist())

    return gaps


# --- values -------------------------------------------------------------------------------------------------------


def _long(cursor: _Cursor) -> int:
    # Not by `read_varint`: a call for each integer makes manifests' metrics a third slower to read.
    data, at = cursor.data, cursor.at
    byte = data[at]
    value, shift = byte & 0x7F, 7
    while byte & 0x80:
        if shift > _MAX_SHIFT:
            raise ValueError(f"an integer of more than 64 bits at offset {cursor.at}")
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
    if shift > _MAX_SHIFT and value >> 64:
        raise ValueError(f"an integer of more than 64 bits at offset {cursor.at}")
    cursor.at = at + 1
    return (value >> 1) ^ -(value & 1)


def _bytes(cursor: _Cursor) -> bytes:
    return cursor.take(_long(cursor))


_PRIMITIVES: dict[str, _Read] = {
    "null": lambda _: None,
    "boolean": lambda cursor: cursor.take(1) != b"\0",
    "int": _long,
    "long": _long,
    "float": lambda cursor: struct.unpack("<f", cursor.take(4))[0],
    "double": lambda cursor: struct.unpack("<d", cursor.take(8))[0],
    "bytes": _bytes,
    "string": lambda cursor: _bytes(cursor).decode(),
}


def _bounded(count: int, cursor: _Cursor) -> int:
    # Each item takes at least one byte; otherwise a few bytes could claim any number of items.
    if not 0 <= count <= len(cursor.data) - cursor.at:
        raise ValueError(f"a count of {count} at offset {cursor.at}, with {len(cursor.data) - cursor.at} bytes left")
    return count


def _check_progress(count: int, before: int, cursor: _Cursor) -> None:
    if cursor.at - before < count:
        raise ValueError(f"{count} items in {cursor.at - before} bytes at offset {before}")


def _skip_longs(cursor: _Cursor, per_item: int) -> None:
    # Most of a manifest is counts by column that are not wanted; a regular expression skips them fastest.
    for count in _item_counts(cursor):
        match = _longs(count * per_item).match(cursor.data, cursor.at)
        if match is None:
            raise ValueError(f"expected {count * per_item} integers at offset {cursor.at}, found the end")
        cursor.at = match.end()


@functools.lru_cache
def _longs(count: int) -> re.Pattern[bytes]:
    return re.compile(rb"(?:[\x80-\xff]*[\x00-\x7f]){%d}" % count)


def _item_counts(cursor: _Cursor) -> Iterator[int]:
    # Arrays and maps come in runs of items, the last one empty; after a negative count follows the size in bytes.
    while count := _long(cursor):
        if count < 0:
            _long(cursor)
        before = cursor.at
        yield _bounded(abs(count), cursor)
        _check_progress(abs(count), before, cursor)


def _skip_sized(cursor: _Cursor) -> None:
    # Bounds by column: an integer, and bytes with their length. Cursors would take several times as long.
    data, end = cursor.data, len(cursor.data)
    for count in _item_counts(cursor):
        at = cursor.at
        for _ in range(count):
            while data[at] & 0x80:
                at += 1
            size = data[at + 1]
            if size & 0x81:  # negative, or of several bytes
                cursor.at = at + 1
                cursor.take(_long(cursor))
                at = cursor.at
            else:
                at += 2 + (size >> 1)
        if at > end:
            raise ValueError(f"expected {count} values at offset {cursor.at}, found the end")
        cursor.at = at


# --- types --------------------------------------------------------------------------------------------------------


class _Compiler:
    """Compiles types to functions that read values, and counts the types."""

    def __init__(self) -> None:
        self._unfolded = 0

    def compiled(self, type_: Type, wanted: WantedIds | None, *, jumps: bool = False) -> _Read:
        """A reader of values; if it ``jumps``, it does so over the gaps of its cursor."""
        self._unfolded += 1
        if self._unfolded > MAX_TYPES:
            raise ValueError(f"a schema of more than {MAX_TYPES} types")
        if isinstance(type_, Record):
            return self._record(type_, wanted, jumps)
        if isinstance(type_, Union):
            return _union([self.compiled(branch, wanted) for branch in type_.branches])
        if isinstance(type_, Primitive):
            size = type_.size
            return _PRIMITIVES.get(type_.name) or (lambda cursor: cursor.take(size))
        item = self.compiled(type_.item, wanted)
        if type_.has_keys:
            return lambda cursor: {
                _bytes(cursor).decode(): item(cursor) for count in _item_counts(cursor) for _ in range(count)
            }
        if wanted == _NOTHING and (integers := _integers(type_.item)):
            return lambda cursor: _skip_longs(cursor, integers)
        if wanted == _NOTHING and _is_sized(type_.item):
            return _skip_sized
        return lambda cursor: [item(cursor) for count in _item_counts(cursor) for _ in range(count)]

    def _record(self, record: Record, wanted: WantedIds | None, jumps: bool) -> _Read:
        # Unwanted fields are read too, because nothing else tells where they end, and dropped.
        readers: list[tuple[int | None, _Read]] = []
        unwanted: list[_Read] = []
        for field in record.fields:
            if wanted is not None and (field.field_id is None or field.field_id not in wanted):
                unwanted.append(self.compiled(field.type, _NOTHING))
                continue
            if unwanted:
                readers.append((None, _skip(unwanted, jumps)))
                unwanted = []
            inside = None if wanted is None or field.field_id is None else wanted[field.field_id]
            readers.append((field.field_id, self.compiled(field.type, inside, jumps=jumps and inside is not None)))
        if unwanted:
            readers.append((None, _skip(unwanted, jumps)))

        def read(cursor: _Cursor) -> dict[int, Any]:
            found = {}
            for field_id, read_field in readers:
                value = read_field(cursor)
                if field_id is not None:
                    found[field_id] = value
            return found

        return read


def _skip(readers: Sequence[_Read], jumps: bool) -> _Read:
    """Step over a run of fields."""

    def skip(cursor: _Cursor) -> None:
        if jumps and cursor.gaps is not None:
            cursor.at = next(cursor.gaps)
        else:
            for read in readers:
                read(cursor)

    return skip


def _integers(type_: Type) -> int:
    """The number of integers in a record; 0 if it has any other field."""
    fields = type_.fields if isinstance(type_, Record) else ()
    are_integers = all(isinstance(f.type, Primitive) and f.type.name in ("int", "long") for f in fields)
    return len(fields) if are_integers else 0


def _is_sized(type_: Type) -> bool:
    """Whether it is a record of an integer, and bytes or a text."""
    fields = type_.fields if isinstance(type_, Record) else ()
    return [f.type.name if isinstance(f.type, Primitive) else "" for f in fields] in (
        ["int", "bytes"],
        ["long", "bytes"],
    )


def _union(branches: list[_Read]) -> _Read:
    def read(cursor: _Cursor) -> Any:
        branch = _long(cursor)
        if not 0 <= branch < len(branches):
            raise ValueError(f"branch {branch} of a union of {len(branches)} before offset {cursor.at}")
        return branches[branch](cursor)

    return read
