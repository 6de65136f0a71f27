"""Writes and commits the computed columns, or repairs entries if statistics are current."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from puffin.sketches.distribution import Distribution
from puffin.statistics.aside import changed, changed_later, chosen
from puffin.statistics.assemble import ColumnStatistics
from puffin.statistics.basis import CARRIED, READ_ALL
from puffin.statistics.blob_properties import HASHED_HERE
from puffin.statistics.damage import damaged_entries
from puffin.statistics.deltas import WITH_DELTAS
from puffin.statistics.draft import FileOptions, StatisticsDraft, surplus_entries
from puffin.statistics.kinds import DISTRIBUTION, JOINT, PARTITION_SKETCHES, ROW_COUNTS, SUMMARY
from puffin.statistics.private_state.upkeep import remove_lost_state
from puffin.tables.base import SnapshotSelector, StatisticsEntry
from puffin.tables.commit import commit_statistics
from puffin.tables.snapshot import Table, TableSnapshot
from stats_jobs.compute import Computed
from stats_jobs.decide import Work
from stats_jobs.options import INCREMENTAL
from stats_jobs.outrun import check_not_outrun
from stats_jobs.partitions import carry_partitions
from stats_jobs.target import Target


@dataclasses.dataclass(frozen=True, slots=True)
class Published:
    """
    What a run has written.

    Attributes:
        entry: None if there is no file.
        attempts: How often the commit was tried, 0 without one.
        repaired: How many damaged entries were replaced, including that of its own snapshot.
        removed: How many entries of earlier snapshots were removed.
        left_behind: Why earlier sketches by partition were not carried over, if they were not.
    """

    entry: StatisticsEntry | None
    attempts: int = 0
    repaired: int = 0
    removed: int = 0
    left_behind: str | None = None


def publish(table: Table, target: Target, work: Work, columns: Sequence[Computed]) -> Published:
    """Write and commit what was computed, as far as the options allow; raises as `commit_statistics`, and Outrun."""
    opened, options = target.opened, target.options
    if options.dry_run:
        return Published(None)
    statistics, left_behind = _to_write(target, work, _without_erased_bounds(opened, columns))
    draft = _draft(target, opened, statistics)
    if options.commit:
        return _committed(table, target, draft, left_behind)
    existing = opened.state.statistics.get(draft.snapshot_id)
    return Published(draft.write(opened, [] if existing is None else [existing]), left_behind=left_behind)


def repair(table: Table, target: Target) -> Published:
    """Replace damaged entries and remove surplus ones, if there are any; raises as `commit_statistics`."""
    opened, options, settled_id = target.opened, target.options, target.settled.snapshot_id
    surplus = surplus_entries(opened, settled_id, options.keep_entries)
    if not options.writes or not (damaged_entries(opened.state) or surplus):
        return Published(target.entry)
    opened.check_committable()
    return _committed(table, target, _draft(target, opened.of(SnapshotSelector(snapshot_id=settled_id)), []))


def _draft(target: Target, opened: TableSnapshot, statistics: Sequence[ColumnStatistics]) -> StatisticsDraft:
    options = target.options
    codec = None if options.codec == "none" else options.codec
    return StatisticsDraft(
        opened,
        statistics,
        FileOptions(codec, options.home, repairs=options.commit, keep_entries=options.keep_entries),
        opened.partition_statistics_writer() if options.partitions else None,
        functools.partial(check_not_outrun, target, statistics),
    )


def _committed(table: Table, target: Target, draft: StatisticsDraft, left_behind: str | None = None) -> Published:
    committed = commit_statistics(table, draft)
    remove_lost_state(committed.opened, target.options.home)
    was_damaged = any(entry.snapshot_id == draft.snapshot_id for entry in damaged_entries(target.opened.state))
    repaired = len(committed.entry.repairs) + was_damaged
    return Published(committed.entry, committed.attempts, repaired, len(committed.entry.removals), left_behind)


def _without_erased_bounds(opened: TableSnapshot, columns: Sequence[Computed]) -> list[Computed]:
    """
    Look for closer bounds where a deleted row had the min or max: an erased value must not stay in the statistics.

    Metadata has bounds of the rows that a file was written with. They are right for files without deletes.
    """
    loose = {
        each.plan.column: summary.bounds
        for each in columns
        if (summary := SUMMARY.of(each.values)) is not None and summary.is_loose
    }
    if not loose:
        return list(columns)
    found = opened.closer_bounds(loose)
    closer = []
    for each in columns:
        column, summary = each.plan.column, SUMMARY.of(each.values)
        if column in loose and summary is not None:
            known = found[column.field_id]
            values = changed(each.values, {SUMMARY: summary.within(known.bounds, is_loose=known.is_loose)})
            closer.append(dataclasses.replace(each, values=values))
        else:
            closer.append(each)
    return closer


def _to_write(target: Target, work: Work, columns: Sequence[Computed]) -> tuple[list[ColumnStatistics], str | None]:
    """
    The statistics that are not stored for this snapshot yet; and why sketches by partition were left behind, if so.
    """
    snapshot_id = target.opened.snapshot.snapshot_id
    stored = {plan.column.field_id for plan in work.columns if plan.base_id == snapshot_id}
    made = {
        computed.plan.column.field_id: _statistics(target, computed)
        for computed in columns
        if computed.plan.column.field_id not in stored
        or computed.plan.basis == READ_ALL
        or not computed.values.keys().isdisjoint((PARTITION_SKETCHES, JOINT))
        or target.must_rewrite(computed.plan.column)
        or computed.plan.column.field_id in work.joint.dropped
    }
    left_behind = None
    if not target.options.partitions:
        carried, left_behind = carry_partitions(target, [each.column for each in made.values()])
        for field_id, base in carried.items():
            each = made[field_id]
            values, kept = changed(each.values, base.values), {**each.kept, **base.kept}
            made[field_id] = dataclasses.replace(each, values=values, kept=kept)
    return list(made.values()), left_behind


def _statistics(target: Target, computed: Computed) -> ColumnStatistics:
    options, plan, base = target.options, computed.plan, computed.plan.base
    values = chosen(computed.values, [kind for kind in computed.values if kind in options.kinds or not kind.is_default])
    stays = base is not None and (plan.basis == CARRIED or base.gets_deltas)
    kept = {**(base.kept if base is not None and stays else {}), **computed.kept}
    kept = {kind: blob for kind, blob in kept.items() if kind in options.kinds or not kind.is_default}
    provenance = HASHED_HERE if base is None else base.provenance
    if computed.is_mapped or plan.column.is_absent:
        provenance = dataclasses.replace(provenance, mapping=target.opened.state.mapping_digest(plan.column))
    keeps_values = target.keeps_values(plan.column)
    provenance = dataclasses.replace(provenance, keeps_values=keeps_values)
    if not keeps_values:
        if (distribution := DISTRIBUTION.of(values)) is not None and distribution.values is not None:
            values = changed_later(values, DISTRIBUTION, Distribution.without_values)
            has_deltas = DISTRIBUTION in kept and kept[DISTRIBUTION].stored.deltas
            for kind in WITH_DELTAS if has_deltas else (DISTRIBUTION,):  # these have their deltas together
                kept.pop(kind, None)
        if (summary := SUMMARY.of(values)) is not None:
            values = changed(values, {SUMMARY: summary.without_bounds()})
    # An incremental run may build on statistics without row counts; a later run completes them.
    lost = (ROW_COUNTS,) if options.mode == INCREMENTAL else ()
    return ColumnStatistics(plan.column, values, provenance, kept, lost, computed.deltas)
