"""
The planner's lookup for a process that asks again and again: `puffin.lookup.planner` over a `TableCache`.

The first lines of `Lookup.ndv` are the hot path. They take no lock and make no object but the keys of two dictionaries.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from puffin.errors import FileNotFound, PuffinError, UsageError
from puffin.load import Tables
from puffin.lookup.cache import Counts, SnapshotKey, TableCache, View
from puffin.lookup.history import ColumnHistory, column_history
from puffin.lookup.listing import AnalyzedTable, analyzed_table, table_names
from puffin.lookup.planner import Question, answer_from
from puffin.lookup.sets import (
    ColumnRef,
    ColumnSketch,
    JoinEstimate,
    UnionEstimate,
    column_sketch,
    join_estimate,
    union_estimate,
)
from puffin.statistics.answer import TableAnswer
from puffin.storage import FileSource, Store, store_for
from puffin.tables.base import SnapshotSelector

TTL_SECONDS = 10.0
MOST_TABLES = 1000

_CURRENT: SnapshotKey = (None, None, None)
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Lookup:
    """
    Looks columns up in the tables of a catalog, or by the locations of tables, and keeps what it has found.

    Any number of threads may ask. An answer is at most ``ttl_seconds`` older than the call that it is given to, plus
    the time that reading takes where it is not at hand. Equal questions get the same frozen object.

    Args:
        catalog: A catalog of pyiceberg's configuration; None for tables by their locations.
        catalog_properties: Properties that override that configuration.
        locations: Whether, with a catalog, a name with a slash in it is the location of a table all the same.
        ttl_seconds: How long metadata counts before the table is asked whether anything was committed; 0 to ask always.
        max_tables: How many tables are kept; the least recently used go.
        store_for: Opens the files of tables by their locations, those that their metadata names included; one that
            refuses files keeps an untrusted table from naming them.
        clock: Tells the time in seconds, and never goes back.

    Raises:
        UsageError: A number is out of range, or there are properties of no catalog.
    """

    def __init__(
        self,
        *,
        catalog: str | None = None,
        catalog_properties: Mapping[str, str] | None = None,
        locations: bool = False,
        ttl_seconds: float = TTL_SECONDS,
        max_tables: int = MOST_TABLES,
        store_for: Callable[[str], Store] = store_for,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not ttl_seconds >= 0 or max_tables < 1:
            raise UsageError(
                f"expected a time to live from 0 s and room for a table, found {ttl_seconds} s and {max_tables} tables"
            )
        self._clock = clock
        self._tables = Tables(catalog, catalog_properties, locations=locations, store_for=store_for)
        self._has_catalog = catalog is not None
        self._takes_locations = locations or catalog is None
        self._cache = TableCache(self._tables.load, ttl_seconds, max_tables, clock)
        self._counts = self._cache.counts

    @property
    def counts(self) -> Counts:
        """What was at hand and what was not, so far; a live object."""
        return self._counts

    def __len__(self) -> int:
        """How many tables are kept."""
        return len(self._cache)

    def ndv(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        snapshot_id: int | None = None,
        ref: str | None = None,
        as_of_ms: int | None = None,
        max_staleness: int | None = None,
        partitions: Sequence[str] = (),
        where: str | None = None,
        manifests: bool = False,
    ) -> TableAnswer:
        """The answer of `puffin.ndv` to the same arguments, with the same errors."""
        now = self._clock()
        snapshot = (snapshot_id, ref, as_of_ms)
        question = (
            _names(columns),
            max_staleness,
            tuple(partitions) if partitions else (),
            where,
            manifests,
        )
        view = self._cache.at_hand(table, snapshot, now)
        if view is not None:
            found: TableAnswer | None = view.answers.get(question)
            if found is not None:
                self._counts.hits += 1
                return found
        return self._answered(
            view or self._cache.view(table, snapshot, now),
            question,
            now,
            lambda view: answer_from(
                view.opened,
                Question(
                    columns=columns,
                    selector=SnapshotSelector(snapshot_id=snapshot_id, ref=ref, as_of_ms=as_of_ms),
                    max_staleness=max_staleness,
                    partitions=partitions,
                    where=where,
                    manifests=manifests,
                ),
            ),
        )

    def at_hand(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        snapshot_id: int | None = None,
        ref: str | None = None,
    ) -> TableAnswer | None:
        """What `ndv` would answer without reading anything; None if it would have to read, or raise."""
        view = self._cache.at_hand(table, (snapshot_id, ref, None), self._clock())
        if view is None:
            return None
        question = (_names(columns), None, (), None, False)
        found: TableAnswer | None = view.answers.get(question)
        if found is not None:
            self._counts.hits += 1
        return found

    def history(self, table: str, column: str) -> ColumnHistory:
        """
        What statistics have said of a column over the snapshots of a table.

        Raises:
            NotFoundError: There is no such table or column.
            UnsupportedTypeError: Columns of its type have no statistics.
            CorruptMetadataError, StorageError: The metadata cannot be read.
        """
        return column_history(table, self._cache.view(table, _CURRENT, self._clock()).opened, column)

    def open_statistics(self, table: str, path: str) -> FileSource:
        """
        Open a statistics file of a table, with the credentials that the table's catalog gives.

        Raises:
            PuffinError: There is no such table or file, or it cannot be read.
        """
        return self._cache.view(table, _CURRENT, self._clock()).opened.store_for(path).open_source(path)

    def estimate_join(self, left_table: str, left_column: str, right_table: str, right_column: str) -> JoinEstimate:
        """
        What two columns of current snapshots have in common, and how many rows their equi-join has.

        Raises:
            NotFoundError: There is no such table or column, or no statistics of one.
            UnsupportedTypeError: The values of the columns are not hashed alike.
            CorruptError, StorageError: Metadata or a statistics file cannot be read.
        """

        def estimate() -> JoinEstimate:
            now = self._clock()
            left, right = (self._cache.view(table, _CURRENT, now) for table in (left_table, right_table))
            question = ("join", left_column, right_table, right_column, right.number)
            found: JoinEstimate | None = left.answers.get(question)
            if found is not None:
                self._counts.hits += 1
                return found
            left_ref, right_ref = ColumnRef(left_table, left_column), ColumnRef(right_table, right_column)
            return self._answered(
                left, question, now, lambda left: join_estimate(_sketch(left, left_ref), _sketch(right, right_ref))
            )

        return self.following((left_table, right_table), estimate)

    def union_ndv(self, columns: Iterable[ColumnRef | tuple[str, str]]) -> UnionEstimate:
        """
        How many distinct values there are in all of some columns of current snapshots together.

        Args:
            columns: Tables and columns, or references that name partitions too.

        Raises:
            PuffinError: As for `estimate_join`.
        """
        wanted = [column if isinstance(column, ColumnRef) else ColumnRef(*column) for column in columns]

        def estimate() -> UnionEstimate:
            now = self._clock()
            views = [self._cache.view(each.table, _CURRENT, now) for each in wanted]
            return union_estimate([(each, _sketch(view, each)) for each, view in zip(wanted, views, strict=True)])

        return self.following([each.table for each in wanted], estimate)

    def following(self, tables: Iterable[str], ask: Callable[[], _T]) -> _T:
        """
        What ``ask`` returns, which asks this lookup about the tables and reads files that their metadata names.

        A commit may have replaced such a file, and a cleaning taken it away, within the time to live. So where one is
        gone, the tables are asked for news at once, and ``ask`` is called again.

        Raises:
            FileNotFound: It is gone all the same.
            PuffinError: As ``ask`` raises it.
        """
        try:
            return ask()
        except FileNotFound:
            for table in tables:
                self._cache.expire(table)
            return ask()

    def tables(
        self, namespaces: Iterable[str] | None = None, *, roots: Iterable[str] = (), limit: int = MOST_TABLES
    ) -> Iterator[AnalyzedTable]:
        """
        The tables that have statistics, each found when it is asked for; those that cannot be read are left out, a
        namespace that was asked for is not.

        Args:
            namespaces: Of the catalog; None for all of them, if there is a catalog.
            roots: Directories whose tables are listed too, by their locations.
            limit: How many tables are looked at, at most.

        Raises:
            UsageError: There are namespaces and no catalog, or directories and a catalog without locations; or the
                catalog has no such namespace.
            SetupError, StorageError: The catalog cannot be used.
        """
        return self._analyzed(itertools.islice(self.table_names(namespaces, roots=roots), limit))

    def table_names(self, namespaces: Iterable[str] | None = None, *, roots: Iterable[str] = ()) -> Iterator[str]:
        """The names of tables, analyzed or not, found as they are asked for; arguments and errors as for `tables`."""
        roots = tuple(roots)
        if roots and not self._takes_locations:
            raise UsageError("expected namespaces of the catalog, found directories")
        if namespaces is None and not self._has_catalog:
            namespaces = ()
        if namespaces and not self._has_catalog:
            raise UsageError("namespaces need a catalog")
        return table_names(self._tables, namespaces, roots)

    def analyzed(self, table: str) -> AnalyzedTable | None:
        """
        What is known of a table's statistics as a whole; None if it has none.

        Raises:
            PuffinError: The table cannot be found or loaded.
        """
        return analyzed_table(table, self._cache.view(table, _CURRENT, self._clock()).opened)

    def _analyzed(self, names: Iterable[str]) -> Iterator[AnalyzedTable]:
        for name in names:
            try:
                found = self.analyzed(name)
            except PuffinError as exc:
                _log.warning("a table is left out: %s", exc)
                continue
            if found is not None:
                yield found

    def _answered(self, view: View, question: Hashable, arrived: float, make: Callable[[View], _T]) -> _T:
        def made() -> _T:
            self._counts.misses += 1
            answer = make(view)
            if not (isinstance(answer, TableAnswer) and answer.is_provisional):
                view.keep(question, answer)
            return answer

        def found() -> _T | None:
            answer: _T | None = view.answers.get(question)
            return answer

        return view.gate.make(question, arrived, found, made)


def _names(columns: Sequence[str] | None) -> str | tuple[str, ...] | None:
    return columns if columns is None or isinstance(columns, str) else tuple(columns)  # a text is none: it is refused


def _sketch(view: View, column: ColumnRef) -> ColumnSketch:
    return column_sketch(view.opened, column)
