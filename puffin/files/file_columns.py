"""
Locate a table's columns in a file: by field id, not by name (spec, "Column Projection").

An identity partition column has its partition value, whatever the file holds, as Spark reads files that were added to a
table. Any other column that the file lacks is its initial default, else null. Files without field ids get them from the
table's name mapping. Tables of another format may use names only; there case matters only between names that differ in
nothing else, as in Spark.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from puffin.errors import CorruptDataFileError, CorruptMetadataError, UnsupportedTableError
from puffin.tables.base import Column
from puffin.values.json_values import to_scalar
from puffin.values.plain_arrays import without_views

_FIELD_ID = b"PARQUET:field_id"
_ORC_FIELD_ID = b"iceberg.id"
_NameMapping = Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class FileColumn:
    """
    A column in one file.

    Attributes:
        names: The path from the root to the column, or to its nearest struct that exists.
        constant: The column's value if ``names`` does not reach it, else None.
    """

    column: Column
    names: tuple[str, ...]
    constant: pa.Scalar | None

    def read(self, batch: pa.RecordBatch) -> pa.Array:
        """The column's values in these rows; null inside a null struct."""
        if not self.names:
            return _repeat(self.constant, batch.num_rows)
        array = batch.column(batch.schema.get_field_index(self.names[0]))
        for name in self.names[1:]:
            array = pc.struct_field(array, array.type.get_field_index(name))
        if self.constant is None:
            return _sound(array)
        return pc.if_else(array.is_valid(), self.constant, pa.scalar(None, self.constant.type))


class FileColumns:
    """
    The columns of a file by field id, or by the table's name mapping if the file has no field ids.

    Args:
        by_name: Use the mapping even if the file has field ids.
        last_counts: Of several fields with one id, as after renames that swap names in a mapping, take the last.

    Attributes:
        lacks_ids: Whether no field of the file has an id.
    """

    def __init__(
        self, schema: pa.Schema, name_mapping: _NameMapping | None, *, by_name: bool = False, last_counts: bool = False
    ) -> None:
        fields = list(schema)
        self.lacks_ids = not any(map(_has_id, fields))
        needs_mapping = bool(fields) and (by_name or self.lacks_ids)
        self._is_readable = not needs_mapping or name_mapping is not None
        how = _How(any_case=by_name, last_counts=last_counts)
        self._root = _Fields(fields, name_mapping if needs_mapping else None, how)

    def locate(self, columns: Iterable[Column], constants: Mapping[int, Any], where: str) -> tuple[FileColumn, ...]:
        """
        Find each column.

        Args:
            constants: The file's identity partition values in JSON form, by field id of their column.
            where: The file's path, for errors.

        Raises:
            UnsupportedTableError: The file has no field ids and there is no name mapping.
            CorruptDataFileError: A column is ambiguous in the file, or of the wrong kind.
            CorruptMetadataError: The default or partition value of a missing column has another type.
        """
        if not self._is_readable:
            raise UnsupportedTableError(f"{where}: the file has no field ids, the table no schema.name-mapping.default")
        located = []
        for column in columns:
            try:
                located.append(_locate(self._root, column, constants))
            except (CorruptDataFileError, CorruptMetadataError) as exc:
                raise type(exc)(f"{where}: column {column.name}: {exc}") from exc
        return tuple(located)


def field_id_of(field: pa.Field) -> int | None:
    """The field id in a file's schema, or None."""
    metadata = field.metadata or {}
    text = metadata.get(_FIELD_ID, metadata.get(_ORC_FIELD_ID))
    return None if text is None else int(text)


def with_field_id(field: pa.Field, field_id: int) -> pa.Field:
    return field.with_metadata({_FIELD_ID: str(field_id)})


class _How(NamedTuple):
    """How fields are found, see `FileColumns`; in ``any_case`` if no name is the same."""

    any_case: bool
    last_counts: bool


class _Fields:
    """The fields of a file's root, or of a struct, by field id."""

    def __init__(self, fields: Sequence[pa.Field], mapping: _NameMapping | None, how: _How) -> None:
        self._how = how
        self._inside: dict[int, _Fields] = {}
        self._mapping = None if mapping is None else {entry.get("field-id"): entry for entry in reversed(mapping)}
        if mapping is None:
            ids = [(field_id_of(field), field.name) for field in fields]
        else:
            ids = _ids_by_name([field.name for field in fields], mapping, any_case=how.any_case)
        found = list(zip(fields, ids, strict=True))
        self._by_id = {field_id: field for field, (field_id, _) in (found if how.last_counts else reversed(found))}
        fields_of = Counter(name for _, name in ids)
        self._several = {field_id for field_id, name in ids if fields_of[name] > 1}

    def of(self, field_id: int) -> pa.Field | None:
        """The field of this id, or None; CorruptDataFileError if several fields share its name."""
        found = self._by_id.get(field_id)
        if found is not None and field_id in self._several:
            raise CorruptDataFileError(f"expected one field named {found.name!r}, found several")
        return found

    def inside(self, field_id: int) -> _Fields:
        if field_id not in self._inside:
            struct = self._by_id[field_id]
            if not pa.types.is_struct(struct.type):
                raise CorruptDataFileError(f"expected a struct named {struct.name!r}, found {struct.type}")
            mapping = None if self._mapping is None else self._mapping[field_id].get("fields") or ()
            self._inside[field_id] = _Fields(list(struct.type), mapping, self._how)
        return self._inside[field_id]


def _locate(root: _Fields, column: Column, constants: Mapping[int, Any]) -> FileColumn:
    if column.is_absent:
        return FileColumn(column, (), to_scalar(column.type, None))
    if column.field_id in constants:
        return FileColumn(column, (), to_scalar(column.type, constants[column.field_id]))
    names: list[str] = []
    fields = root
    for depth, field_id in enumerate(column.path):
        if depth > 0:
            fields = fields.inside(column.path[depth - 1])
        found = fields.of(field_id)
        if found is None:
            return _absent(column, depth, tuple(names))
        names.append(found.name)
    return FileColumn(column, tuple(names), None)


def _absent(column: Column, depth: int, names: tuple[str, ...]) -> FileColumn:
    """The column if the file has only ``names``, the first ``depth`` fields of its path."""
    # A missing struct is null with all its fields, unless it has an (empty) default of its own.
    is_null = any(default is None for default in column.defaults[depth:])
    constant = to_scalar(column.type, None if is_null else column.defaults[-1])
    return FileColumn(column, () if is_null else names, constant)


def _has_id(field: pa.Field) -> bool:
    if field_id_of(field) is not None:
        return True
    return pa.types.is_nested(field.type) and any(_has_id(field.type.field(i)) for i in range(field.type.num_fields))


def _ids_by_name(names: Sequence[str], mapping: _NameMapping, *, any_case: bool) -> list[tuple[int | None, str]]:
    """For each name of a file, its field id, if any, and the name that matched."""
    ids = {name: entry.get("field-id") for entry in reversed(mapping) for name in entry.get("names", ())}
    found = [(ids.get(name), name) for name in names]
    if any_case:
        exact = {field_id for field_id, _ in found}
        others = {name.lower(): field_id for name, field_id in ids.items() if field_id not in exact}
        found = [
            (others[name.lower()], name.lower()) if field_id is None and name.lower() in others else (field_id, name)
            for field_id, name in found
        ]
    return found


def _sound(array: pa.Array) -> pa.Array:
    """Copy views, which cannot be filtered, and reject indices beyond the dictionary."""
    if pa.types.is_dictionary(array.type):
        lowest, highest = pc.min_max(array.indices).as_py().values()
        if lowest is not None and not 0 <= lowest <= highest < len(array.dictionary):
            wrong = lowest if lowest < 0 else highest
            raise ValueError(f"index {wrong} into a dictionary of {len(array.dictionary)} values")
    return without_views(array)


def _repeat(scalar: pa.Scalar | None, rows: int) -> pa.Array:
    # One dictionary entry and an index per row, so that the value is hashed only once.
    if scalar is None or not scalar.is_valid:
        return pa.nulls(rows)
    return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int8), pa.repeat(scalar, 1))
