"""
Where a table's columns stand in one Parquet file: by field id, never by name (spec, "Column Projection").

A column the file lacks is a constant: its identity partition value, else its initial default, else null.
A file without field ids gets them from the table's name mapping.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from puffin.errors import CorruptDataFileError, UnsupportedTableError
from puffin.tables.base import Column
from puffin.tables.iceberg_values import to_scalar

_FIELD_ID = b"PARQUET:field_id"
_NameMapping = Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class FileColumn:
    """
    A column as one file has it.

    Attributes:
        names: The names in the file from the root to the column, or to its nearest struct that is there.
        constant: What stands for the column's value where ``names`` does not reach it, else None.
    """

    column: Column
    names: tuple[str, ...]
    constant: pa.Scalar | None

    def read(self, batch: pa.RecordBatch) -> pa.Array:
        """The column's values in these rows; a row inside a null struct is null."""
        if not self.names:
            return _repeat(self.constant, batch.num_rows)
        array = batch.column(batch.schema.get_field_index(self.names[0]))
        for name in self.names[1:]:
            array = pc.struct_field(array, _child_index(array.type, name))
        if self.constant is None:
            return array
        return pc.if_else(array.is_valid(), self.constant, pa.scalar(None, self.constant.type))


def locate_columns(
    file_schema: pa.Schema,
    columns: Iterable[Column],
    *,
    constants: Mapping[int, Any],
    name_mapping: _NameMapping | None,
    where: str,
) -> tuple[FileColumn, ...]:
    """
    Find each column in a file.

    Args:
        constants: The file's identity partition values in JSON form, by field id of their column.
        name_mapping: Used where the file has no field ids.
        where: The file's path, for errors.

    Raises:
        UnsupportedTableError: The file has no field ids and there is no name mapping.
    """
    fields: list[pa.Field] = list(file_schema)
    mapping = None if any(_has_id(field) for field in fields) or not fields else name_mapping
    if mapping is None and fields and not any(_has_id(field) for field in fields):
        raise UnsupportedTableError(f"{where}: the file has no field ids and the table no schema.name-mapping.default")
    return tuple(_locate(fields, column, constants, mapping) for column in columns)


def partition_constants(
    specs: Mapping[int, list[dict[str, Any]]], spec_id: int, partition: Mapping[str, Any]
) -> dict[int, Any]:
    """The identity partition values of a file in JSON form, by field id of their column."""
    return {
        field["source-id"]: partition[str(field["field-id"])]
        for field in specs.get(spec_id, ())
        if field.get("transform") == "identity" and str(field["field-id"]) in partition
    }


def _locate(
    fields: list[pa.Field], column: Column, constants: Mapping[int, Any], mapping: _NameMapping | None
) -> FileColumn:
    names: list[str] = []
    for depth, field_id in enumerate(column.path):
        found = next((f for f in fields if _id_of(f, mapping) == field_id), None)
        if found is None:
            if column.field_id in constants:
                return FileColumn(column, (), to_scalar(column.type, constants[column.field_id]))
            # A struct that is missing as a whole is null unless it has a default of its own.
            default = (
                column.defaults[-1] if depth == len(column.path) - 1 or column.defaults[depth] is not None else None
            )
            in_struct = tuple(names) if default is not None else ()
            return FileColumn(column, in_struct, to_scalar(column.type, default))
        names.append(found.name)
        fields = list(found.type) if pa.types.is_struct(found.type) else []
        mapping = _nested(mapping, field_id)
    return FileColumn(column, tuple(names), None)


def _has_id(field: pa.Field) -> bool:
    if _FIELD_ID in (field.metadata or {}):
        return True
    return pa.types.is_nested(field.type) and any(_has_id(field.type.field(i)) for i in range(field.type.num_fields))


def _id_of(field: pa.Field, mapping: _NameMapping | None) -> int | None:
    if mapping is None:
        text = (field.metadata or {}).get(_FIELD_ID)
        return None if text is None else int(text)
    return next((entry.get("field-id") for entry in mapping if field.name in entry.get("names", ())), None)


def _nested(mapping: _NameMapping | None, field_id: int) -> _NameMapping | None:
    if mapping is None:
        return None
    return next((entry.get("fields") or () for entry in mapping if entry.get("field-id") == field_id), ())


def _child_index(struct: pa.DataType, name: str) -> int:
    index = struct.get_field_index(name) if pa.types.is_struct(struct) else -1
    if index < 0:
        raise CorruptDataFileError(f"expected a struct with a field {name!r}, found {struct}")
    return int(index)


def _repeat(scalar: pa.Scalar | None, rows: int) -> pa.Array:
    # One dictionary entry and an index per row: the value is hashed once, whatever the number of rows.
    if scalar is None or not scalar.is_valid:
        return pa.nulls(rows)
    return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int8), pa.repeat(scalar, 1))
