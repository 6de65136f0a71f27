"""
Reads schemas and partition specs from a table's metadata document, in the terms of Iceberg's appendix C.

The document of an Iceberg table is its metadata file. Other formats describe their tables in the same terms, so that
planners, readers and filters know one form.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from puffin.errors import CorruptMetadataError, said_by

NAME_MAPPING = "schema.name-mapping.default"
FIRST_PARTITION_FIELD_ID = 1000
_PARTITION_FIELD = {"field-id": int, "source-id": int, "name": str, "transform": str}
_SHOWN = 40  # characters of what is wrong


def current_schema(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The current schema; version 1 may have it under ``schema`` alone."""
    wanted = document.get("current-schema-id")
    for schema in all_schemas(document):
        if schema.get("schema-id") == wanted:
            return schema
    only = document.get("schema")
    if not isinstance(only, Mapping):
        raise TypeError(f"schema: expected a JSON object, found {type(only).__name__}")
    return only


def all_schemas(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """
    Every schema the table still has; version 1 may have only the current one.

    Raises TypeError if one is not a JSON object, which no document of a `TableState` contains.
    """
    schemas: list[Mapping[str, Any]] = document.get("schemas") or [document.get("schema")]
    for schema in schemas:
        if not isinstance(schema, Mapping):
            raise TypeError(f"schemas: expected JSON objects, found {type(schema).__name__}")
    return schemas


def partition_specs(document: Mapping[str, Any]) -> dict[int, list[dict[str, Any]]]:
    """
    The fields of every partition spec by spec id, each with a ``source-id`` and a ``field-id`` in any format version.
    Transforms are in lower case: readers take any.

    Version 1 may have a single spec under ``partition-spec`` and omit field ids, which then count from 1000. Version 3
    may have ``source-ids`` instead; the first one counts.
    """
    try:
        specs = document.get("partition-specs")
        if specs is None:
            return {0: _partition_fields(document.get("partition-spec") or [])}
        return {spec["spec-id"]: _partition_fields(spec["fields"]) for spec in specs}
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as exc:
        raise CorruptMetadataError(f"{document.get('location')}: not a partition spec: {said_by(exc)}") from exc


def name_mapping(text: str) -> list[dict[str, Any]]:
    """Parse the property ``schema.name-mapping.default``; ValueError, TypeError or RecursionError if it is none."""
    mapping = json.loads(text)
    _check_mapping(mapping)
    return list(mapping)


def mapping_digest(mapping: Sequence[Mapping[str, Any]], path: Iterable[int]) -> str:
    """
    Twelve hexadecimal digits of what a name mapping says of the column at a path of field ids.

    They cover the names of the column and of the structs around it, and which other fields claim these names: all that
    decides which values a file without field ids has for the column.
    """
    import hashlib  # slow to import, and few tables have a name mapping

    level = mapping
    claims: list[Any] = []
    for field_id in path:
        entry = next((entry for entry in level if entry.get("field-id") == field_id), None)
        names = set() if entry is None else {*entry["names"]}
        rivals = [(other.get("field-id"), other["names"]) for other in level if names.intersection(other["names"])]
        claims.append((field_id, sorted(names), rivals))
        level = [] if entry is None else entry.get("fields") or []
    return hashlib.sha256(json.dumps(claims).encode()).hexdigest()[:12]


def _partition_fields(fields: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    complete = [
        {"field-id": field_id, "source-id": next(iter(field.get("source-ids", ())), None), **field}
        for field_id, field in enumerate(fields, FIRST_PARTITION_FIELD_ID)
    ]
    for field in complete:
        for key, kind in _PARTITION_FIELD.items():
            if type(field[key]) is not kind:
                raise TypeError(f"{key}: expected {kind.__name__}, found {repr(field[key])[:_SHOWN]}")
        field["transform"] = field["transform"].lower()
    return complete


def _check_mapping(mapping: Any) -> None:
    if not isinstance(mapping, list):
        raise TypeError(f"expected a JSON list, found {type(mapping).__name__}")
    for entry in mapping:
        if not isinstance(entry, dict) or not isinstance(entry.get("names"), list):
            raise TypeError("expected objects with a list of names")
        if not all(isinstance(name, str) for name in entry["names"]):
            raise TypeError("names: expected a list of texts")
        _check_mapping(entry.get("fields") or [])
