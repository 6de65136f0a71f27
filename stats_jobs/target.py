"""What a run is about: some columns of a snapshot, the options, and one reader of what is stored of them."""

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
    """
    Columns of a snapshot that are to have statistics.

    Attributes:
        blobs: Reads what is stored of the columns; each manifest once in a run.
        bases: What they can be built on, read by ``blobs``.
    """

    opened: TableSnapshot
    columns: tuple[Column, ...]
    options: Options
    blobs: StoredBlobs
    bases: Bases

    @classmethod
    def of(cls, opened: TableSnapshot, columns: Sequence[Column], options: Options) -> Target:
        """Some columns of a snapshot that is at hand."""
        blobs = StoredBlobs(opened, [column.field_id for column in columns])
        return cls(opened, tuple(columns), options, blobs, Bases(opened, blobs, columns))

    @property
    def settled(self) -> Snapshot:
        """The snapshot that the statistics are of: the target's own but for notes in the table's log."""
        return self.opened.state.settled(self.opened.snapshot)

    @property
    def entry(self) -> StatisticsEntry | None:
        """What table metadata has for that snapshot."""
        return self.opened.state.statistics.get(self.settled.snapshot_id)

    def check_not_incremental(self, column: Column, reason: str | None) -> None:
        """Refuse, with UnsupportedError, to read every row in an incremental run; ``reason`` is why it has to."""
        if self.options.mode == INCREMENTAL:
            raise UnsupportedError(
                f"{self.opened.name}: column {column.name}: expected earlier statistics to build on: {reason}"
            )
