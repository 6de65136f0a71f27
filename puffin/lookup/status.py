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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from puffin.errors import NotFoundError, PuffinError
from puffin.index.coverage import indexed_columns, lacking_files
from puffin.index.upkeep import index_homes
from puffin.load import Tables
from puffin.lookup.health import (
    BEST,
    Loss,
    TableStatus,
    broken_index,
    columns_lost,
    health,
    index_lost,
    rows_lost,
    upkeep_needed,
)
from puffin.sketches.theta_sketch import DEFAULT_LG_K
from puffin.statistics.ancestry import KnownSketch, known_sketches
from puffin.statistics.bases import AnnouncedBases
from puffin.statistics.basis import FULL, ColumnPlan, Earlier, plan_columns
from puffin.statistics.damage import damaged_entries
from puffin.statistics.kinds import sized_kinds
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.storage import store_for
from puffin.tables.scan_task import FileScanTask
from puffin.tables.snapshot import TableSnapshot

TABLES_AT_ONCE = 16  # they mostly wait for storage
_NO_LOSS = Loss(0, "")

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """
    Where tables are: a catalog, or directories.

    Attributes:
        catalog: A catalog in pyiceberg's configuration; ``catalog_properties`` override that configuration.
        namespace: The only namespace of the catalog to look into; None for all.
        roots: Directories whose tables are found too.
    """

    catalog: str | None = None
    catalog_properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    namespace: str | None = None
    roots: tuple[str, ...] = ()


def status(place: Place) -> list[TableStatus]:
    """
    The status of every table at a place, those in need first; a table that cannot be read has its error there.

    A namespace that the caller did not name and that cannot be listed counts as such a table. Raises UsageError,
    SetupError or StorageError if the catalog or a root cannot be used, and NotFoundError if there is no such root.
    """
    with ThreadPoolExecutor(TABLES_AT_ONCE, thread_name_prefix="puffin-status") as pool:
        try:
            found = list(pool.map(lambda look: look(), _lookups(place)))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return sorted(found, key=lambda each: each.need)


def status_of(name: str, opened: Callable[[], TableSnapshot]) -> TableStatus:
    """The status of a table, or its error if it cannot be opened or its metadata cannot be read."""
    try:
        return table_status(name, opened())
    except PuffinError as exc:
        _log.info("%s: %s", name, exc)
        return TableStatus.of_error(name, exc)


def table_status(name: str, opened: TableSnapshot) -> TableStatus:
    """The status of an opened table; PuffinError if its metadata cannot be read."""
    state = opened.state
    columns = state.select_columns(None)
    if opened.is_empty or not columns:
        return TableStatus(
            table=name,
            format=state.format,
            snapshot_id=None if opened.is_empty else opened.snapshot.snapshot_id,
            index_files_missing=0,
            bytes_to_read=0,
            health=BEST,
            reason="the table has no snapshot yet" if opened.is_empty else "no column can have statistics",
        )
    known = known_sketches(opened, [column.field_id for column in columns])
    plans = _plans(opened, known)
    nearest = min((of[0] for of in known.values() if of), key=lambda each: each.age, default=None)
    index = _IndexCover.of(opened)
    found = TableStatus(
        table=name,
        format=state.format,
        snapshot_id=opened.snapshot.snapshot_id,
        columns_missing=tuple(column.name for column in columns if not known[column.field_id]),
        indexed_columns=index.columns,
        index_files_missing=index.missing,
        bytes_to_read=_bytes_to_read(opened, plans),
        reason=_why_none(opened),
    )
    if nearest is None:
        return found
    found = dataclasses.replace(
        found,
        statistics_snapshot_id=nearest.blob.snapshot_id,
        statistics_timestamp_ms=None if nearest.snapshot is None else nearest.snapshot.timestamp_ms,
        snapshots_behind=nearest.freshness.snapshots_behind,
        rows_changed_share=_rows_changed_share(opened, nearest),
    )
    rows, missing = rows_lost(found.rows_changed_share), columns_lost(len(found.columns_missing), len(columns))
    points, reason = health([rows, missing, index.loss, *_upkeep(opened, plans, known, found)])
    return dataclasses.replace(found, health=points, reason=reason)


def _lookups(place: Place) -> Iterator[Callable[[], TableStatus]]:
    """What finds the status of each table of a place."""
    tables = Tables()
    for root in dict.fromkeys(place.roots):
        names = list(tables.below(root))
        if not names and not store_for(root).exists(root):
            raise NotFoundError(f"{root}: no such directory")
        yield from (_lookup(tables, name) for name in names)
    if place.catalog is None:
        return
    tables = Tables(place.catalog, place.catalog_properties)
    if place.namespace is not None:
        yield from (_lookup(tables, name) for name in tables.of_namespace(place.namespace))
        return
    for namespace in tables.namespaces():
        try:
            names = tables.of_namespace(namespace)
        except PuffinError as exc:
            yield functools.partial(TableStatus.of_error, namespace, exc)
        else:
            yield from (_lookup(tables, name) for name in names)


def _lookup(tables: Tables, name: str) -> Callable[[], TableStatus]:
    return lambda: status_of(name, lambda: tables.load(name).open())


def _plans(opened: TableSnapshot, known: Mapping[int, Sequence[KnownSketch]]) -> list[ColumnPlan]:
    """What the next ``auto`` run of the job would do for each column."""
    columns = opened.state.select_columns(None)
    blobs = StoredBlobs(opened, known.keys())
    kinds = [kind for kind in sized_kinds(DEFAULT_LG_K) if kind.is_default]
    bases = AnnouncedBases(opened, blobs, columns)
    return plan_columns(Earlier(opened, known, bases, kinds, DEFAULT_LG_K), columns)


def _bytes_to_read(opened: TableSnapshot, plans: Iterable[ColumnPlan]) -> int:
    """The bytes of the files that the plans read, each once, though one plan may read more of a file than another."""
    most: Counter[tuple[str, bool]] = Counter()
    for plan in {plan.base_id: plan for plan in plans}.values():
        of_plan: Counter[tuple[str, bool]] = Counter()
        for task, removed in _tasks(opened, plan):
            of_plan[task.data_file.file_path, removed] += task.bytes
        most |= of_plan
    return most.total()


def _tasks(opened: TableSnapshot, plan: ColumnPlan) -> Iterator[tuple[FileScanTask, bool]]:
    if plan.changes is None:
        yield from ((task, False) for task in opened.tasks)
    else:
        yield from ((task, False) for task in plan.changes.added)
        yield from ((task, True) for task in plan.changes.removed)


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
    if not _has_counts((*changes.added, *tasks)):
        return None
    if _has_counts(changes.removed):
        changed = _rows_in_files((*changes.added, *changes.removed))
    else:  # a Delta log need not say how many rows a removed file had
        before = None if nearest.said.summary is None else nearest.said.summary.row_count
        if before is None or total is not None:
            return None
        deleted = sum(delete.record_count for task in tasks for delete in task.delete_files)
        added = _rows_in_files(changes.added)
        changed = added + max(0, before + added - (_rows_in_files(tasks) - deleted))
    return min(1.0, changed / max(1, _rows_in_files(tasks) if total is None else total))


def _has_counts(tasks: Iterable[FileScanTask]) -> bool:
    return all(task.data_file.record_count for task in tasks)


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
    full = [plan for plan in plans if plan.basis == FULL and known[plan.column.field_id]]
    ages = {of[0].age for of in known.values() if of}
    if full:
        yield upkeep_needed(f"column {full[0].column.name} has to be read in full: {full[0].reason}")
    elif found.bytes_to_read and len(ages) > 1:
        yield upkeep_needed("some columns have older statistics than others")
    elif found.bytes_to_read and found.rows_changed_share == 0 and not found.columns_missing:
        yield upkeep_needed("the newest statistics lack what an earlier run of ours kept")
    elif damaged_entries(opened.state):
        yield upkeep_needed("some engines cannot read an entry of its statistics")


def _why_none(opened: TableSnapshot) -> str:
    if opened.state.statistics:
        return "no statistics of the current snapshot or a known ancestor"
    return "the table has no statistics"


@dataclasses.dataclass(frozen=True, slots=True)
class _IndexCover:
    """The indexed columns, how many files lack a filter of one, and what that costs."""

    columns: tuple[str, ...] = ()
    missing: int | None = 0
    loss: Loss = _NO_LOSS

    @classmethod
    def of(cls, opened: TableSnapshot) -> _IndexCover:
        """The first of the table's homes that has an index counts, as for a planner."""
        try:
            for home in index_homes(opened):
                index = home.read()
                if index.manifest.version:
                    rates = indexed_columns(opened.state, index.manifest)
                    lacking = {p for column, rate in rates.items() for p in lacking_files(opened, index, column, rate)}
                    total = len(opened.tasks) if rates else 0
                    names = tuple(column.name for column in rates)
                    return cls(names, len(lacking), index_lost(len(lacking), total))
        except PuffinError as exc:
            _log.info("%s: the index is not known: %s", opened.name, exc)
            return cls(missing=None, loss=broken_index(" ".join(str(exc).split())))
        return cls()
