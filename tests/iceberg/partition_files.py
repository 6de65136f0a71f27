"""Partition statistics files read back, whoever wrote them, and the entries that name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from puffin.errors import CorruptMetadataError, UnsupportedTableError
from puffin.files.file_columns import field_id_of
from puffin.iceberg.commit.partition_stats import _DV_COUNT, _partitioned, _schema
from puffin.storage import Store
from puffin.tables.base import PartitionStatisticsEntry
from puffin.tables.state import TableState

_PARQUET_NAME = ".parquet"
_PARTITION_STATISTICS = "partition-statistics"


def partition_statistics_entry(document: Mapping[str, Any], snapshot_id: int) -> PartitionStatisticsEntry | None:
    """
    The partition statistics entry of a snapshot, or None; the first where, against the spec, it has several.

    Raises:
        CorruptMetadataError: An entry is not of the form of the spec.
    """
    try:
        for entry in document.get(_PARTITION_STATISTICS) or ():
            if entry["snapshot-id"] == snapshot_id:
                path, size = entry["statistics-path"], entry["file-size-in-bytes"]
                if not isinstance(path, str) or type(size) is not int:
                    raise TypeError(f"path {path!r}, size {size!r}")
                return PartitionStatisticsEntry(snapshot_id, path, size)
    except (KeyError, TypeError) as exc:
        raise CorruptMetadataError(
            f"{document.get('location')}: not a list of partition statistics entries: {exc!r}"
        ) from exc
    return None


def read_partition_statistics(
    entry: PartitionStatisticsEntry, state: TableState, store_for: Callable[[str], Store]
) -> pa.Table:
    """
    The rows of a partition statistics file, whoever wrote it, in the form of `partition_statistics`.

    Columns are found by field id: what the file does not have, since the table has been partitioned anew or brought to
    version 3 after it was written, is null, and a count of deletion vectors 0.

    Raises:
        UsageError: The table was never partitioned.
        UnsupportedTableError: The file is not Parquet.
        CorruptMetadataError: The file cannot be understood.
        FileNotFound, StorageError: It is not there, or the storage failed.
    """
    path = entry.statistics_path
    if not path.endswith(_PARQUET_NAME):
        raise UnsupportedTableError(f"{path}: expected a partition statistics file in Parquet")
    schema = _schema(_partitioned(state), state)
    data = store_for(path).read(path)
    try:
        stored = pq.read_table(pa.BufferReader(data)).to_struct_array().combine_chunks()
        return pa.Table.from_struct_array(_projected(stored, pa.struct(list(schema))))
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as exc:
        raise CorruptMetadataError(f"{path}: expected a partition statistics file in Parquet: {exc}") from exc


def _projected(stored: pa.Array, type_: pa.DataType) -> pa.Array:
    """Stored values as of this type, the fields of a struct by their ids."""
    if not pa.types.is_struct(type_):
        return stored if stored.type == type_ else stored.cast(type_)
    by_id = {field_id_of(field): index for index, field in enumerate(stored.type)}
    children = []
    for field in type_:
        index = by_id.get(field_id_of(field))
        if index is not None:
            children.append(_projected(stored.field(index), field.type))
        elif field_id_of(field) == _DV_COUNT:
            children.append(pa.repeat(pa.scalar(0, field.type), len(stored)))
        elif field.nullable:
            children.append(pa.nulls(len(stored), field.type))
        else:
            raise KeyError(f"no column of field id {field_id_of(field)}")
    return pa.StructArray.from_arrays(children, fields=list(type_))
