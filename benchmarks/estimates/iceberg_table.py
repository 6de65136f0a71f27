"""Writes an Arrow table as an Iceberg table in a directory, with the column metrics that engines write."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    pyarrow_to_schema,
)
from pyiceberg.schema import Schema

from benchmarks.handmade import HandmadeTable

_FILES = 4  # of a table of any size worth cutting
_LEAST_ROWS = 50_000  # of a file


def write_table(directory: Path, rows: pa.Table) -> None:
    """Write the rows, in their order, into a new table; an old one is removed."""
    shutil.rmtree(directory, ignore_errors=True)
    fields = [
        pa.field(field.name, _plain(field.type), metadata={"PARQUET:field_id": str(field_id)})
        for field_id, field in enumerate(rows.schema, start=1)
    ]
    rows = rows.cast(pa.schema(fields))
    schema = pyarrow_to_schema(rows.schema)
    table = HandmadeTable(directory, schema.model_dump(by_alias=True, mode="json"))
    files = []
    size = max(_LEAST_ROWS, -(-rows.num_rows // _FILES))
    for number, start in enumerate(range(0, rows.num_rows, size)):
        path = table.data / f"{number:03}.parquet"
        pq.write_table(rows.slice(start, size), path, compression="zstd")
        files.append(table.parquet_file(path, **_metrics(path, schema)))
    table.snapshot(1, [table.manifest(1, files)])
    table.finish()


def _plain(type_: pa.DataType) -> pa.DataType:
    """The Arrow type that Iceberg knows: no views, no dictionaries, no short integers, microseconds."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_integer(type_) and type_.bit_width < 32:
        return pa.int32()
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    return type_


def _metrics(path: Path, schema: Schema) -> dict[str, Any]:
    found = data_file_statistics_from_parquet_metadata(
        parquet_metadata=pq.read_metadata(path),
        stats_columns=compute_statistics_plan(schema, {}),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    ).to_serialized_dict()
    wanted = ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
    return {name: found[name] for name in wanted}
