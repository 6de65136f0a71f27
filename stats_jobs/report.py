"""The report of a run of the statistics job, as values and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.answer import SNAPSHOT, ColumnAnswer, Distinct
from puffin.statistics.basis import CARRIED, READ_ALL
from puffin.statistics.kinds import JOINT, PARTITION_SKETCHES, SUMMARY
from puffin.statistics.kinds.theta import distinct_of
from puffin.tables.base import Column, Snapshot, StatisticsEntry
from puffin.tables.snapshot import TableSnapshot
from puffin.tables.state import TableState
from stats_jobs.compute import Computation, Computed
from stats_jobs.decide import Current, Decision, Work
from stats_jobs.index_report import IndexReport
from stats_jobs.needs import Needs
from stats_jobs.options import FULL, INCREMENTAL, Options
from stats_jobs.publish import Published
from stats_jobs.session import Spent
from stats_jobs.target import Target


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionReport:
    """How many partitions have sketches in the file, or why none have."""

    count: int | None
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"kept": self.count is not None, "count": self.count, "reason": self.reason}


@dataclasses.dataclass(frozen=True, slots=True)
class JointReport:
    """The distinct tuples of a set of columns, or why an earlier joint sketch was left behind."""

    columns: tuple[str, ...]
    distinct: Distinct | None
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        distinct = self.distinct
        return {
            "columns": list(self.columns),
            "ndv": None if distinct is None else distinct.ndv,
            "lower": None if distinct is None else distinct.lower,
            "upper": None if distinct is None else distinct.upper,
            "exact": distinct is not None and distinct.exact,
            "reason": self.reason,
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """
    What a run did.

    Attributes:
        snapshot: None if the table has none yet; then nothing was computed.
        columns: Empty if the table has none that can be hashed.
        entry: None if there is no file.
        current: Whether statistics were current, so that there was nothing to do.
        bytes_read: Compressed bytes of the column chunks.
        elapsed_seconds: From planning to the commit, of all beginnings of a run that began again (`Outrun`); its other
            numbers are those of the last. Without ``session_seconds`` and waiting for other tables.
        session_seconds: Starting Spark and its Python workers.
        attempts: How often the commit was tried.
        entries_repaired: How many damaged statistics entries the commit repaired, since other engines fail on them.
        entries_removed: How many entries of earlier snapshots the commit removed.
        partitions: Set if sketches by partition were asked for, or earlier ones were left behind.
        joint: The sets of columns whose joint sketches were computed, carried to this snapshot, or left behind.
        index: Set if the table has an index, which was caught up.
        needs: The memory that the run takes; set if it is a dry run that reads.
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
    entries_removed: int = 0
    partitions: PartitionReport | None = None
    joint: tuple[JointReport, ...] = ()
    index: IndexReport | None = None
    needs: Needs | None = None

    @classmethod
    def of_nothing(cls, opened: TableSnapshot, columns: Sequence[Column], spent: Spent) -> Report:
        """The report if the table has no snapshot yet, or no column that can be hashed."""
        missing = tuple(ColumnAnswer.missing(column) for column in columns)
        snapshot = None if opened.is_empty else opened.snapshot
        return cls(
            table=opened.name,
            format=opened.state.format,
            snapshot=snapshot,
            columns=missing,
            session_seconds=spent.session_seconds,
        )

    def to_json(self) -> dict[str, Any]:
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
            "columns": [column.to_job_json() for column in self.columns],
            "files-read": self.files_read,
            "rows-read": self.rows_read,
            "bytes-read": self.bytes_read,
            "elapsed-seconds": round(self.elapsed_seconds, 3),
            "session-seconds": round(self.session_seconds, 3),
            "attempts": self.attempts,
            "entries-repaired": self.entries_repaired,
            **({"entries-removed": self.entries_removed} if self.entries_removed else {}),
            **({} if self.partitions is None else {"partitions": self.partitions.to_json()}),
            **({"joint": [each.to_json() for each in self.joint]} if self.joint else {}),
            **({} if self.index is None else {"index": self.index.to_json()}),
            **({} if self.needs is None else {"needs": self.needs.to_json()}),
        }


def report(
    target: Target,
    decision: Decision,
    computation: Computation,
    published: Published,
    index: IndexReport | None,
    spent: Spent,
) -> Report:
    opened, columns = target.opened, computation.columns
    return Report(
        table=opened.name,
        format=opened.state.format,
        snapshot=opened.snapshot,
        columns=decision.answers if isinstance(decision, Current) else tuple(_answer(target, each) for each in columns),
        mode=FULL if any(computed.plan.basis == READ_ALL for computed in columns) else INCREMENTAL,
        entry=published.entry,
        current=isinstance(decision, Current) and published.attempts == 0,
        committed=published.attempts > 0,
        files_read=computation.files_read,
        rows_read=computation.rows_read,
        bytes_read=computation.bytes_read,
        elapsed_seconds=spent.elapsed_seconds,
        session_seconds=spent.session_seconds,
        attempts=published.attempts,
        entries_repaired=published.repaired,
        entries_removed=published.removed,
        partitions=_partitions(target.options, decision, columns, published),
        joint=tuple(_joint(opened.state, decision, columns)),
        index=index,
        needs=_needs(computation) if target.options.dry_run else None,
    )


def _needs(computation: Computation) -> Needs | None:
    read = [each.plan.column for each in computation.columns if each.plan.basis != CARRIED]
    packed = computation.files_packed
    return Needs.of(read, computation.files_read - packed, packed) if read else None


def _answer(target: Target, computed: Computed) -> ColumnAnswer:
    plan, summary = computed.plan, SUMMARY.of(computed.values)
    answer = ColumnAnswer(
        plan.column,
        distinct_of(computed.values),
        target.opened.snapshot.snapshot_id,
        SNAPSHOT,
        basis=plan.basis,
        reason=plan.reason,
    )
    if summary is not None and not target.keeps_values(plan.column):
        summary = summary.without_bounds()
    return answer.with_summary(None if summary is None else summary.to_column(plan.column.type))


def _joint(state: TableState, decision: Decision, columns: Sequence[Computed]) -> Iterator[JointReport]:
    for computed in columns:
        for found in JOINT.of(computed.values) or ():
            names = tuple(state.columns_by_id[field_id].name for field_id in found.field_ids)
            distinct = Distinct.of(ThetaSketch(found.counts.theta, found.counts.hashes, True))
            yield JointReport(names, distinct.at_most(found.distribution.rows))  # every row has a tuple
    left_behind = decision.joint.left_behind if isinstance(decision, Work) else {}
    for columns_of_set, reason in left_behind.items():
        yield JointReport(tuple(column.name for column in columns_of_set), None, reason)


def _partitions(
    options: Options, decision: Decision, columns: Sequence[Computed], published: Published
) -> PartitionReport | None:
    computed = (PARTITION_SKETCHES.of(each.values) for each in columns)
    count = max((len(sketches.keys) for sketches in computed if sketches is not None), default=decision.partitions.kept)
    reason = decision.partitions.reason or published.left_behind
    return PartitionReport(count, reason) if options.partitions or reason is not None else None
