"""
Partition tuples as JSON single values (appendix D) by partition field id, in scan tasks and in statistics.

A tuple omits fields that say nothing about rows: those with an unknown transform, with a source column in no schema, or
with the void transform. Partitions that differ only in such fields are one partition.
"""

from __future__ import annotations

import contextlib
import decimal
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from puffin.errors import UnsupportedTableError
from puffin.values.decimals import decimal_text
from puffin.values.json_values import to_json, to_scalar
from puffin.values.transforms import result_type
from puffin.values.value_type import TEMPORAL

PartitionKey: TypeAlias = tuple[int, str]
"""A spec id, and a partition tuple under that spec as canonical JSON."""

_UNSIGNED_YEAR = re.compile(r'"[0-9]{5,7}-')
_JSON_TYPES = {"boolean": bool, "int": int, "long": int, "double": float, "string": str}


def tuple_types(spec_fields: Iterable[Mapping[str, Any]], source_types: Mapping[int, str]) -> dict[int, str]:
    """The fields in the tuples of a spec, with the types of their values."""
    types = {}
    for field in spec_fields:
        transform, source_type = field.get("transform"), source_types.get(field["source-id"])
        if isinstance(transform, str) and transform != "void" and source_type is not None:
            with contextlib.suppress(UnsupportedTableError):
                types[field["field-id"]] = result_type(transform, source_type)
    return types


def partition_key(spec_id: int, partition: Mapping[str, Any]) -> PartitionKey:
    """The key of a tuple: compact JSON, with the field ids in ascending order."""
    in_order = {field_id: partition[field_id] for field_id in sorted(partition, key=int)}
    return spec_id, json.dumps(in_order, ensure_ascii=False, separators=(",", ":"))


def plain_key(key: PartitionKey, types: Mapping[int, Mapping[int, str]]) -> PartitionKey:
    """
    The key as `partition_key` makes it today; version 0.1.0 wrote decimals below 0.000001 as ``1E-7``, and years beyond
    9999 without a sign.

    ``types`` are those of the values, by field id, by spec id. CorruptMetadataError if a value is not of its type.
    """
    spec_id, text = key
    if "E-" not in text and _UNSIGNED_YEAR.search(text) is None:
        return key
    types_of, partition = types.get(spec_id, {}), json.loads(text)
    for field_id, value in partition.items():
        type_ = types_of.get(int(field_id), "")
        if type_.startswith("decimal"):
            partition[field_id] = value_to_json(type_, value_from_json(type_, value))
        elif type_ in TEMPORAL and _UNSIGNED_YEAR.match(f'"{value}'):
            partition[field_id] = f"+{value}"
    return partition_key(spec_id, partition)


def value_to_json(type_: str, value: Any) -> Any:
    """The JSON form of a value from a manifest, or of a ``Decimal``."""
    return decimal_text(value) if isinstance(value, decimal.Decimal) else to_json(type_, value)


def value_from_json(type_: str, json_form: Any) -> Any:
    """
    The value of a JSON form; a ``float`` becomes the shortest decimal that rounds to it.

    CorruptMetadataError if the JSON form is of another type.
    """
    if json_form is None or type(json_form) is _JSON_TYPES.get(type_):
        return json_form
    scalar = to_scalar(type_, json_form)
    if type_ == "float":
        return float(str(np.float32(scalar.as_py())))
    return scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()
