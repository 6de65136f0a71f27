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
from typing import Any

import pyarrow.parquet as pq

from benchmarks.estimates.engine import OURS, Engine, Estimate
from benchmarks.estimates.questions import Question
from benchmarks.estimates.suite import Edge, Suite
from benchmarks.run import say
from puffin.errors import PuffinError
from puffin.lookup import Lookup
from stats_jobs import Options, analyze

_ALL_IN_PROCESS = 1 << 40  # bytes that the job may read without starting Spark
_LOOKUPS = 3


def analyze_suite(suite: Suite) -> float:
    """Compute the statistics of all tables anew; returns the seconds that it took."""
    started = time.monotonic()
    for name, table in suite.tables.items():
        known = {field.name for field in dataclasses.fields(Options)}
        joint: dict[str, Any] = {"joint": table.joint} if "joint" in known else {}
        if table.joint and not joint:
            say(f"{suite.name}.{name}: stats_jobs.Options has no option joint yet: no joint sketches")
        analyze(str(table.directory), Options(mode="full", driver_bytes=_ALL_IN_PROCESS, **joint))
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
        self._lookups: list[Any] = [Lookup(ttl_seconds=1e9) for _ in range(_LOOKUPS)]
        self._seconds = 0.0
        self._warm_up(suite)

    def estimate(self, question: Question) -> Estimate | None:
        try:
            self._join_before(question)
            self._seconds = 0.0
            found = self._answer(question)
        except (AttributeError, TypeError) as error:  # what has not been built yet
            self.miss(f"missing: {error}")
            return None
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
                    with contextlib.suppress(AttributeError, PuffinError):
                        lookup.estimate(self._tables[name], f"{group[0]} is not null", group)

    def _join_before(self, question: Question) -> None:
        """Join the tables once with other filters, as a planner has done before that joins them again."""
        for edge in question.edges if len(question.edges) == 1 else ():
            sides = self._tables[edge.left], edge.left_column, self._tables[edge.right], edge.right_column
            for lookup in self._lookups:
                lookup.estimate_join(*sides, left_where=f"{edge.pairs[0][0]} is not null")

    def _timed(self, ask: Callable[[Any], Any]) -> dict[str, Any]:
        """The answer as JSON; what a lookup takes for it counts, the JSON does not."""
        seconds = math.inf
        for lookup in self._lookups:
            started = time.thread_time()
            found = ask(lookup)
            seconds = min(seconds, time.thread_time() - started)
        self._seconds += seconds
        answer: dict[str, Any] = found.to_json()
        return answer

    def _answer(self, question: Question) -> Estimate | None:
        if not question.edges:
            (table,) = question.tables
            return self._filter_or_groups(table, question.filter_of(table), question.group_by)
        if len(question.edges) == 1:
            return _join_rows(self._join(question, question.edges[0]))
        return self._product(question)

    def _filter_or_groups(self, table: str, where: str | None, group_by: tuple[str, ...]) -> Estimate | None:
        answer = self._timed(lambda lookup: lookup.estimate(self._tables[table], where, list(group_by) or None))
        value, lower, upper = ("groups", "groups-lower", "groups-upper") if group_by else ("rows", "lower", "upper")
        methods = "; ".join(sorted({str(each["method"]) for each in answer.get("methods") or ()}))
        return None if answer[value] is None else Estimate(answer[value], answer[lower], answer[upper], method=methods)

    def _join(self, question: Question, edge: Edge) -> dict[str, Any]:
        sides = self._tables[edge.left], edge.left_column, self._tables[edge.right], edge.right_column
        where = {"left_where": question.filter_of(edge.left), "right_where": question.filter_of(edge.right)}
        given = {name: text for name, text in where.items() if text is not None}
        return self._timed(lambda lookup: lookup.estimate_join(*sides, **given))

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
            if join["join-rows"] is None:
                return None
            shares[edge] = join["join-rows"] / max(rows[edge.left] * rows[edge.right], 1)
        return Estimate(math.prod(rows.values()) * math.prod(shares[edge] for edge in _tree(shares)))


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


def _join_rows(join: dict[str, Any]) -> Estimate | None:
    if join["join-rows"] is None:
        return None
    return Estimate(join["join-rows"], join.get("join-lower"), join.get("join-upper"), method=join.get("method"))
