"""
Reads primitive columns and field ids from Iceberg schemas in their JSON form (appendix C).

It walks the JSON without a class for each type, so an unknown type is a leaf with a name rather than an error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from puffin.errors import CorruptMetadataError
from puffin.tables.base import Column
from puffin.values.value_type import is_promoted


def primitive_columns(schema: Mapping[str, Any]) -> tuple[Column, ...]:
    """Every primitive field that structs alone lead to, in schema order."""
    return tuple(_leaves(schema, Column(0, "", "struct", (), ())))


def field_ids(schema: Mapping[str, Any]) -> frozenset[int]:
    """The id of every field of a schema, also inside structs, lists and maps."""
    return frozenset(_ids(schema))


def required_leaves(struct: Mapping[str, Any]) -> frozenset[int]:
    """The ids of the primitive columns that are never null: they are required, and so is every struct around them."""
    found: set[int] = set()
    for field in struct["fields"]:
        type_ = field["type"]
        if field.get("required") is not True:
            continue
        if isinstance(type_, str):
            found.add(field["id"])
        elif type_.get("type") == "struct":
            found |= required_leaves(type_)
    return frozenset(found)


def _ids(type_: Any) -> Iterator[int]:
    if not isinstance(type_, Mapping):
        return
    for name in ("element", "key", "value"):
        if f"{name}-id" in type_:
            yield type_[f"{name}-id"]
            yield from _ids(type_.get(name))
    for field in type_.get("fields") or ():
        yield field["id"]
        yield from _ids(field.get("type"))


def _leaves(struct: Mapping[str, Any], parent: Column) -> Iterator[Column]:
    for field in _fields(struct, parent.name or "the root"):
        try:
            field_id, name, field_type = field["id"], field["name"], field["type"]
        except (KeyError, TypeError) as exc:
            raise CorruptMetadataError(
                f"schema: a field of {parent.name or 'the root'} has no id, name or type"
            ) from exc
        if type(field_id) is not int or not isinstance(name, str):
            raise CorruptMetadataError(f"schema: expected an integer and a name, found {field_id!r} and {name!r}")
        column = Column(
            field_id=field_id,
            name=f"{parent.name}.{name}" if parent.name else name,
            type=field_type if isinstance(field_type, str) else "nested",
            path=(*parent.path, field_id),
            defaults=(*parent.defaults, field.get("initial-default")),
        )
        if isinstance(field_type, str):
            yield column
        elif isinstance(field_type, Mapping) and field_type.get("type") == "struct":
            yield from _leaves(field_type, column)


def _fields(struct: Mapping[str, Any], where: str) -> list[Mapping[str, Any]]:
    fields = struct.get("fields")
    if not isinstance(fields, list):
        raise CorruptMetadataError(f"schema: expected a list of fields in {where}, found {type(fields).__name__}")
    return fields


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """A field with its dotted name; ``type`` is the text of a primitive type, or the document of a nested one."""

    field_id: int
    name: str
    type: Any


def fields_of(schema: Mapping[str, Any], prefix: str = "") -> Iterator[Field]:
    """All fields of a schema outside lists and maps, also structs."""
    for field in schema["fields"]:
        name = f"{prefix}{field['name']}"
        yield Field(field["id"], name, field["type"])
        if isinstance(field["type"], Mapping) and field["type"].get("type") == "struct":
            yield from fields_of(field["type"], f"{name}.")


def reused_names(schemas: Iterable[Mapping[str, Any]], *, case_sensitive: bool) -> dict[str, set[int]]:
    """
    The ids of each name that means several columns, in one schema or in different ones; lower case for any.

    A column whose type is not promoted to that of the first schema that has it counts as several: who replaces a table
    gives columns of the same names their ids again, whatever their types are.
    """
    ids: dict[str, set[int]] = {}
    first: dict[int, Field] = {}
    changed: set[int] = set()
    for schema in schemas:
        for field in fields_of(schema):
            ids.setdefault(field.name if case_sensitive else field.name.lower(), set()).add(field.field_id)
            if not may_become(field, first.setdefault(field.field_id, field)):
                changed.add(field.field_id)
    return {name: of_name for name, of_name in ids.items() if len(of_name) > 1 or not of_name.isdisjoint(changed)}


def may_become(before: Field, now: Field) -> bool:
    """Whether Iceberg lets a field become another one of its id, whose type is that of a later schema."""
    if isinstance(before.type, str) and isinstance(now.type, str):
        return is_promoted(before.type, now.type)
    kinds = [each.type.get("type") if isinstance(each.type, Mapping) else each.type for each in (before, now)]
    return kinds[0] in (kinds[1], "unknown")
