"""
STATS-CEB: the tables of a site of questions and answers, and the queries that papers on estimates ask of them.

Neither PyPI nor Maven Central has it. The suite is there if ``.bench/stats-ceb`` is a checkout of the repository
``Nathaniel-Han/End-to-End-CardEst-Benchmark`` on GitHub. A query is asked if the checkout has the files of its tables.
Beside the 146 queries there are those of parts of them: each subset of their tables that is joined, each table alone.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

from benchmarks.estimates.predicates import Predicate
from benchmarks.estimates.questions import Question
from benchmarks.estimates.suite import Edge, Suite, found_table, made_table
from benchmarks.run import HOME, say

CHECKOUT = HOME / "stats-ceb"
FILTER, JOIN_TWO, JOIN_MORE = "STATS-CEB, filter", "STATS-CEB, join of two", "STATS-CEB, join of more"

_DATA = CHECKOUT / "datasets" / "stats_simplified"
_QUERIES = CHECKOUT / "workloads" / "stats_CEB"
_QUERY = re.compile(r"SELECT COUNT\(\*\) FROM (?P<tables>.+?)(?: WHERE (?P<conditions>.+))?;")
_CONDITION = re.compile(r"(?P<alias>\w+)\.(?P<column>\w+) *(?P<operator><=|>=|<|>|=) *(?P<other>.+)")
_COLUMN = re.compile(r"(?P<alias>[a-z]\w*)\.(?P<column>\w+)")
_TIMESTAMP = "::timestamp"
_JOINT = {"posts": ("PostTypeId+AnswerCount", "ViewCount+AnswerCount", "AnswerCount+FavoriteCount")}
"""Columns that are null together: only questions have views, answers and favorites."""
_TIME = pa.timestamp("us", "UTC")


def stats_suite(_seed: int) -> Suite:
    """The tables whose files the checkout has; made or found."""
    tables = {}
    for file in sorted(_DATA.glob("*.csv")):
        name = file.stem.lower()
        joint = _JOINT.get(name, ())
        tables[name] = found_table("stats", name, joint) or made_table("stats", name, _read(file), joint)
    if not tables:
        raise SystemExit(f"estimates: expected the tables of STATS-CEB in {_DATA}, found none")
    return Suite("stats", tables, ())


def stats_questions(suite: Suite) -> list[Question]:
    """The queries of these tables that have a filter or a join, each only once."""
    lines = [line for file in sorted(_QUERIES.rglob("*.sql")) for line in file.read_text().splitlines()]
    found = {question: None for line in lines if (question := question_of(line, suite.tables)) is not None}
    say(f"STATS-CEB: {len(found)} questions on {', '.join(suite.tables)}")
    return list(found)


def question_of(line: str, tables: Collection[str]) -> Question | None:
    """
    The query in a line of the checkout; None if it has neither filter nor join.

    None too if it has a condition of another form, another table than these, a table twice, or joins that are not a
    tree.
    """
    query = _QUERY.search(line)
    if query is None:
        return None
    names = dict(_named(each) for each in query["tables"].split(", "))
    predicates: dict[str, list[Predicate]] = {name: [] for name in names.values()}
    edges = []
    for condition in query["conditions"].split(" AND ") if query["conditions"] else ():
        told = _CONDITION.fullmatch(condition.strip())
        if told is None:
            return None
        name, column = names[told["alias"]], told["column"]
        other = _COLUMN.fullmatch(told["other"].strip())
        if other is None:
            predicates[name].append(Predicate(column, told["operator"], (_literal(told["other"]),)))
        else:
            (left, left_column), (right, right_column) = sorted(
                [(name, column), (names[other["alias"]], other["column"])]
            )
            edges.append(Edge(left, left_column, right, right_column))
    is_known = predicates.keys() <= set(tables) and len(predicates) == len(names)
    tree = _tree(sorted(predicates), sorted(edges, key=repr))
    if not is_known or tree is None or not (edges or any(predicates.values())):
        return None
    joined, edges = tree
    kind = FILTER if not edges else JOIN_TWO if len(edges) == 1 else JOIN_MORE
    return Question(kind, tuple(joined), tuple(tuple(predicates[name]) for name in joined), tuple(edges))


def _read(file: Path) -> pa.Table:
    """A table, with times of UTC: Spark's optimizer fails at statistics of times without a zone."""
    table = csv.read_csv(file)
    is_time = [pa.types.is_timestamp(field.type) for field in table.schema]
    types = [_TIME if each else field.type for each, field in zip(is_time, table.schema, strict=True)]
    return table.cast(pa.schema(list(zip(table.schema.names, types, strict=True))))


def _named(text: str) -> tuple[str, str]:
    """The alias and the table of ``table as alias``."""
    table, alias = text.strip().split(" as ")
    return alias, table.lower()


def _literal(text: str) -> Any:
    if text.endswith(_TIMESTAMP):
        time = datetime.datetime.fromisoformat(text.removesuffix(_TIMESTAMP).strip("'"))
        return time.replace(tzinfo=datetime.timezone.utc)
    return int(text)


def _tree(tables: list[str], edges: list[Edge]) -> tuple[list[str], list[Edge]] | None:
    """Each table but the first joined to one before it; None if that cannot be."""
    ordered, used = tables[:1], []
    while edges:
        edge = next((each for each in edges if (each.left in ordered) != (each.right in ordered)), None)
        if edge is None:
            return None
        edges = [each for each in edges if each is not edge]
        ordered.append(edge.right if edge.left in ordered else edge.left)
        used.append(edge)
    return (ordered, used) if len(ordered) == len(tables) else None
