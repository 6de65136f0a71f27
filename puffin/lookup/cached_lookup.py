"""
The planner's lookup for a long-running process: `puffin.lookup.planner` over a `TableCache`.

`Lookup.ndv` and the first lines of `Lookup.ask` are the hot path: they take no lock and build no question.
"""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from puffin.errors import FileNotFound, PuffinError, UsageError
from puffin.load import FoundTable, Tables
from puffin.lookup.cache import Kept, TableCache, View
from puffin.lookup.column_sketches import UnionEstimate, column_sketch, union_estimate
from puffin.lookup.distribution import ColumnDistribution, column_distribution
from puffin.lookup.estimates import Estimator, TableEstimate
from puffin.lookup.gate import Gate, Gates
from puffin.lookup.history import ColumnHistory, column_history
from puffin.lookup.join_estimate import JoinEstimate
from puffin.lookup.kept_joins import JoinPairs, JoinQuestion
from puffin.lookup.kept_planner import KeptPlanners
from puffin.lookup.listing import AnalyzedTable, analyzed_table, listed_tables, names_of
from puffin.lookup.opened_views import OpenedView, OpenedViews
from puffin.lookup.planner import answer_from
from puffin.lookup.question import Question, question_of
from puffin.planning.file_plan import FilePlan
from puffin.planning.plan import Filter
from puffin.statistics.answer import TableAnswer
from puffin.storage import FileSource, Store, store_for
from puffin.tables.arguments import NameOrPath, check_integer, check_list
from puffin.tables.base import SnapshotSelector
from puffin.tables.snapshot import CURRENT, TableSnapshot

TTL_SECONDS = 10.0
MOST_TABLES = 1000

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_RETRY_SECONDS = 2  # how long estimates stay for which storage failed, since each attempt may wait for it


class Lookup:
    """
    Looks up columns of tables, by location or in a catalog, and caches the answers.

    Safe for any number of threads. An answer is at most ``ttl_seconds`` older than the call, plus the time to read
    what is not cached. Equal questions get the same frozen object.

    Args:
        catalog: A catalog in pyiceberg's configuration; None for tables by location.
        catalog_properties: Properties that override that configuration.
        more_catalogs: Other catalogs with such properties; their tables are named ``CATALOG:namespace.table``.
        locations: Whether, with a catalog, a name with a slash is still the location of a table.
        ttl_seconds: How long metadata is valid without a check for commits; 0 always checks.
        max_tables: How many tables to cache; the least recently used are evicted.
        store_for: Opens every file of tables by location; a store that refuses files confines untrusted tables.
        clock: A monotonic time in seconds.

    Attributes:
        counts: Hits and misses so far; a live object.

    Raises:
        UsageError: A number is out of range, or there are properties or other catalogs without a catalog.
    """

    def __init__(
        self,
        *,
        catalog: str | None = None,
        catalog_properties: Mapping[str, str] | None = None,
        more_catalogs: Mapping[str, Mapping[str, str]] | None = None,
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
        self._tables = Tables(
            catalog, catalog_properties, others=more_catalogs, locations=locations, store_for=store_for
        )
        self._has_catalog = catalog is not None
        self._takes_locations = locations or catalog is None
        self._cache = TableCache(self._tables.load, ttl_seconds, max_tables, clock)
        self._planners = KeptPlanners()
        self._joins = JoinPairs()
        self._join_gates = Gates(lambda: Gate(clock))
        self._opened_views = OpenedViews(self._planners, ttl_seconds, max_tables, clock)
        self.counts = self._cache.counts

    def __len__(self) -> int:
        """How many tables are cached."""
        return len(self._cache)

    def ndv(
        self,
        table: NameOrPath,
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
        names = columns if columns is None or isinstance(columns, str) else tuple(columns)
        parts = tuple(partitions) if partitions and not isinstance(partitions, str) else partitions or ()
        question = question_of(
            os.fspath(table), names, snapshot_id, ref, as_of_ms, max_staleness, parts, where, manifests
        )
        answer: TableAnswer = self.ask(question).answer
        return answer

    def ask(self, question: Question) -> Kept:
        """The cached answer to a question; errors as for `ndv`."""
        now = self._clock()
        kept = self._cache.answers.get(question)
        if kept is not None and kept.view.is_fresh_at(now):
            self.counts.hits += 1
            return kept
        view = self._cache.view(question.table, question.selector, now)
        return self._make(view, question, now, lambda: answer_from(view.opened, question))

    def at_hand(self, question: Question) -> Kept | None:
        """What `ask` would return without any I/O; None if it would have to read."""
        kept = self._cache.answers.get(question)
        return kept if kept is not None and self.is_fresh(kept) else None

    def is_fresh(self, kept: Kept) -> bool:
        """Whether a cached answer is still valid; if so, count a hit."""
        if not kept.view.is_fresh_at(self._clock()):
            return False
        self.counts.hits += 1
        return True

    def opened(
        self, table: NameOrPath, selector: SnapshotSelector = CURRENT, *, checked: bool = False, evicts: bool = True
    ) -> TableSnapshot:
        """
        A table as it was opened within the time to live; if ``checked``, not before this call.

        Without ``evicts``, it is not cached in the place of another one.
        """
        name = os.fspath(table)
        if checked:
            self._cache.expire(name)
        return self._view(name, selector).opened if evicts else self._cache.opened(name, selector, self._clock())

    def plan(
        self,
        table: NameOrPath,
        where: Filter | None = None,
        *,
        snapshot_id: int | None = None,
        ref: str | None = None,
        as_of_ms: int | None = None,
    ) -> FilePlan:
        """
        The answer of `puffin.plan` to the same arguments, with the same errors.

        The index is at most as old as metadata may be. The files of a snapshot stay in memory, with the ranges of the
        index that were read; both are bounded.
        """
        name = os.fspath(table)
        selector = SnapshotSelector(snapshot_id=snapshot_id, ref=ref, as_of_ms=as_of_ms)
        return self.following([name], lambda: self._planned(self._view(name, selector), where))

    def plan_opened(self, opened: TableSnapshot, where: Filter | None = None) -> FilePlan:
        """
        As `plan`, for a table that the caller has opened, whose stores read what is not in memory yet.

        Openings of a table that have the same object as their state share what was read and planned.
        """
        return self._planned(self._opened_views.of(opened), where)

    def estimate(
        self,
        table: NameOrPath,
        where: str | None = None,
        group_by: Sequence[str] | None = None,
        *,
        snapshot_id: int | None = None,
        ref: str | None = None,
        as_of_ms: int | None = None,
    ) -> TableEstimate:
        """The answer of `puffin.estimate` to the same arguments, with the same errors; statistics stay in memory."""
        name = os.fspath(table)
        selector = SnapshotSelector(snapshot_id=snapshot_id, ref=ref, as_of_ms=as_of_ms)
        return self.following([name], lambda: self._estimator(self._view(name, selector)).estimate(where, group_by))

    def history(self, table: NameOrPath, column: str) -> ColumnHistory:
        """The statistics of a column over the snapshots of a table; errors as for `ndv`."""
        question = Question(os.fspath(table), (column,))
        return column_history(self._view(question.table).opened, question)

    def distribution(self, table: NameOrPath, column: str) -> ColumnDistribution:
        """The most frequent values of a column and its histogram; errors as for `ndv`."""
        name = os.fspath(table)
        return self.following([name], lambda: column_distribution(self._estimator(self._view(name)), column))

    def open_statistics(self, table: NameOrPath, path: NameOrPath) -> FileSource:
        """Open a statistics file of a table with its catalog's credentials; PuffinError if that fails."""
        path = os.fspath(path)
        return self._view(os.fspath(table)).opened.store_for(path).open_source(path)

    def estimate_join(
        self,
        left_table: NameOrPath,
        left_column: str,
        right_table: NameOrPath,
        right_column: str,
        left_where: str | None = None,
        right_where: str | None = None,
    ) -> JoinEstimate:
        """
        Estimate the overlap of two columns of current snapshots, and the rows of their equi-join.

        Args:
            left_column, right_column: A name, or several with ``+`` between them, matched in their order.
            left_where, right_where: Row filters in pyiceberg's grammar.

        Raises:
            NotFoundError: There is no such table or column, or one has no statistics.
            UsageError: A filter cannot be parsed, or the sides do not have as many columns.
            UnsupportedTypeError: The columns are hashed differently.
            CorruptError, StorageError: Metadata or a statistics file cannot be read.
        """
        left = question_of(os.fspath(left_table), (left_column,))
        right = question_of(os.fspath(right_table), (right_column,))
        return self.join(JoinQuestion(left, left_where), JoinQuestion(right, right_where))

    def join(self, left: JoinQuestion, right: JoinQuestion) -> JoinEstimate:
        """As `estimate_join`, for the columns of two questions."""

        def estimate() -> JoinEstimate:
            now = self._clock()
            left_view, right_view = (self._view(each.question.table, each.question.selector) for each in (left, right))
            key = (left, right, right_view.number)
            kept = self._cache.answers.get(key)
            if kept is not None:
                self.counts.hits += 1
            else:
                sides = (left, self._estimator(left_view)), (right, self._estimator(right_view))
                # A gate of their own: the left table does not wait for the storage of the right one.
                gate = self._join_gates.of((left_view.number, right_view.number))
                kept = self._make(left_view, key, now, lambda: self._joins.estimate(*sides), gate)
            found: JoinEstimate = kept.answer
            return found

        return self.following([left.question.table, right.question.table], estimate)

    def union_ndv(self, columns: Iterable[Question | tuple[NameOrPath, str]]) -> UnionEstimate:
        """
        The number of distinct values in several columns together; errors as for `estimate_join`.

        Args:
            columns: Questions about one column each, or pairs of a table and a column of its current snapshot.
        """
        check_list(columns, "pairs of a table and a column")
        columns = list(columns)
        for each in columns:
            check_list(each, "a table and a column")
            if not (isinstance(each, Question) or (isinstance(each, Sequence) and len(each) == 2)):
                raise UsageError(f"expected a table and a column, found {each!r}")
        wanted = [each if isinstance(each, Question) else Question(os.fspath(each[0]), (each[1],)) for each in columns]

        def estimate() -> UnionEstimate:
            sketches = [column_sketch(self._view(each.table, each.selector).opened, each) for each in wanted]
            return union_estimate(wanted, sketches)

        return self.following([each.table for each in wanted], estimate)

    def following(self, tables: Iterable[str], ask: Callable[[], _T]) -> _T:
        """
        Call ``ask``, which reads files named by the metadata of these tables.

        Within the time to live, a commit may replace such a file and a cleaning remove it. If one is missing, check the
        tables for commits and call ``ask`` once more.
        """
        try:
            return ask()
        except FileNotFound:
            for table in tables:
                self._cache.expire(table)
            return ask()

    def tables(
        self, namespaces: Iterable[str] | None = None, *, roots: Iterable[NameOrPath] = (), limit: int = MOST_TABLES
    ) -> Iterator[AnalyzedTable]:
        """
        The tables that have statistics, opened lazily; tables that cannot be read are skipped with a warning.

        Args:
            namespaces: Namespaces of the catalog; None for all of them.
            roots: Directories whose tables are listed too, by location.
            limit: The most tables to open.

        Raises:
            UsageError: A text in place of a list, namespaces without a catalog, directories with a catalog that takes
                no locations, an unknown namespace, or a negative limit.
            SetupError, StorageError: The catalog cannot be used. Beside tables below directories, only it is skipped.
        """
        check_integer(limit, "limit", 0)
        names = itertools.islice(self.table_names(namespaces, roots=roots), limit)
        return filter(None, map(self._analyzed_if_readable, names))

    def table_names(
        self, namespaces: Iterable[str] | None = None, *, roots: Iterable[NameOrPath] = ()
    ) -> Iterator[str]:
        """The names of tables, with or without statistics, found lazily; as for `tables`."""
        return names_of(self.listed(namespaces, roots=roots))

    def listed(
        self, namespaces: Iterable[str] | None = None, *, roots: Iterable[NameOrPath] = ()
    ) -> Iterator[FoundTable]:
        """As `table_names`, with the formats of tables, and with the places that cannot be listed."""
        check_list(namespaces, "namespaces")
        check_list(roots, "directories")
        directories = [os.fspath(root) for root in roots]
        if directories and not self._takes_locations:
            raise UsageError("expected namespaces of the catalog, found directories")
        if namespaces and not self._has_catalog:
            raise UsageError("namespaces need a catalog")
        return listed_tables(self._tables, namespaces if self._has_catalog else (), directories)

    def names_catalog(self, table: str) -> bool:
        """Whether a name begins with that of a catalog."""
        return self._tables.split(table)[0] is not None

    def namespaces(self) -> list[str]:
        """The dotted names of the catalog's namespaces, sorted; errors as for `tables`."""
        return self._tables.namespaces()

    def namespace_properties(self, namespace: str) -> dict[str, str]:
        """The properties of a namespace of the catalog, none if it does not exist; errors as for `tables`."""
        return self._tables.namespace_properties(namespace)

    def analyzed(self, table: NameOrPath) -> AnalyzedTable | None:
        """A summary of a table's statistics; None if it has none. PuffinError if the table cannot be loaded."""
        name = os.fspath(table)
        return analyzed_table(name, self._view(name).opened)

    def _analyzed_if_readable(self, table: str) -> AnalyzedTable | None:
        try:
            return self.analyzed(table)
        except PuffinError as exc:
            _log.warning("skipped a table: %s", exc)
            return None

    def _planned(self, view: View | OpenedView, where: Filter | None) -> FilePlan:
        planner = self._planners.of(view)
        plan = planner.known(where, view)
        if plan is not None:
            self.counts.hits += 1
            return plan
        self.counts.misses += 1
        size = planner.size
        plan = planner.plan(where, view)
        if planner.size > size:
            self._planners.make_room(planner)
        return plan

    def _estimator(self, view: View) -> Estimator:
        estimator, now = view.estimator, self._clock()
        if estimator is None or (now >= view.estimator_until and estimator.is_provisional):
            estimator, view.estimator_until = Estimator(view.opened), now + _RETRY_SECONDS
            view.estimator = estimator
        return estimator

    def _view(self, table: str, selector: SnapshotSelector = CURRENT) -> View:
        return self._cache.view(table, selector, self._clock())

    def _make(
        self, view: View, key: Hashable, arrived: float, make: Callable[[], object], gate: Gate | None = None
    ) -> Kept:
        def made() -> Kept:
            self.counts.misses += 1
            answer = make()
            if isinstance(answer, TableAnswer | JoinEstimate) and answer.is_provisional:
                return Kept(view, answer)
            return self._cache.keep(view, key, answer)

        def found() -> Kept | None:
            kept = self._cache.answers.get(key)
            return kept if kept is not None and kept.view is view else None

        return (gate or view.gate).make(key, arrived, found, made)
