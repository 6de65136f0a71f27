"""The subject of a run: columns of a snapshot, the options, and what is known and stored of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from puffin.errors import UnsupportedError
from puffin.statistics.ancestry import KnownSketch, known_sketches
from puffin.statistics.aside import are_many
from puffin.statistics.bases import Bases
from puffin.statistics.basis import PlanningInput
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.storage.shelf import Shelf
from puffin.tables.base import Column, Snapshot, StatisticsEntry
from puffin.tables.snapshot import TableSnapshot
from stats_jobs.options import FULL, INCREMENTAL, Options
from stats_jobs.steps import KeptSteps


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """
    Columns of a snapshot that get statistics, what table metadata knows of them, and readers of what is stored.

    Attributes:
        settled: The snapshot that the statistics describe: the opened one, unless that only adds notes to a log.
        entry: The statistics entry of the settled snapshot.
        known: The sketches of each column, by field id, as `known_sketches`.
        current: The sketches of the entry, by field id.
        blobs, bases: They read a manifest once.
    """

    opened: TableSnapshot
    columns: tuple[Column, ...]
    options: Options
    settled: Snapshot
    entry: StatisticsEntry | None
    known: Mapping[int, Sequence[KnownSketch]]
    current: Mapping[int, KnownSketch]
    blobs: StoredBlobs
    bases: Bases

    @classmethod
    def of(cls, opened: TableSnapshot, columns: Sequence[Column], options: Options) -> Target:
        """Raises ColumnNotFound if there is no column whose values the options leave out."""
        settled = opened.state.settled(opened.snapshot)
        entry = opened.state.statistics.get(settled.snapshot_id)
        if not isinstance(options.no_values, bool):
            opened.state.select_columns(options.no_values)  # a wrong name would keep values
        field_ids = [column.field_id for column in columns]
        known = known_sketches(opened, field_ids)
        current = {each.column.field_id: each for of in known.values() for each in of if each.entry is entry}
        blobs = StoredBlobs(opened, field_ids, Shelf() if are_many(len(field_ids)) else None)
        bases = Bases(opened, blobs, columns)
        return cls(opened, tuple(columns), options, settled, entry, known, current, blobs, bases)

    @property
    def planning_input(self) -> PlanningInput:
        """The earlier statistics of the columns, for the sizes and the mode of the options."""
        options = self.options
        completes = options.mode != INCREMENTAL
        may_get_deltas = options.row_counts and all(map(self.keeps_values, self.columns))
        return PlanningInput(
            self.opened, self.known, self.bases, options.kinds, options.lg_k, completes, may_get_deltas
        )

    def keeps_values(self, column: Column) -> bool:
        """Whether values of a column are kept: once they are not, only a full run brings them back."""
        if (omits := self.options.omits_values(column.name)) or self.options.mode == FULL:
            return not omits
        ours = (known for known in self.known[column.field_id] if known.properties.is_ours)
        return next((known.properties.provenance.keeps_values for known in ours), True)

    def must_rewrite(self, column: Column) -> bool:
        """Whether values that the options exclude are stored beside this snapshot's sketch."""
        known = self.current.get(column.field_id)
        if known is None or not known.properties.is_ours:
            return False
        return self.options.omits_values(column.name) and known.properties.provenance.keeps_values

    def kept_steps(self) -> KeptSteps | None:
        """Where a large run keeps what it has read; None if it may not, since no value of some column is to be kept."""
        if self.options.dry_run or not all(map(self.keeps_values, self.columns)):
            return None
        return KeptSteps(self.opened, self.options.home)

    @property
    def is_partitioned(self) -> bool:
        """Whether the table has, or ever had, a partition spec that we understand."""
        return any(self.opened.state.tuple_types.values())

    def check_not_incremental(self, reasons: Iterable[tuple[Column, str | None]]) -> None:
        """
        Raise UnsupportedError if this run is incremental and there is a reason to read every row of a column.

        Plans tell most reasons. That a base is broken may show only when it is combined with what was read.
        """
        for column, reason in reasons:
            if self.options.mode == INCREMENTAL and reason is not None:
                raise UnsupportedError(
                    f"{self.opened.name}: column {column.name}: expected earlier statistics to build on: {reason}"
                )
