"""
The live rows of each partition of an Iceberg snapshot, from its partition statistics file, whoever wrote it.

The file counts the rows of data files and those that delete files name. A position may be named twice, or be in a file
that is gone, so with deletes the difference is only the fewest rows that there can be.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from puffin.errors import PuffinError, in_one_line
from puffin.tables.partition_rows import PartitionRows
from puffin.tables.snapshot import TableSnapshot
from puffin.values.partition_tuples import value_to_json

_FIELD_ID = b"PARQUET:field_id"

# Field ids of the file's columns (spec, "Partition Statistics File").
_PARTITION, _SPEC_ID, _RECORDS, _POSITION_DELETES, _EQUALITY_DELETES = 1, 2, 3, 6, 8

_log = logging.getLogger(__name__)


def partition_rows(opened: TableSnapshot) -> list[PartitionRows] | None:
    """The rows of each partition; None if the snapshot has no file, or one that contradicts it or cannot be read."""
    path = opened.state.partition_statistics.get(opened.snapshot.snapshot_id)
    if path is None:
        return None
    try:
        return _rows(pq.read_table(io.BytesIO(opened.store_for(path).read(path))), opened)
    except (PuffinError, pa.ArrowException, OSError, LookupError, TypeError, ValueError) as exc:
        _log.warning("%s: the rows of partitions are left out: %s", path, in_one_line(exc))
        return None


def _rows(table: pa.Table, opened: TableSnapshot) -> list[PartitionRows] | None:
    types = opened.state.tuple_types_at(opened.snapshot)
    columns = {_id_of(field): column for field, column in zip(table.schema, table.columns, strict=True)}
    records: list[int] = columns[_RECORDS].to_pylist()
    fewest = _fewest(records, columns)
    total = opened.snapshot.total_records
    if fewest is not None and total is not None and total != max(0, sum(fewest)):
        raise ValueError(f"expected {total:,} rows, as in the snapshot, found {sum(fewest):,}")
    spec_ids = columns[_SPEC_ID].to_pylist()
    values = _partition_values(columns[_PARTITION], {k: v for of_spec in types.values() for k, v in of_spec.items()})
    return [
        PartitionRows(
            spec_id,
            {str(f): values[f][i] for f in types[spec_id] if f in values},
            0 if fewest is None else max(0, fewest[i]),
            upper,
        )
        for i, (spec_id, upper) in enumerate(zip(spec_ids, records, strict=True))
    ]


def _fewest(records: Sequence[int], columns: Mapping[int, pa.ChunkedArray]) -> list[int] | None:
    """The rows of data files less those that are named as deleted; None if deletes are by value, or not counted."""
    deletes = [columns.get(field_id) for field_id in (_POSITION_DELETES, _EQUALITY_DELETES)]
    named, by_value = ([None] if counts is None else counts.to_pylist() for counts in deletes)
    if None in named or any(count != 0 for count in by_value):
        return None
    return [rows - less for rows, less in zip(records, named, strict=True)]


def _partition_values(column: pa.ChunkedArray, types: Mapping[int, str]) -> dict[int, list[Any]]:
    """The values of each partition field in JSON single-value form, by row; each distinct value is converted once."""
    found: dict[int, list[Any]] = {}
    for field, values in zip(column.type, column.flatten(), strict=True):
        field_id = _id_of(field)
        if field_id in types:
            distinct = _physical(values.combine_chunks()).dictionary_encode()
            as_json = [value_to_json(types[field_id], value) for value in distinct.dictionary.to_pylist()]
            found[field_id] = [None if place is None else as_json[place] for place in distinct.indices.to_pylist()]
    return found


def _physical(values: pa.Array) -> pa.Array:
    if isinstance(values, pa.ExtensionArray):
        return values.storage
    if pa.types.is_temporal(values.type):
        return values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64())
    return values


def _id_of(field: pa.Field) -> int:
    return int((field.metadata or {})[_FIELD_ID])
