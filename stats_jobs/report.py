"""What a run of the statistics job did, for people and for programs."""

from __future__ import annotations

import dataclasses
from typing import Any

from puffin.statistics.answer import ColumnAnswer
from puffin.tables.base import Snapshot, StatisticsEntry
from stats_jobs.options import INCREMENTAL


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionReport:
    """How many partitions have sketches in the file; None if there are none, and the reason."""

    count: int | None
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The report as programs get it."""
        return {"kept": self.count is not None, "count": self.count, "reason": self.reason}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """
    What a run did.

    Attributes:
        snapshot: None if the table has none yet; then nothing was computed.
        columns: What came of each column; none of a table that has none which can be hashed.
        entry: What refers to the statistics; None if there is no file.
        current: Whether they were current, so that nothing was done.
        bytes_read: Compressed bytes of the column chunks that were read.
        elapsed_seconds: From planning to the commit, without ``session_seconds`` and the wait for other tables.
        session_seconds: Starting Spark and its Python workers.
        attempts: How often the commit was tried.
        entries_repaired: How many statistics entries the commit made good, because other engines would choke on them.
        partitions: What came of sketches by partition, if they were asked for, or if earlier ones were left behind.
    """

    table: str
    format: str
    snapshot: Snapshot | None
    columns: tuple[ColumnAnswer, ...]
    mode: str = INCREMENTAL
    entry: StatisticsEntry | None = None
    current: bool = False
    committed: bool = False
    files_read: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    elapsed_seconds: float = 0.0
    session_seconds: float = 0.0
    attempts: int = 0
    entries_repaired: int = 0
    partitions: PartitionReport | None = None

    def to_json(self) -> dict[str, Any]:
        """The report as programs get it."""
        return {
            "table": self.table,
            "format": self.format,
            "snapshot-id": None if self.snapshot is None else self.snapshot.snapshot_id,
            "sequence-number": None if self.snapshot is None else self.snapshot.sequence_number,
            "mode": self.mode,
            "statistics-file": None
            if self.entry is None
            else {
                "path": self.entry.statistics_path,
                "file-size-in-bytes": self.entry.file_size_in_bytes,
                "file-footer-size-in-bytes": self.entry.file_footer_size_in_bytes,
            },
            "committed": self.committed,
            "columns": [column.to_json() for column in self.columns],
            "files-read": self.files_read,
            "rows-read": self.rows_read,
            "bytes-read": self.bytes_read,
            "elapsed-seconds": round(self.elapsed_seconds, 3),
            "session-seconds": round(self.session_seconds, 3),
            "attempts": self.attempts,
            "entries-repaired": self.entries_repaired,
            **({} if self.partitions is None else {"partitions": self.partitions.to_json()}),
        }
