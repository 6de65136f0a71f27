"""From computed columns to a committed statistics file, or to a file alone, or to nothing in a dry run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from puffin.statistics.assemble import ColumnStatistics
from puffin.statistics.draft import FileOptions, StatisticsDraft, damaged_entries
from puffin.statistics.kinds import PARTITION_SKETCHES
from puffin.statistics.private_state.upkeep import remove_lost_state
from puffin.tables.base import SnapshotSelector, StatisticsEntry
from puffin.tables.commit import commit_statistics
from puffin.tables.document import mapping_digest
from puffin.tables.snapshot import TableSnapshot
from puffin.tables.table import Table
from stats_jobs.basis import FULL
from stats_jobs.compute import Computed
from stats_jobs.current import keeps_partition_statistics
from stats_jobs.decide import Decision
from stats_jobs.options import INCREMENTAL, Options
from stats_jobs.partitions import carry_partitions
from stats_jobs.stored import Base
from stats_jobs.target import Target


@dataclasses.dataclass(frozen=True, slots=True)
class Published:
    """
    What a run has written.

    Attributes:
        entry: What refers to the statistics; None if there is no file.
        attempts: How often the commit was tried, 0 without one.
        repaired: How many damaged entries were replaced, that of its own snapshot included.
        left_behind: Why earlier sketches by partition were not taken along, if they were not.
    """

    entry: StatisticsEntry | None
    attempts: int = 0
    repaired: int = 0
    left_behind: str | None = None


def publish(table: Table, target: Target, decision: Decision, columns: Sequence[Computed]) -> Published:
    """
    Write what was computed; where nothing was, make damaged entries good that other engines choke on.

    Raises:
        PuffinError: As `commit_statistics`.
    """
    opened, options = target.opened, target.options
    if decision.current is not None:
        if not options.writes or not damaged_entries(opened.state):
            return Published(target.entry)
        opened.check_committable()
        settled = SnapshotSelector(snapshot_id=target.settled.snapshot_id)
        return _write(table, opened.of(settled), [], options)
    if options.dry_run:
        return Published(None)
    made = _made(target, decision, columns)
    carried: Mapping[int, Base] = {}
    left_behind = None
    if not options.partitions:
        carried, left_behind = carry_partitions(opened, [computed.column for computed in made], target.blobs)
    statistics = [_statistics(target, computed, carried.get(computed.column.field_id)) for computed in made]
    return dataclasses.replace(_write(table, opened, statistics, options), left_behind=left_behind)


def _made(target: Target, decision: Decision, columns: Sequence[Computed]) -> list[Computed]:
    """Of the columns, those to write: what is of this snapshot already stays as it is stored, asked for or not."""
    snapshot_id = target.opened.snapshot.snapshot_id
    stored = {plan.column.field_id for plan in decision.columns if plan.base_id == snapshot_id}
    return [c for c in columns if c.column.field_id not in stored or c.basis == FULL or PARTITION_SKETCHES in c.values]


def _statistics(target: Target, computed: Computed, carried: Base | None) -> ColumnStatistics:
    """What is written of a column, with earlier sketches by partition that stay beside it."""
    options = target.options
    values = {kind: value for kind, value in computed.values.items() if kind in options.kinds or not kind.is_default}
    kept = dict(computed.kept)
    if carried is not None:
        values |= carried.values
        kept |= carried.kept
    provenance = computed.provenance
    if computed.is_mapped:
        mapping = mapping_digest(target.opened.state, computed.column)
        provenance = dataclasses.replace(provenance, mapping=mapping)
    # An incremental run builds on statistics that lack something, and leaves it to a later run.
    lost = options.kinds if options.mode == INCREMENTAL else ()
    return ColumnStatistics(computed.column, values, provenance, kept, lost)


def _write(table: Table, opened: TableSnapshot, statistics: Sequence[ColumnStatistics], options: Options) -> Published:
    snapshot_id = opened.snapshot.snapshot_id
    draft = StatisticsDraft(
        opened,
        statistics,
        FileOptions(None if options.codec == "none" else options.codec, options.home, repairs=options.commit),
        opened.partition_statistics_writer() if options.partitions and keeps_partition_statistics(opened) else None,
    )
    if not options.commit:
        existing = opened.state.statistics.get(snapshot_id)
        return Published(draft.write(opened, [] if existing is None else [existing]))
    committed = commit_statistics(table, draft)
    remove_lost_state(committed.opened, options.home)
    was_damaged = any(entry.snapshot_id == snapshot_id for entry in damaged_entries(opened.state))
    return Published(committed.entry, committed.attempts, len(committed.entry.repairs) + was_damaged)
