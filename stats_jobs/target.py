"""The subject of a run: columns of a snapshot, the options, and readers of what is stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from puffin.errors import UnsupportedError
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.tables.base import Column, Snapshot, StatisticsEntry
from puffin.tables.snapshot import TableSnapshot
from stats_jobs.options import INCREMENTAL, Options
from stats_jobs.stored import Bases


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """Columns of a snapshot that get statistics, and readers of what is stored; they read a manifest once."""

    opened: TableSnapshot
    columns: tuple[Column, ...]
    options: Options
    blobs: StoredBlobs
    bases: Bases

    @classmethod
    def of(cls, opened: TableSnapshot, columns: Sequence[Column], options: Options) -> Target:
        blobs = StoredBlobs(opened, [column.field_id for column in columns])
        return cls(opened, tuple(columns), options, blobs, Bases(opened, blobs, columns))

    @property
    def settled(self) -> Snapshot:
        """The snapshot that the statistics describe: the target's own, unless that only adds notes to a log."""
        return self.opened.state.settled(self.opened.snapshot)

    @property
    def entry(self) -> StatisticsEntry | None:
        """The statistics entry of the settled snapshot."""
        return self.opened.state.statistics.get(self.settled.snapshot_id)

    def check_not_incremental(self, column: Column, reason: str | None) -> None:
        """Raise UnsupportedError if this run is incremental and may not read every row."""
        if self.options.mode == INCREMENTAL:
            raise UnsupportedError(
                f"{self.opened.name}: column {column.name}: expected earlier statistics to build on: {reason}"
            )
