"""
The index job: builds and catches up the filters of a table's data files, of all rows that each was written with.

It reads only files that no segment has, without their deletes, so that the filters hold for every snapshot.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from puffin.errors import CorruptMetadataError, UnsupportedError, UnsupportedTypeError, UsageError
from puffin.index.coverage import indexed_columns
from puffin.index.home import Index, IndexHome
from puffin.index.manifest import IndexManifest
from puffin.index.sizes import DEFAULT_FPP
from puffin.index.value_hashes import check_indexable
from puffin.load import load_table
from puffin.statistics.private_state import places
from puffin.tables.arguments import NameOrPath
from puffin.tables.base import Column
from puffin.tables.snapshot import Table, TableSnapshot
from stats_jobs.cluster import Progress
from stats_jobs.index_plan import IndexPlan
from stats_jobs.index_report import IndexedColumn, IndexReport
from stats_jobs.options import IndexOptions
from stats_jobs.partial import Partial
from stats_jobs.run import Runner
from stats_jobs.session import SparkStarter, Spent, Turns, turns_for
from stats_jobs.writable import check_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def index(
    table: NameOrPath | Table,
    options: IndexOptions | None = None,
    spark: SparkSession | SparkStarter | None = None,
    progress: Progress | None = None,
    *,
    catalog: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> IndexReport:
    """
    Bring the index of a table's current snapshot up to date.

    Args:
        table: As for `stats_jobs.analyze`; so are the other arguments.

    Raises:
        UsageError: The table has no index, and no columns were given.
        NotFoundError: The table or a column does not exist.
        UnsupportedError: A column's type cannot be indexed, or the store cannot put a file only once.
        CorruptError: A data file or metadata cannot be read.
        ConflictError, CommitUnknownError: Other runs changed the index meanwhile.
        StorageError, SetupError: As `stats_jobs.analyze`.
    """
    if isinstance(table, str | os.PathLike):
        table = load_table(table, catalog=catalog, catalog_properties=catalog_properties)
    with turns_for(table, spark) as turns:
        return _index(table, options or IndexOptions(), turns, progress)


class _NoIndex(UsageError):
    """No index, and no columns to build one of."""


def is_index_stale(table: Table, options: IndexOptions) -> bool:
    """
    Whether a run would read a file or change the columns; raises what `index` raises.

    A table without an index is not stale, unless columns are named: of many tables, some need none.
    """
    try:
        plan = _plan(table.open(), options)
    except _NoIndex:
        return False
    return plan.changes_columns or bool(plan.lacking)


@dataclasses.dataclass(frozen=True, slots=True)
class CaughtUp:
    """What a run made of an index: what it planned, read beside other scans or alone, and left."""

    plan: IndexPlan
    read: tuple[Partial, ...]
    after: Index

    def report(self, spent: Spent) -> IndexReport:
        opened, after = self.plan.opened, self.after
        sizes: dict[str, int] = {}
        for segment in after.segments:
            sizes[segment.column.key] = sizes.get(segment.column.key, 0) + segment.file_size
        files = [task.data_file.file_path for task in (() if opened.is_empty else opened.tasks)]
        left = self.plan.after(after).lacking
        # What was read beside the index counts only if it gave it something.
        for_filters = [partial for partial in self.read if self.plan.has_filters(partial)]
        read = self.plan.lacking_without(pair for partial in self.read for pair in partial.lifted)
        return IndexReport(
            table=opened.name,
            format=opened.state.format,
            snapshot_id=opened.snapshot_id,
            columns=tuple(
                IndexedColumn(column, fpp, sizes.get(opened.state.key_of(column), 0))
                for column, fpp in self.plan.rates.items()
            ),
            files_total=len(files),
            files_indexed=sum(path not in left for path in files),
            files_read=len(read),
            files_lifted=len(self.plan.lacking - read),
            rows_read=sum(partial.rows for partial in for_filters),
            bytes_read=sum(partial.bytes_read for partial in for_filters),
            segments=len(after.segments),
            index_bytes=sum(sizes.values()),
            committed=after.manifest.version > self.plan.before.manifest.version,
            elapsed_seconds=spent.elapsed_seconds,
            session_seconds=spent.session_seconds,
        )


class IndexRun:
    """
    Brings an index up to date. Publishes what each step of a large run has read, so that a run that dies, or another
    one meanwhile, has it.
    """

    def __init__(self, plan: IndexPlan) -> None:
        self.plan = plan
        self._left = plan

    def publish(self, partial: Partial) -> None:
        """Publish the filters that were built while this was read; raises what `index` raises."""
        if self._left.has_filters(partial):
            self._left = self._left.published((partial,))

    def catch_up(self, runner: Runner, with_statistics: Sequence[Partial] = ()) -> CaughtUp:
        """
        Read the files whose filters were not built beside other scans, and publish all filters.

        Raises what `index` raises.
        """
        runner = dataclasses.replace(runner, kept=None, after_step=self.publish)
        read = (*with_statistics, runner.read(self._left.scans(with_statistics)))
        self._left = self._left.published(read)
        return CaughtUp(self.plan, read, self._left.before)


def existing_index(opened: TableSnapshot, home: NameOrPath | None) -> IndexPlan | None:
    """The plan to catch up the columns that a table's index has; None without an index. Raises what `index` raises."""
    of_index = IndexHome.of(opened, places.chosen_home(opened.state, home))
    found = of_index.read()
    if not found.manifest.columns:
        return None
    return IndexPlan.of(opened, of_index, found, _rates(opened, found.manifest, IndexOptions()))


def _index(table: Table, options: IndexOptions, turns: Turns, progress: Progress | None) -> IndexReport:
    opened = table.open()
    plan = _plan(opened, options)
    runner = Runner(opened, turns, options.driver_bytes, progress)
    if options.dry_run:
        done = CaughtUp(plan, (runner.read(plan.scans()),), plan.before)
    else:
        if plan.lacking or plan.changes_columns:
            check_home(opened, options.home)
        done = IndexRun(plan).catch_up(runner)
    return done.report(turns.spent())


def _plan(opened: TableSnapshot, options: IndexOptions) -> IndexPlan:
    home = IndexHome.of(opened, places.chosen_home(opened.state, options.home))
    try:
        found = home.checked(home.read_to_rebuild() if options.columns else home.read())
    except CorruptMetadataError as exc:
        raise CorruptMetadataError(
            f"{exc}; name its columns (--columns, in Python columns) to build the index anew"
        ) from exc
    if not found.manifest.columns and not options.columns:
        raise _NoIndex(
            f"{opened.name}: expected an index, found none: name its columns (--columns, in Python columns); "
            "puffin index --advise tells which pay"
        )
    return IndexPlan.of(opened, home, found, _rates(opened, found.manifest, options))


def _rates(opened: TableSnapshot, manifest: IndexManifest, options: IndexOptions) -> dict[Column, float]:
    """The columns of the index after the run, with their rates of false positives."""
    state = opened.state
    known = indexed_columns(state, manifest)
    added = () if options.columns is None else state.select_columns(options.columns)
    for column in added:
        try:
            check_indexable(column.type)
        except UnsupportedTypeError as exc:
            raise UnsupportedTypeError(f"{state.name}: column {column.name!r}: {exc}") from exc
        if types := opened.unreadable.get(column.field_id):
            raise UnsupportedError(f"{state.name}: column {column.name}: {types}")
    dropped = set(state.select_columns(options.drop))
    columns = dict.fromkeys((*known, *added))
    given = {} if options.fpp is None else dict.fromkeys(added or columns, options.fpp)
    return {column: given.get(column, known.get(column, DEFAULT_FPP)) for column in columns if column not in dropped}
