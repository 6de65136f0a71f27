"""Tables of very many files that do not exist, with statistics for each column, of which real manifests are full."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.handmade import HandmadeTable, schema_of, uri
from benchmarks.run import say

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile

_SCHEMA = schema_of(
    {
        "id": "long",
        "k": "int",
        "s": "string",
        "category": "string",
        "ts": "timestamptz",
        "amount": "decimal(18, 2)",
        "value": "double",
    }
)
_IDS = [field["id"] for field in _SCHEMA["fields"]]
_ROWS, _FILE_BYTES = 1_000_000, 64 * 1024 * 1024


def found_or_made(directory: Path, entries: int, manifests: Sequence[int]) -> Path:
    """
    A table directory with a snapshot for each of these numbers of manifests, whose id is that number.

    Args:
        entries: The files that each manifest lists.
    """
    if (directory / "metadata" / "version-hint.text").exists():
        return directory
    table = HandmadeTable(directory, _SCHEMA)
    written = []
    for number in range(1, max(manifests) + 1):
        say(f"making manifest {number} of {max(manifests)}, of {entries} files")
        written.append(table.manifest(number, [_data_file(table, number, entry) for entry in range(entries)]))
        if number in manifests:
            table.snapshot(number, written)
    table.finish()
    return directory


def _data_file(table: HandmadeTable, manifest: int, entry: int) -> DataFile:
    return table.content_file(
        uri(table.data / f"{manifest:05}-{entry:05}-{uuid.uuid4()}.parquet"),
        record_count=_ROWS,
        file_size_in_bytes=_FILE_BYTES,
        column_sizes=dict.fromkeys(_IDS, _FILE_BYTES // len(_IDS)),
        value_counts=dict.fromkeys(_IDS, _ROWS),
        null_value_counts=dict.fromkeys(_IDS, 0),
        nan_value_counts={},
        lower_bounds=dict.fromkeys(_IDS, bytes(8)),
        upper_bounds=dict.fromkeys(_IDS, bytes(8)),
        split_offsets=[4],
    )
