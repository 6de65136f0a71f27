"""
Ours: `puffin.Lookup` after `stats_jobs.analyze`.

It estimates filters, groups and joins of two tables. For more tables it is used as a planner would: the rows that each
table keeps after its filter, times the selectivity of each edge as if the edges were independent of each other, where
the selectivity of an edge is that of the join of its two tables with their filters. Where two tables are joined to the
same key of a third, their own join is an edge too, and may stand for one of the others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import pyarrow.parquet as pq

from benchmarks.estimates.engine import OURS, Engine, Estimate
from benchmarks.estimates.questions import Question
from benchmarks.estimates.suite import Edge, Suite
from puffin.errors import PuffinError
from puffin.lookup import JoinEstimate, Lookup, TableEstimate
from stats_jobs import Options, analyze

_ALL_IN_PROCESS = 1 << 40  # bytes that the job may read without starting Spark
_LOOKUPS = 3

Answer = TypeVar("Answer")


def analyze_suite(suite: Suite) -> float:
    """Compute the statistics of all tables anew; returns the seconds that it took."""
    started = time.monotonic()
    for table in suite.tables.values():
        analyze(str(table.directory), Options(mode="full", driver_bytes=_ALL_IN_PROCESS, joint=table.joint))
    return time.monotonic() - started


class Ours(Engine):
    """
    Estimates by lookups that have been asked about each table before.

    The time is processor time, and the best of several lookups: none of them has been asked with these literals before,
    and what other processes do on the machine meanwhile should not count.
    """

    name = OURS

    def __init__(self, suite: Suite) -> None:
        super().__init__()
        self._tables = {name: str(table.directory) for name, table in suite.tables.items()}
        self._lookups = [Lookup(ttl_seconds=1e9) for _ in range(_LOOKUPS)]
        self._seconds = 0.0
        self._warm_up(suite)

    def estimate(self, question: Question) -> Estimate | None:
        try:
            self._join_before(question)
            self._seconds = 0.0
            found = self._answer(question)
        except PuffinError as error:
            self.miss(f"refused: {type(error).__name__}: {str(error)[:100]}")
            return None
        if found is None:
            self.miss("no estimate")
            return None
        return dataclasses.replace(found, microseconds=self._seconds * 1e6)

    def _warm_up(self, suite: Suite) -> None:
        """Ask once about every column, as a planner has done long before, so that what is timed reads no files."""
        for name, table in suite.tables.items():
            columns = pq.read_schema(table.files[0]).names
            for group in [*([column] for column in columns), *(joint.split("+") for joint in table.joint)]:
                for lookup in self._lookups:
                    with contextlib.suppress(PuffinError):
                        lookup.estimate(self._tables[name], f"{group[0]} is not null", group)

    def _join_before(self, question: Question) -> None:
        """Join the tables once with other filters, as a planner has done before that joins them again."""
        for edge in question.edges if len(question.edges) == 1 else ():
            sides = self._tables[edge.left], edge.left_column, self._tables[edge.right], edge.right_column
            for lookup in self._lookups:
                lookup.estimate_join(*sides, left_where=f"{edge.pairs[0][0]} is not null")

    def _timed(self, ask: Callable[[Lookup], Answer]) -> Answer:
        seconds = math.inf
        for lookup in self._lookups:
            started = time.thread_time()
            found = ask(lookup)
            seconds = min(seconds, time.thread_time() - started)
        self._seconds += seconds
        return found

    def _answer(self, question: Question) -> Estimate | None:
        if not question.edges:
            (table,) = question.tables
            return self._filter_or_groups(table, question.filter_of(table), question.group_by)
        if len(question.edges) == 1:
            return estimate_of_join(self._join(question, question.edges[0]))
        return self._product(question)

    def _filter_or_groups(self, table: str, where: str | None, group_by: tuple[str, ...]) -> Estimate | None:
        answer = self._timed(lambda lookup: lookup.estimate(self._tables[table], where, list(group_by) or None))
        return estimate_of(answer)

    def _join(self, question: Question, edge: Edge) -> JoinEstimate:
        sides = self._tables[edge.left], edge.left_column, self._tables[edge.right], edge.right_column
        where = question.filter_of(edge.left), question.filter_of(edge.right)
        return self._timed(lambda lookup: lookup.estimate_join(*sides, *where))

    def _product(self, question: Question) -> Estimate | None:
        rows: dict[str, float] = {}
        for table in question.tables:
            kept = self._filter_or_groups(table, question.filter_of(table), ())
            if kept is None:
                return None
            rows[table] = kept.rows
        shares = {}
        for edge in implied(question.edges):
            join = self._join(question, edge)
            if join.join_rows is None:
                return None
            shares[edge] = join.join_rows / max(rows[edge.left] * rows[edge.right], 1)
        return Estimate(math.prod(rows.values()) * math.prod(shares[edge] for edge in _tree(shares)))


def estimate_of(found: TableEstimate) -> Estimate | None:
    """The groups, or the rows if none were asked for; None if it does not say."""
    rows = found.rows if found.group_by is None else found.groups
    methods = "; ".join(sorted({method for _, method in found.methods}))
    return None if rows is None else Estimate(*rows.rounded(), method=methods)


def estimate_of_join(found: JoinEstimate) -> Estimate | None:
    """The rows of a join; None if it does not say."""
    if found.rows is not None:
        return Estimate(*found.rows.rows.rounded(), method=found.rows.method)
    return None if found.join_rows is None else Estimate(found.join_rows)


def implied(edges: Sequence[Edge]) -> list[Edge]:
    """These edges of a tree, and those that follow from them since their keys are equal to the same key."""
    found = list(edges)
    for edge in found:  # grows on the way
        for other in edges:
            for table, key in ((edge.left, edge.left_column), (edge.right, edge.right_column)):
                if (table, key) in _ends(other) and edge is not other:
                    ends = [end for end in (*_ends(edge), *_ends(other)) if end != (table, key)]
                    (left, left_key), (right, right_key) = sorted(ends)
                    new = Edge(left, left_key, right, right_key)
                    if not any(set(_ends(new)) == set(_ends(each)) for each in found):
                        found.append(new)
    return found


def _ends(edge: Edge) -> tuple[tuple[str, str], tuple[str, str]]:
    return (edge.left, edge.left_column), (edge.right, edge.right_column)


def _tree(shares: Mapping[Edge, float]) -> list[Edge]:
    """
    Edges from which all others follow, those with the greatest share of all pairs of rows first.

    An edge between two tables that both have many rows of a key knows how these go together, which their edges to a
    table with one row of each do not.
    """
    tree: list[Edge] = []
    group: dict[str, frozenset[str]] = {}
    for edge in sorted(shares, key=lambda each: shares[each], reverse=True):
        left, right = (group.get(table, frozenset([table])) for table in (edge.left, edge.right))
        if edge.right not in left:
            tree.append(edge)
            group |= dict.fromkeys(left | right, left | right)
    return tree
