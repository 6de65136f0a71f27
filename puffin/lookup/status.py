"""
The health of tables from their metadata: one table, or every table of a catalog and below some roots.

What the next run would read is decided as the job decides it, by `puffin.statistics.basis`, but no sketch of ours is
read. Manifests are read only if files came or went since the statistics, or if there is an index.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

from puffin.errors import (
    NotFoundError,
    PuffinError,
    SetupError,
    StorageError,
    UnsupportedError,
    in_one_line,
    line_about,
)
from puffin.index.coverage import indexed_columns, lacking_files
from puffin.index.home import Index, index_of
from puffin.index.sizes import DEFAULT_FPP
from puffin.load import FoundTable, Tables
from puffin.lookup.calls import PATIENCE, Calls, unanswered
from puffin.lookup.health import (
    BEST,
    Loss,
    Since,
    TableStatus,
    broken_index,
    columns_lost,
    health,
    index_lost,
    rows_lost,
    upkeep_needed,
)
from puffin.lookup.places import Place, each_once, tables_at
from puffin.lookup.run_bytes import opened_bytes, readings_by_partition, readings_of_columns, readings_of_sets
from puffin.sketches.sizes import DEFAULT_LG_K
from puffin.statistics.ancestry import KnownSketch, known_sketches
from puffin.statistics.bases import AnnouncedBases
from puffin.statistics.basis import READ_ALL, ColumnPlan, PlanningInput, plan_columns
from puffin.statistics.damage import damaged_entries
from puffin.statistics.kinds import sized_kinds
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.tables.base import Column
from puffin.tables.scan_task import FileScanTask
from puffin.tables.snapshot import TableSnapshot

TABLES_AT_ONCE = 16  # they mostly wait for storage
_NO_LOSS = Loss(0, "")

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """
    What is wanted of a table.

    Attributes:
        columns: Those that should have statistics; None for all.
        index_columns: Those that should have an index.
        no_values: Those whose values should not stand in statistics.
        joint: The sets of columns, ``a+b``, that should have joint sketches.
        partitions: Whether columns should have sketches by partition.
    """

    columns: tuple[str, ...] | None = None
    index_columns: tuple[str, ...] = ()
    no_values: tuple[str, ...] = ()
    joint: tuple[str, ...] = ()
    partitions: bool = False


def status(place: Place, patience: float = PATIENCE) -> list[TableStatus]:
    """
    The status of every table at a place, those in need first; a table that cannot be read has its error there.

    A directory that cannot be listed counts as such a table, as does a namespace that the caller did not name, and what
    is left when nothing has answered for ``patience`` seconds. Raises as `tables_at`, but not for a root beside others.
    """
    tables = dict(enumerate(_found(place, patience)))
    looks = {at: functools.partial(_status_of_found, table) for at, table in tables.items()}
    answers = Calls(TABLES_AT_ONCE).answers(looks, patience)
    silent = (table.name for at, table in tables.items() if at not in answers)
    found = [*answers.values(), *(TableStatus.of_error(name, unanswered(name, patience)) for name in silent)]
    return sorted(found, key=lambda each: each.need)


def status_of(name: str, opened: Callable[[], TableSnapshot]) -> TableStatus:
    """The status of a table, or its error if it cannot be opened or its metadata cannot be read."""
    try:
        return table_status(name, opened())
    except PuffinError as exc:
        _log.info("%s", line_about(name, exc))
        return TableStatus.of_error(name, exc)


def table_status(name: str, opened: TableSnapshot, wanted: Wanted = Wanted()) -> TableStatus:
    """The status of an opened table, as far as it is wanted; PuffinError if its metadata cannot be read."""
    state = opened.state
    columns = tuple(c for c in state.select_columns(wanted.columns) if c.field_id not in opened.unreadable)
    found = TableStatus(
        table=name,
        format=state.format,
        snapshot_id=opened.snapshot_id,
        index_files_missing=0,
        bytes_to_read=0,
        health=BEST,
        reason="the table has no snapshot yet" if opened.is_empty else "no column can have statistics",
    )
    if opened.is_empty:
        return found
    index = _IndexCover.of(opened, wanted.index_columns)
    found = dataclasses.replace(
        found,
        indexed_columns=index.columns,
        index_files_missing=index.missing,
        index_bytes_to_read=index.bytes,
        columns_with_values=_with_values(opened, wanted.no_values),
    )
    if not columns:
        points, reason = health([index.loss, *_upkeep(opened, (), {}, found)])
        return found if points == BEST else dataclasses.replace(found, health=points, reason=reason)
    known = known_sketches(opened, [column.field_id for column in columns])
    plans = _plans(opened, known, columns)
    of_columns = readings_of_columns(opened, plans)
    by_age = sorted((of[0] for of in known.values() if of), key=lambda each: each.age)
    found = dataclasses.replace(
        found,
        columns_missing=tuple(column.name for column in columns if not known[column.field_id]),
        bytes_to_read=opened_bytes(of_columns),
        health=0,
        reason=_why_none(opened),
    )
    if not by_age:
        return found
    newest, oldest = by_age[0], by_age[-1]
    since = _since(opened, newest)
    found = dataclasses.replace(
        found,
        statistics_snapshot_id=newest.blob.snapshot_id,
        since_newest=since,
        since_oldest=_since(opened, oldest) if oldest.age > newest.age else since,
    )
    rows, missing = rows_lost(since.rows_changed_share), columns_lost(len(found.columns_missing), len(columns))
    points, reason = health([rows, missing, index.loss, *_upkeep(opened, plans, known, found)])
    if points < BEST:  # otherwise no run is due
        beside = [*readings_of_sets(opened, wanted.joint)]
        if wanted.partitions:
            beside += readings_by_partition(opened, known)
        more = opened_bytes([*of_columns, *beside]) - opened_bytes(of_columns)
        found = dataclasses.replace(found, bytes_beside=more)
    return dataclasses.replace(found, health=points, reason=reason)


def _found(place: Place, patience: float) -> Iterator[FoundTable]:
    """The tables at each part of a place; a part that does not answer comes with that as its error."""
    parts = place.parts()
    calls = Calls(TABLES_AT_ONCE)
    catalog = Tables(place.catalog, place.catalog_properties, heard=calls.heard)
    located = Tables(heard=calls.heard)

    def find(part: Place) -> list[FoundTable]:
        try:
            return list(tables_at(part, located if part.catalog is None else catalog))
        except (NotFoundError, SetupError, StorageError, UnsupportedError) as exc:
            if len(parts) == 1 or not part.roots:
                raise
            return [FoundTable.unlisted(part.name, None, exc)]

    answers = calls.answers({part.name: functools.partial(find, part) for part in parts}, patience)
    known = set[Hashable]()
    for name in (part.name for part in parts):
        found = answers.get(name, [FoundTable.unlisted(name, None, unanswered(name, patience))])
        yield from each_once((each for each in found if each.root is not None), known)
        yield from (each for each in found if each.root is None)


def _status_of_found(table: FoundTable) -> TableStatus:
    if table.error is not None:
        return TableStatus.of_error(table.name, table.error)
    return status_of(table.name, lambda: table.load().open())


def _plans(
    opened: TableSnapshot, known: Mapping[int, Sequence[KnownSketch]], columns: Sequence[Column]
) -> list[ColumnPlan]:
    """What the next ``auto`` run of the job would do for each column."""
    blobs = StoredBlobs(opened, known.keys())
    kinds = [kind for kind in sized_kinds(DEFAULT_LG_K) if kind.is_default]
    bases = AnnouncedBases(opened, blobs, columns)
    return plan_columns(PlanningInput(opened, known, bases, kinds, DEFAULT_LG_K), columns)


def _since(opened: TableSnapshot, known: KnownSketch) -> Since:
    made = None if known.snapshot is None else known.snapshot.timestamp_ms
    return Since(made, known.freshness.snapshots_behind, _rows_changed_share(opened, known))


def _rows_changed_share(opened: TableSnapshot, nearest: KnownSketch) -> float | None:
    """Rows in files that came or went since statistics, over those of the table, at most 1; None if unknown."""
    if nearest.snapshot is None:
        return None
    try:
        changes = opened.changes_since(nearest.snapshot).narrowed
        if not (changes.added or changes.removed):
            return 0.0
        total = opened.snapshot.total_records
        tasks = () if total is not None else opened.tasks
    except PuffinError as exc:
        _log.info("%s: the rows changed are not known: %s", opened.name, exc)
        return None
    if not _has_counts(opened, (*changes.added, *tasks)):
        return None
    if _has_counts(opened, changes.removed):
        changed = _rows_in_files((*changes.added, *changes.removed))
    else:  # a Delta log need not say how many rows a removed file had
        before = None if nearest.properties.summary is None else nearest.properties.summary.row_count
        if before is None or total is not None:
            return None
        deleted = sum(delete.record_count for task in tasks for delete in task.delete_files)
        added = _rows_in_files(changes.added)
        changed = added + max(0, before + added - (_rows_in_files(tasks) - deleted))
    return min(1.0, changed / max(1, _rows_in_files(tasks) if total is None else total))


def _has_counts(opened: TableSnapshot, tasks: Iterable[FileScanTask]) -> bool:
    # Of a Delta file, 0 stands for an unknown number too. Iceberg always tells, and has files without rows.
    return not opened.counts_live_rows or all(task.data_file.record_count for task in tasks)


def _rows_in_files(tasks: Iterable[FileScanTask]) -> int:
    """The rows of tasks, but of each file at most those that it has."""
    rows: Counter[str] = Counter()
    for task in tasks:
        path = task.data_file.file_path
        rows[path] = min(task.data_file.record_count, rows[path] + task.rows)
    return rows.total()


def _upkeep(
    opened: TableSnapshot, plans: Iterable[ColumnPlan], known: Mapping[int, Sequence[KnownSketch]], found: TableStatus
) -> Iterator[Loss]:
    """What the next run has to do beside reading what changed since the newest statistics; the first reason counts."""
    if found.columns_with_values:
        yield upkeep_needed(f"values of column {found.columns_with_values[0]} are kept, and should not be")
    full = [plan for plan in plans if plan.basis == READ_ALL and known[plan.column.field_id]]
    ages = {of[0].age for of in known.values() if of}
    if full:
        yield upkeep_needed(f"column {full[0].column.name} has to be read in full: {full[0].reason}")
    elif found.bytes_to_read and len(ages) > 1:
        yield upkeep_needed("some columns have older statistics than others")
    elif found.bytes_to_read and found.since_newest.rows_changed_share == 0 and not found.columns_missing:
        yield upkeep_needed("the newest statistics lack what an earlier run of ours kept")
    elif damaged_entries(opened.state):
        yield upkeep_needed("some engines cannot read an entry of its statistics")


def _with_values(opened: TableSnapshot, unwanted: Sequence[str]) -> tuple[str, ...]:
    """Those of these columns whose nearest sketch of ours has values beside it."""
    columns = opened.state.select_columns(unwanted)
    known = known_sketches(opened, [column.field_id for column in columns])
    ours = {column.name: [k.properties for k in known[column.field_id] if k.properties.is_ours] for column in columns}
    return tuple(name for name, sketches in ours.items() if sketches and sketches[0].provenance.keeps_values)


def _why_none(opened: TableSnapshot) -> str:
    if opened.state.statistics:
        return "no statistics of the current snapshot or a known ancestor"
    return "the table has no statistics"


@dataclasses.dataclass(frozen=True, slots=True)
class _IndexCover:
    """The indexed columns, how many files lack a filter of one that is there or wanted, and what that costs."""

    columns: tuple[str, ...] = ()
    missing: int | None = 0
    bytes: int | None = 0
    loss: Loss = _NO_LOSS

    @classmethod
    def of(cls, opened: TableSnapshot, wanted: Sequence[str]) -> _IndexCover:
        """PuffinError if manifests of the table cannot be read, which is no fault of the index."""
        try:
            index = index_of(opened)
        except PuffinError as exc:
            _log.info("%s: the index is not known: %s", opened.name, exc)
            return cls(missing=None, bytes=None, loss=broken_index(in_one_line(exc)))
        return cls._in(opened, index, wanted) if wanted or index.manifest.version else cls()

    @classmethod
    def _in(cls, opened: TableSnapshot, index: Index, wanted: Sequence[str]) -> _IndexCover:
        there = indexed_columns(opened.state, index.manifest)
        rates = dict.fromkeys(opened.state.select_columns(wanted), DEFAULT_FPP) | there
        lacking = {
            path: task.data_file.file_size_in_bytes
            for column, rate in rates.items()
            for path, task in lacking_files(opened, index, column, rate).items()
        }
        total = len(opened.tasks) if rates else 0
        names = tuple(column.name for column in there)
        return cls(names, len(lacking), sum(lacking.values()), index_lost(len(lacking), total))
