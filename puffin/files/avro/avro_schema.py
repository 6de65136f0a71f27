"""
Parse Avro schemas: resolve all names and map types to Arrow types.

Unknown logical types are ignored, as the Avro specification demands. Lists, maps, enumerations and unions of several
types have no Arrow type here, and `puffin.files.avro.column_program.compile_schema` rejects them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa

WantedIds: TypeAlias = Mapping[int, Any]
"""Ids of fields to read, each with those wanted inside it, or None for all of them."""

FIELD_ID = "field-id"

_DECIMAL_DIGITS = 38


@dataclasses.dataclass(frozen=True, slots=True)
class Primitive:
    """
    A value without nested values.

    Attributes:
        name: The Avro type; ``"int"`` for an enumeration, which is how a file stores it.
        size: Bytes of a ``fixed``.
        arrow_type: None if the value cannot be read.
    """

    name: str
    size: int
    arrow_type: pa.DataType | None


@dataclasses.dataclass(frozen=True, slots=True)
class Items:
    """An array, or a map, whose keys are strings in front of its values."""

    item: Type
    has_keys: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """A field of a record with Iceberg's field id, if any."""

    name: str
    field_id: int | None
    type: Type


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """Fields in their order."""

    fields: tuple[Field, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Union:
    """One of several."""

    branches: tuple[Type, ...]

    @property
    def value(self) -> Type | None:
        """The only type that is not null; None if there are several, or none."""
        values = [branch for branch in self.branches if branch != NULL]
        return values[0] if len(values) == 1 else None


Type: TypeAlias = Primitive | Items | Record | Union

NULL = Primitive("null", 0, pa.null())

_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.large_binary(),
    "string": pa.large_string(),
}
_LOGICAL_TYPES = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    **{
        ("long", f"{kind}-{name}"): pa.timestamp(unit, zone)
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
        for kind, zone in (("timestamp", "UTC"), ("local-timestamp", None))
    },
}


def parse_schema(schema: Any) -> Record:
    found = parse_type(schema)
    if not isinstance(found, Record):
        raise ValueError(f"expected a schema of records, found {schema!r:.40}")
    return found


def parse_type(schema: Any) -> Type:
    """The type that a schema describes; if it is broken, one of `puffin.files.avro.container.MALFORMED`."""
    return _type(schema, "", {})


def _type(schema: Any, namespace: str, names: dict[str, Type]) -> Type:
    if isinstance(schema, list):
        return Union(tuple(_type(branch, namespace, names) for branch in schema))
    kind = schema if isinstance(schema, str) else schema["type"]
    attributes: Mapping[str, Any] = {} if isinstance(schema, str) else schema
    if kind == "null":
        return NULL
    if kind in _TYPES:
        return Primitive(kind, 0, _decimal(attributes) or _plain_type(kind, attributes))
    if isinstance(kind, str) and isinstance(schema, str):
        return names[kind] if kind in names else names[f"{namespace}.{kind}"]
    if kind == "array":
        return Items(_type(schema["items"], namespace, names), has_keys=False)
    if kind == "map":
        return Items(_type(schema["values"], namespace, names), has_keys=True)
    if kind not in ("record", "error", "fixed", "enum"):
        return _type(kind, namespace, names)  # a type in a type
    name: str = schema["name"]
    namespace = name.rpartition(".")[0] if "." in name else schema.get("namespace", namespace)
    found = _named(kind, schema, namespace, names)
    names[name if "." in name or not namespace else f"{namespace}.{name}"] = found
    return found


def _named(kind: str, schema: Mapping[str, Any], namespace: str, names: dict[str, Type]) -> Type:
    if kind == "enum":
        return Primitive("int", 0, None)
    if kind == "fixed":
        size = schema["size"]
        if type(size) is not int or size < 0:
            raise ValueError(f"a fixed type of {size!r} bytes")
        return Primitive("fixed", size, _decimal(schema) or pa.binary(size))
    return Record(
        tuple(
            Field(field["name"], field.get(FIELD_ID), _type(field["type"], namespace, names))
            for field in schema["fields"]
        )
    )


def _plain_type(kind: str, attributes: Mapping[str, Any]) -> pa.DataType:
    found: pa.DataType = _LOGICAL_TYPES.get((kind, str(attributes.get("logicalType"))), _TYPES[kind])
    if pa.types.is_timestamp(found) and attributes.get("adjust-to-utc") is False:
        return pa.timestamp(found.unit)
    return found


def _decimal(attributes: Mapping[str, Any]) -> pa.DataType | None:
    if attributes.get("logicalType") != "decimal" or attributes["type"] not in ("bytes", "fixed"):
        return None
    precision, scale = attributes["precision"], attributes.get("scale", 0)
    if not 1 <= precision <= _DECIMAL_DIGITS or not 0 <= scale <= precision:
        raise ValueError(f"a decimal of {precision} digits, {scale} of them behind the point")
    return pa.decimal128(precision, scale)
