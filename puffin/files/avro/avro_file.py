"""
Avro data files and delete files, read by our own reader.

A general Avro library (fastavro 1.13) makes a Python object of every value, which takes fifteen times as long, and
accepts a file cut off between two blocks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from puffin.errors import in_one_line
from puffin.files.avro.avro_schema import Field, Items, Record, Type, Union, parse_schema
from puffin.files.avro.column_program import compile_schema
from puffin.files.avro.columns import read_columns
from puffin.files.avro.container import MALFORMED, Container
from puffin.files.data_file import Path, RowFile
from puffin.files.file_columns import with_field_id

_UNREADABLE = pa.list_(pa.null())  # neither a struct nor a column


class AvroDataFile(RowFile):
    """An open Avro file; NotImplementedError if its codec is unknown."""

    last_counts = False

    def __init__(self, source: pa.NativeFile, record_count: int) -> None:
        super().__init__(source.size(), record_count)
        with _value_errors():
            self._container = Container(source, source.size())
            self._record = parse_schema(self._container.schema)
            self.schema = pa.schema([_arrow_field(field) for field in self._record.fields])

    def _batches(self, paths: set[Path]) -> Iterator[pa.RecordBatch]:
        wanted: dict[str, Any] = {}
        for path in paths:
            inside = wanted
            for name in path:
                inside = inside.setdefault(name, {})
        with _value_errors():
            program = compile_schema(self._record, wanted)
            yield from read_columns(self._container.blocks(), program, self._record_count)


@contextlib.contextmanager
def _value_errors() -> Iterator[None]:
    try:
        yield
    except MALFORMED as exc:
        raise ValueError(in_one_line(exc)) from exc


def _arrow_field(field: Field) -> pa.Field:
    found = pa.field(field.name, _arrow_type(field.type))
    return found if field.field_id is None else with_field_id(found, field.field_id)


def _arrow_type(type_: Type) -> pa.DataType:
    if isinstance(type_, Union):
        return _UNREADABLE if type_.value is None else _arrow_type(type_.value)
    if isinstance(type_, Record):
        return pa.struct([_arrow_field(field) for field in type_.fields])
    return _UNREADABLE if isinstance(type_, Items) or type_.arrow_type is None else type_.arrow_type
