"""What a run of the index job did, as a value and as JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from puffin.tables.base import Column


@dataclasses.dataclass(frozen=True, slots=True)
class IndexedColumn:
    """A column of the index; ``bytes`` are those of its segments."""

    column: Column
    fpp: float
    bytes: int

    def to_json(self) -> dict[str, Any]:
        column = self.column
        return {
            "column": column.name,
            "field-id": column.field_id,
            "type": column.type,
            "fpp": self.fpp,
            "bytes": self.bytes,
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """
    What a run did.

    Attributes:
        files_indexed: The files of the snapshot that are covered for every column, after the run.
        files_read: Those whose values were read, for a column at least.
        files_lifted: Those whose own Bloom filters were enough, for every column that lacked them.
        elapsed_seconds: Without ``session_seconds``, starting Spark.
    """

    table: str
    format: str
    snapshot_id: int | None
    columns: tuple[IndexedColumn, ...]
    files_total: int = 0
    files_indexed: int = 0
    files_read: int = 0
    files_lifted: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    segments: int = 0
    index_bytes: int = 0
    committed: bool = False
    elapsed_seconds: float = 0.0
    session_seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["columns"] = [column.to_json() for column in self.columns]
        fields |= {name: round(fields[name], 3) for name in ("elapsed_seconds", "session_seconds")}
        return {name.replace("_", "-"): value for name, value in fields.items()}
