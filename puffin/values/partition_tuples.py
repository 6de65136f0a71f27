"""
Partition tuples as they travel and are stored: JSON single values (appendix D) by partition field id.

A tuple holds what can be told of a partition: a field whose transform is not known here, whose source column is in no
schema any more, or that is void, says nothing of rows and is left out. Partitions that differ in such a field alone are
one partition.
"""

from __future__ import annotations

import contextlib
import decimal
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from puffin.errors import UnsupportedTableError
from puffin.values.json_values import to_json, to_scalar
from puffin.values.transforms import result_type

PartitionKey: TypeAlias = tuple[int, str]
"""A spec id, and a partition tuple under that spec as canonical JSON."""

_VOID = "void"
_AS_THEY_ARE = {"boolean": bool, "int": int, "long": int, "double": float, "string": str}


def tuple_types(spec_fields: Iterable[Mapping[str, Any]], source_types: Mapping[int, str]) -> dict[int, str]:
    """The fields that the tuples of a spec hold, with the types of their values."""
    types = {}
    for field in spec_fields:
        transform, source_type = field.get("transform"), source_types.get(field["source-id"])
        if isinstance(transform, str) and transform != _VOID and source_type is not None:
            with contextlib.suppress(UnsupportedTableError):
                types[field["field-id"]] = result_type(transform, source_type)
    return types


def partition_key(spec_id: int, partition: Mapping[str, Any]) -> PartitionKey:
    """The key of a tuple: compact, with the field ids in ascending order."""
    in_order = {field_id: partition[field_id] for field_id in sorted(partition, key=int)}
    return spec_id, json.dumps(in_order, ensure_ascii=False, separators=(",", ":"))


def value_to_json(type_: str, value: Any) -> Any:
    """The JSON form of a value as `puffin.values.transforms` has it: as in a manifest, a decimal as a number."""
    return str(value) if isinstance(value, decimal.Decimal) else to_json(type_, value)


def value_from_json(type_: str, json_form: Any) -> Any:
    """
    The value of a JSON form; a ``float`` is the shortest number that means it, as people write it.

    CorruptMetadataError if the JSON form is not one of this type.
    """
    if json_form is None or type(json_form) is _AS_THEY_ARE.get(type_):
        return json_form
    scalar = to_scalar(type_, json_form)
    if type_ == "float":
        return float(str(np.float32(scalar.as_py())))
    return scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()
