"""
Converts a Delta table's schema to Iceberg's terms: appendix C types, a field id for each field, physical names.

A Delta schema is Spark's JSON (protocol, "Schema Serialization Format"). Types that Iceberg has under another name are
renamed; other types keep their names and cannot be hashed. So do strings with a collation, since equal ones may have
other bytes. The converted schema has logical names; the paths and the name mapping have physical names.

A table that maps its columns (``delta.columnMapping.mode``) has ids already. For other tables this module assigns one
id to each path, and the caller keeps the ids and passes them in again. The order is that of a new Iceberg table, all
fields of a struct before the fields inside them, so the same columns get the same ids.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, TypeAlias

from puffin.cached import cached_property
from puffin.errors import CorruptMetadataError, UnsupportedTableError
from puffin.values.value_type import is_hashable

FieldPath: TypeAlias = tuple[str, ...]
"""Physical names from the root; ``element``, ``key`` and ``value`` inside lists and maps."""

MAX_DEPTH = 100
"""The deepest nesting of types."""

_MODE = "delta.columnMapping.mode"
_NONE, _NAME, _ID = "none", "name", "id"
_FIELD_ID = "delta.columnMapping.id"
_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_TYPE_CHANGES = "delta.typeChanges"
_SPARKS_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""Where Spark writes the type of a column that has ``char`` or ``varchar`` somewhere, which the log calls a string."""
_COLLATIONS = "__COLLATIONS"
"""Where writers put the collations of a field's strings, each behind its provider: ``{"city": "spark.UTF8_LCASE"}``."""
_BY_BYTES = "UTF8_BINARY"
_NESTED_IDS = ("delta.columnMapping.nested.ids", "parquet.field.nested.ids")

_MAX_ID = 2**31 - 1
_MOST_SHOWN = 80  # characters of what is wrong, in an error
_FIRST_UNMAPPED_ID = 2**30
"""For parts of lists and maps without ids in a mapped table: larger than any id it will ever assign."""

_TYPES = {
    **dict.fromkeys(("byte", "short", "integer"), "int"),
    **{name: name for name in ("long", "float", "double", "string", "binary", "boolean", "date")},
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "decimal": "decimal(10, 0)",
}
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")
_CHARACTERS = re.compile(r"(var)?char\([0-9]+\)")
_CHAR = re.compile(r"(?<!var)char\(")


@dataclasses.dataclass(frozen=True)
class TableSchema:
    """
    A Delta table's schema.

    Attributes:
        schema: In the JSON of appendix C, with logical names and schema id 0.
        name_mapping: Field ids by physical name, in the form of ``schema.name-mapping.default``; None if files find
            columns by field id.
        field_ids: The id of every field, also inside lists and maps.
        assigned: The ids that are new; empty with column mapping.
        widened_floats: The ids of fields that were floats in earlier versions.
        padded: The ids of columns of type ``char``, and of all fields inside a column that has one.
    """

    schema: Mapping[str, Any]
    name_mapping: list[dict[str, Any]] | None
    field_ids: Mapping[FieldPath, int]
    assigned: Mapping[FieldPath, int]
    widened_floats: frozenset[int]
    padded: frozenset[int]

    @property
    def by_name(self) -> bool:
        """Whether to find columns by name even in a file with field ids."""
        return self.name_mapping is not None

    @cached_property
    def paths(self) -> Mapping[int, FieldPath]:
        return {field_id: path for path, field_id in self.field_ids.items()}

    def is_same_column(self, field_id: int, path: FieldPath) -> bool:
        """Whether a field id of another version means the column of this path here too."""
        return self.field_ids.get(path) == field_id


def table_schema(
    schema_string: str, configuration: Mapping[str, str], known_ids: Mapping[FieldPath, int], where: str
) -> TableSchema:
    """
    Read a table's schema.

    Args:
        schema_string: From the ``metaData`` action, as ``configuration`` is.
        known_ids: The ids assigned before, also of dropped columns; column mapping ignores them.

    Raises:
        CorruptMetadataError: The schema is not in Spark's form, or fields share an id or a name.
        UnsupportedTableError: The column mapping mode is unknown.
    """
    mode = configuration.get(_MODE, _NONE).lower()
    if mode not in (_NONE, _NAME, _ID):
        raise UnsupportedTableError(f"{where}: {_MODE}: expected {_NONE}, {_NAME} or {_ID}, found {mode!r}")
    reader = _SchemaReader(where, known_ids, is_mapped=mode != _NONE)
    fields, name_mapping = reader.root(schema_string)
    return TableSchema(
        schema={"type": "struct", "schema-id": 0, "fields": fields},
        name_mapping=None if mode == _ID else name_mapping,
        field_ids=reader.field_ids,
        assigned=reader.assigned,
        widened_floats=frozenset(reader.widened_floats),
        padded=frozenset(field_id for path, field_id in reader.field_ids.items() if path[0] in reader.with_char),
    )


def maps_columns(configuration: Mapping[str, str]) -> bool:
    """Whether columns have names in files that stay when they are renamed."""
    return configuration.get(_MODE, _NONE).lower() != _NONE


def iceberg_type(name: str) -> str:
    """The appendix C type of a primitive Delta type; its own name, which cannot be hashed, if there is none."""
    if decimal := _DECIMAL.fullmatch(name):
        return f"decimal({int(decimal[1])}, {int(decimal[2])})"
    if _CHARACTERS.fullmatch(name):
        return "string"
    return _TYPES.get(name) or (f"delta {name}" if is_hashable(name) else name)


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """The path of a type, with the ids inside its column's lists and maps and the dotted name that they use."""

    path: FieldPath
    nested_ids: Mapping[str, Any]
    dotted: str

    def inside(self, name: str) -> _Place:
        return _Place((*self.path, name), self.nested_ids, f"{self.dotted}.{name}")


_Fields: TypeAlias = tuple[list[dict[str, Any]], list[dict[str, Any]]]  # for the schema and for the name mapping


class _SchemaReader:
    def __init__(self, where: str, known_ids: Mapping[FieldPath, int], *, is_mapped: bool) -> None:
        self._where = where
        self._is_mapped = is_mapped
        self._known_ids = {} if is_mapped else known_ids
        first = _FIRST_UNMAPPED_ID if is_mapped else max(known_ids.values(), default=0) + 1
        self._new_ids: Iterator[int] = itertools.count(first)
        self._paths: dict[int, FieldPath] = {}
        self.field_ids: dict[FieldPath, int] = {}
        self.assigned: dict[FieldPath, int] = {}
        self.widened_floats: set[int] = set()
        self.with_char: set[str] = set()

    def root(self, schema_string: str) -> _Fields:
        try:
            schema = json.loads(schema_string)
        except (ValueError, TypeError, RecursionError) as exc:
            raise CorruptMetadataError(f"{self._where}: schemaString: expected JSON: {exc}") from exc
        if not isinstance(schema, Mapping) or schema.get("type") != "struct":
            self._refuse((), "a struct", schema)
        return self._struct(schema, ())

    def _struct(self, struct: Mapping[str, Any], path: FieldPath) -> _Fields:
        if len(path) > MAX_DEPTH:
            self._refuse(path, f"at most {MAX_DEPTH} nested types", "more")
        fields = struct.get("fields")
        if not isinstance(fields, list):
            self._refuse(path, "a list of fields", fields)
        # All fields get their ids before the fields inside them.
        places = [self._place(field, path) for field in fields]
        ids = [self._field_id(field, place) for field, place in zip(fields, places, strict=True)]
        schema, mapping = [], []
        for field, place, field_id in zip(fields, places, ids, strict=True):
            type_, inside = self._type(field.get("type"), place)
            if type_ == "string" and (collation := _collation(field)):
                type_ = f"string collate {collation}"  # as the log has it where this is no metadata
            if _was_float(field):
                self.widened_floats.add(field_id)
            if _CHAR.search(f"{field.get('type')} {_metadata(field).get(_SPARKS_TYPE)}"):
                self.with_char.add(place.path[0])
            required = field.get("nullable") is False
            schema.append({"id": field_id, "name": field["name"], "required": required, "type": type_})
            mapping.append({"field-id": field_id, "names": [place.path[-1]], **({"fields": inside} if inside else {})})
        return schema, mapping

    def _place(self, field: Any, path: FieldPath) -> _Place:
        name = field.get("name") if isinstance(field, Mapping) else None
        if not isinstance(name, str):
            self._refuse(path, "a field with a name", field)
        metadata = _metadata(field)
        physical = metadata.get(_PHYSICAL_NAME, name) if self._is_mapped else name
        if not isinstance(physical, str):
            self._refuse((*path, name), f"a text as {_PHYSICAL_NAME}", physical)
        nested_ids = [metadata[key] for key in _NESTED_IDS if isinstance(metadata.get(key), Mapping)]
        return _Place((*path, physical), nested_ids[0] if nested_ids else {}, physical)

    def _field_id(self, field: Mapping[str, Any], place: _Place) -> int:
        given = _metadata(field).get(_FIELD_ID)
        if self._is_mapped and given is None:
            self._refuse(place.path, f"{_FIELD_ID}, since the table maps its columns", None)
        return self._id(place.path, given)

    def _type(self, type_: Any, place: _Place) -> tuple[Any, list[dict[str, Any]]]:
        if isinstance(type_, str):
            return iceberg_type(type_), []
        name = type_.get("type") if isinstance(type_, Mapping) else None
        if not isinstance(name, str):
            self._refuse(place.path, "a type", type_)
        if name == "struct":
            fields, mapping = self._struct(type_, place.path)
            return {"type": "struct", "fields": fields}, mapping
        if name == "array":
            return {"type": "list", **self._inside(type_, place, element="containsNull")}, []
        if name == "map":
            return {"type": "map", **self._inside(type_, place, key=None, value="valueContainsNull")}, []
        return iceberg_type(name), []

    def _inside(self, type_: Mapping[str, Any], place: _Place, **parts: str | None) -> dict[str, Any]:
        """The parts of a list or a map, each with the key that says whether it may be null, if it can be."""
        if len(place.path) > MAX_DEPTH:
            self._refuse(place.path, f"at most {MAX_DEPTH} nested types", "more")
        places = {part: place.inside(part) for part in parts}
        ids = {part: self._id(at.path, at.nested_ids.get(at.dotted)) for part, at in places.items()}
        described: dict[str, Any] = {}
        for part, nullable in parts.items():
            described[f"{part}-id"] = ids[part]
            if nullable is not None:
                described[f"{part}-required"] = type_.get(nullable) is False
            described[part], _ = self._type(type_.get(f"{part}Type"), places[part])
        return described

    def _id(self, path: FieldPath, given: Any) -> int:
        field_id = given if self._is_mapped else self._known_ids.get(path)
        if field_id is None:
            field_id = next(self._new_ids)
            if not self._is_mapped:
                self.assigned[path] = field_id
        if type(field_id) is not int or not 1 <= field_id <= _MAX_ID:
            self._refuse(path, f"a field id from 1 to {_MAX_ID}", field_id)
        if path in self.field_ids:
            self._refuse(path, "one field of this name", "several")
        if field_id in self._paths:
            self._refuse(path, "a field id of its own", f"{field_id}, that of {'.'.join(self._paths[field_id])}")
        self._paths[field_id] = path
        self.field_ids[path] = field_id
        return field_id

    def _refuse(self, path: FieldPath, expected: str, found: Any) -> NoReturn:
        place = ".".join(path) or "the root"
        text = (found if isinstance(found, str) else json.dumps(found))[:_MOST_SHOWN]
        raise CorruptMetadataError(f"{self._where}: schemaString: {place}: expected {expected}, found {text}")


def _metadata(field: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = field.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _collation(field: Mapping[str, Any]) -> str | None:
    """The collation of a field that is a string; None if its values compare by their bytes."""
    collations = _metadata(field).get(_COLLATIONS)
    named = collations.values() if isinstance(collations, Mapping) else ()
    return next((name for each in named if (name := str(each).rpartition(".")[2]) != _BY_BYTES), None)


def _was_float(field: Mapping[str, Any]) -> bool:
    changes = _metadata(field).get(_TYPE_CHANGES)
    return isinstance(changes, list) and any(isinstance(c, Mapping) and c.get("fromType") == "float" for c in changes)
