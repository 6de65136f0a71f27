"""
The planner's lookup for a process that asks again and again: `puffin.lookup.planner` over a `TableCache`.

`Lookup.ndv` and the first lines of `Lookup.ask` are the hot path: they take no lock and build no question.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from puffin.errors import FileNotFound, PuffinError, UsageError
from puffin.load import Tables
from puffin.lookup.cache import Counts, Kept, TableCache, View
from puffin.lookup.history import ColumnHistory, column_history
from puffin.lookup.listing import AnalyzedTable, analyzed_table, table_names
from puffin.lookup.planner import answer_from
from puffin.lookup.question import Question, question_of
from puffin.lookup.sets import (
    ColumnSketch,
    JoinEstimate,
    UnionEstimate,
    column_sketch,
    join_estimate,
    union_estimate,
)
from puffin.statistics.answer import TableAnswer
from puffin.storage import FileSource, Store, store_for

TTL_SECONDS = 10.0
MOST_TABLES = 1000

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Lookup:
    """
    Looks up columns of tables, by location or in a catalog, and keeps the answers.

    Any number of threads may ask. An answer is at most ``ttl_seconds`` older than the call, plus the time that reading
    takes if it is not kept. Equal questions get the same frozen object.

    Args:
        catalog: A catalog of pyiceberg's configuration; None for tables by their locations.
        catalog_properties: Properties that override that configuration.
        locations: Whether, with a catalog, a name with a slash is still the location of a table.
        ttl_seconds: How long metadata counts before the table is checked for commits; 0 checks always.
        max_tables: How many tables are kept; the least recently used go.
        store_for: Opens every file of tables by location; one that refuses files confines an untrusted table.
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
        """What was kept and what was not, so far; a live object."""
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
        names = columns if columns is None or isinstance(columns, str) else tuple(columns)
        parts = tuple(partitions) if partitions else ()
        question = question_of(table, names, snapshot_id, ref, as_of_ms, max_staleness, parts, where, manifests)
        answer: TableAnswer = self.ask(question).answer
        return answer

    def ask(self, question: Question) -> Kept:
        """The answer of `ndv` to a question, as it is kept; errors likewise."""
        now = self._clock()
        kept = self._cache.answers.get(question)
        if kept is not None and kept.counts_at(now):
            self._counts.hits += 1
            return kept
        view = self._cache.view(question.table, question.selector, now)
        return self._made(view, question, now, lambda: answer_from(view.opened, question))

    def at_hand(self, question: Question) -> Kept | None:
        """What `ask` would return without reading anything; None if it would have to read."""
        kept = self._cache.answers.get(question)
        return kept if kept is not None and self.still_counts(kept) else None

    def still_counts(self, kept: Kept) -> bool:
        """Whether an answer that was kept may be given once more."""
        if not kept.counts_at(self._clock()):
            return False
        self._counts.hits += 1
        return True

    def history(self, table: str, column: str) -> ColumnHistory:
        """
        What statistics have said of a column over the snapshots of a table.

        Raises:
            NotFoundError: There is no such table or column.
            UnsupportedTypeError: Columns of its type have no statistics.
            CorruptMetadataError, StorageError: The metadata cannot be read.
        """
        return column_history(self._view(Question(table)).opened, Question(table, (column,)))

    def open_statistics(self, table: str, path: str) -> FileSource:
        """
        Open a statistics file of a table, with the credentials that the table's catalog gives.

        Raises:
            PuffinError: There is no such table or file, or it cannot be read.
        """
        return self._view(Question(table)).opened.store_for(path).open_source(path)

    def estimate_join(self, left_table: str, left_column: str, right_table: str, right_column: str) -> JoinEstimate:
        """
        What two columns of current snapshots have in common, and how many rows their equi-join has.

        Raises:
            NotFoundError: There is no such table or column, or no statistics of one.
            UnsupportedTypeError: The values of the columns are not hashed alike.
            CorruptError, StorageError: Metadata or a statistics file cannot be read.
        """
        return self.join(Question(left_table, (left_column,)), Question(right_table, (right_column,)))

    def join(self, left: Question, right: Question) -> JoinEstimate:
        """What the columns of two questions have in common; errors as for `estimate_join`."""

        def estimate() -> JoinEstimate:
            now = self._clock()
            left_view, right_view = self._view(left), self._view(right)
            key = (left, right, right_view.number)
            kept = self._cache.answers.get(key)
            if kept is not None:
                self._counts.hits += 1
            else:
                kept = self._made(
                    left_view, key, now, lambda: join_estimate(_sketch(left_view, left), _sketch(right_view, right))
                )
            found: JoinEstimate = kept.answer
            return found

        return self.following((left.table, right.table), estimate)

    def union_ndv(self, columns: Iterable[Question | tuple[str, str]]) -> UnionEstimate:
        """
        How many distinct values there are in all of some columns together.

        Args:
            columns: Questions about one column each; or a table and a column of its current snapshot.

        Raises:
            PuffinError: As for `estimate_join`.
        """
        wanted = [each if isinstance(each, Question) else Question(each[0], (each[1],)) for each in columns]

        def estimate() -> UnionEstimate:
            return union_estimate(wanted, [_sketch(self._view(each), each) for each in wanted])

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
        return analyzed_table(table, self._view(Question(table)).opened)

    def _analyzed(self, names: Iterable[str]) -> Iterator[AnalyzedTable]:
        for name in names:
            try:
                found = self.analyzed(name)
            except PuffinError as exc:
                _log.warning("a table is left out: %s", exc)
                continue
            if found is not None:
                yield found

    def _view(self, question: Question) -> View:
        return self._cache.view(question.table, question.selector, self._clock())

    def _made(self, view: View, key: Hashable, arrived: float, make: Callable[[], object]) -> Kept:
        def made() -> Kept:
            self._counts.misses += 1
            answer = make()
            if isinstance(answer, TableAnswer) and answer.is_provisional:
                return Kept(view, answer)
            return self._cache.keep(view, key, answer)

        def found() -> Kept | None:
            kept = self._cache.answers.get(key)
            return kept if kept is not None and kept.view is view else None

        return view.gate.make(key, arrived, found, made)


def _sketch(view: View, question: Question) -> ColumnSketch:
    return column_sketch(view.opened, question)
