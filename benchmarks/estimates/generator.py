"""
Makes the questions of a suite from a seed.

Literals are those of rows drawn at random, so that frequent values are asked for as often as rows have them. Every
kind of predicate is asked as often as every other.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from benchmarks.estimates.predicates import COMPARED, NULL, PREFIX, RANGE, SINGLE_KINDS, Predicate, drawn
from benchmarks.estimates.questions import Question
from benchmarks.estimates.suite import BenchTable, Edge, Suite

CONJUNCTION, CONJUNCTION_JOINT = "conjunction", "conjunction, joint sketch"
JOIN_SAME, JOIN_INDEPENDENT, JOIN_PLAIN, JOIN_FILTERED = (
    "join, same skew",
    "join, other skew",
    "join, public data",
    "join, filtered",
)
JOIN_MANY = "join of 3 to 5"
GROUP_ONE, GROUP_TWO, GROUP_FILTERED = "group by one", "group by two", "group by, filtered"
_JOIN_KINDS = {"same": JOIN_SAME, "independent": JOIN_INDEPENDENT, "plain": JOIN_PLAIN}

_POOL = 3_000  # rows of a table that literals are drawn from
_LEAST_ROWS = 1_000  # of a table whose filters and groups are asked for
_LONGEST = 60  # characters of a literal
_MOST_TABLES = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Amounts:
    """How many questions of each sort: of each kind of predicate, conjunctions, joins, and GROUP BYs."""

    single: int
    conjunctions: int
    joins: int
    groups: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Column:
    """A column, whether it has nulls, and the values of rows drawn at random, as far as each grammar can say them."""

    name: str
    type: pa.DataType
    has_nulls: bool
    values: tuple[Any, ...]


def questions_of(suite: Suite, seed: int, amounts: Amounts) -> list[Question]:
    """The questions, always the same for a suite and a seed, each only once."""
    draw = _Draw(suite, random.Random(seed))
    made: dict[Question, None] = {}
    for kind in draw.kinds:
        _add(made, amounts.single, lambda kind=kind: draw.single(kind))
    _add(made, amounts.conjunctions, draw.conjunction)
    _add(made, amounts.conjunctions, draw.conjunction_of_joint)
    _add(made, amounts.joins // 2, draw.plain_join)
    _add(made, amounts.joins // 4, draw.filtered_join)
    _add(made, amounts.joins // 4, draw.join_of_many)
    _add(made, amounts.groups // 3, draw.group_by_one)
    _add(made, amounts.groups // 3, draw.group_by_two)
    _add(made, amounts.groups // 3, draw.filtered_group_by)
    return list(made)


def _add(made: dict[Question, None], count: int, draw: Any) -> None:
    """Add as many new questions; fewer where there are no more."""
    wanted = len(made) + count
    for _ in range(20 * count):
        if len(made) >= wanted:
            return
        made.setdefault(draw())


class _Draw:
    def __init__(self, suite: Suite, source: random.Random) -> None:
        self._random = source
        self._suite = suite
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._columns: dict[str, list[_Column]] = {}
        for name, table in suite.tables.items():
            rows, self._columns[name] = _drawn(table, source)
            self._rows[name] = rows.to_pylist()
        # A few rows are no question; such tables only take part in joins.
        self._names = [
            name for name, columns in self._columns.items() if max(len(c.values) for c in columns) >= _LEAST_ROWS
        ]

    @property
    def kinds(self) -> list[str]:
        """The kinds of predicates for which there are columns: no table of TPC-H has nulls."""
        return [kind for kind in SINGLE_KINDS if any(self._able(name, kind) for name in self._names)]

    def single(self, kind: str) -> Question:
        """A filter of one predicate."""
        tables = [name for name in self._names if self._able(name, kind)]
        table = self._random.choice(tables)
        return Question(kind, (table,), ((self._predicate(table, kind),),))

    def conjunction(self) -> Question:
        """A filter on two or three columns."""
        table = self._random.choice([name for name in self._names if len(self._columns[name]) > 2])
        return Question(CONJUNCTION, (table,), (self._conjunction(table, self._random.choice((2, 2, 3))),))

    def conjunction_of_joint(self) -> Question:
        """A filter on two columns of which the job was told, with the values of one row."""
        table, joint = self._joint()
        names = joint.split("+")
        row = self._random.choice(self._rows[table])
        while any(row[name] is None or _is_awkward(row[name]) for name in names):
            row = self._random.choice(self._rows[table])
        operators = "=", self._random.choice(("=", "=", *COMPARED))
        predicates = (Predicate(name, sign, (row[name],)) for name, sign in zip(names, operators, strict=True))
        return Question(CONJUNCTION_JOINT, (table,), (tuple(predicates),))

    def plain_join(self) -> Question:
        """A join of two whole tables."""
        # Every kind of edge is drawn as often as every other, however many edges there are of it.
        kind = self._random.choice(sorted({edge.kind for edge in self._suite.edges}))
        edge = self._random.choice([edge for edge in self._suite.edges if edge.kind == kind])
        return Question(_JOIN_KINDS[edge.kind], (edge.left, edge.right), ((), ()), (edge,))

    def filtered_join(self) -> Question:
        """A join of two tables, with a filter on one side or both."""
        edge = self._random.choice(self._suite.edges)
        filters = self._random.choice(((1, 0), (0, 1), (1, 1)))
        tables = edge.left, edge.right
        predicates = tuple(self._conjunction(table, count) for table, count in zip(tables, filters, strict=True))
        return Question(JOIN_FILTERED, tables, predicates, (edge,))

    def join_of_many(self) -> Question:
        """A tree of three to five tables, half of which have a filter."""
        tables, edges = self._tree(self._random.randint(3, _MOST_TABLES))
        predicates = tuple(self._conjunction(table, self._random.randint(0, 1)) for table in tables)
        return Question(JOIN_MANY, tables, predicates, edges)

    def group_by_one(self) -> Question:
        """The groups of a column of a whole table."""
        table = self._random.choice(self._names)
        return Question(GROUP_ONE, (table,), ((),), group_by=(self._random.choice(self._columns[table]).name,))

    def group_by_two(self) -> Question:
        """The groups of two columns of which the job was told."""
        table, joint = self._joint()
        return Question(GROUP_TWO, (table,), ((),), group_by=tuple(joint.split("+")))

    def filtered_group_by(self) -> Question:
        """The groups of one or two columns, of the rows that pass a filter."""
        if self._random.random() < 0.5:
            table, joint = self._joint()
            columns = tuple(joint.split("+"))
        else:
            table = self._random.choice(self._names)
            columns = (self._random.choice(self._columns[table]).name,)
        return Question(GROUP_FILTERED, (table,), (self._conjunction(table, 1),), group_by=columns)

    def _joint(self) -> tuple[str, str]:
        return self._random.choice([(name, j) for name in self._names for j in self._suite.tables[name].joint])

    def _tree(self, size: int) -> tuple[tuple[str, ...], tuple[Edge, ...]]:
        """Tables and edges, grown from an edge until there are as many tables or no more can be added."""
        first = self._random.choice(self._suite.edges)
        tables, edges = [first.left, first.right], [first]
        while len(tables) < size:
            open_edges = [e for e in self._suite.edges if (e.left in tables) != (e.right in tables)]
            if not open_edges:
                break
            edge = self._random.choice(open_edges)
            tables.append(edge.right if edge.left in tables else edge.left)
            edges.append(edge)
        return tuple(tables), tuple(edges)

    def _conjunction(self, table: str, count: int) -> tuple[Predicate, ...]:
        """Predicates of as many columns, of any kind."""
        found: dict[str, Predicate] = {}
        while len(found) < min(count, len(self._columns[table])):
            kind = self._random.choice([kind for kind in SINGLE_KINDS if self._able(table, kind)])
            predicate = self._predicate(table, kind)
            found.setdefault(predicate.column, predicate)
        return tuple(found.values())

    def _able(self, table: str, kind: str) -> list[_Column]:
        """The columns of a table that such a predicate may be asked of; tests of null where there are nulls at all."""
        columns = self._columns[table]
        if kind == PREFIX:
            return [column for column in columns if pa.types.is_string(column.type) and _prefixable(column)]
        if kind == NULL:
            return [column for column in columns if column.has_nulls]
        if kind == RANGE:
            return [column for column in columns if column.values and not pa.types.is_boolean(column.type)]
        return [column for column in columns if column.values]

    def _predicate(self, table: str, kind: str) -> Predicate:
        column = self._random.choice(self._able(table, kind))
        if kind == NULL:
            return Predicate(column.name, self._random.choice(("is null", "is not null")))
        value = self._random.choice(column.values)
        if kind == PREFIX:
            value = self._random.choice(_prefixable(column))
            return Predicate(column.name, "prefix", (value[: self._random.randint(1, min(len(value), 6))],))
        return drawn(column.name, kind, value, column.values, self._random)


def _drawn(table: BenchTable, source: random.Random) -> tuple[pa.Table, list[_Column]]:
    """Rows drawn at random, and their columns, as far as questions are asked of them."""
    rows = table.read()
    some = rows.take(sorted(source.sample(range(rows.num_rows), min(_POOL, rows.num_rows))))
    columns = []
    for field in rows.schema:
        if pa.types.is_boolean(field.type):
            continue
        values = [value for value in some.column(field.name).to_pylist() if value is not None]
        source.shuffle(values)
        sayable = tuple(value for value in values if not _is_awkward(value))
        columns.append(_Column(field.name, field.type, rows.column(field.name).null_count > 0, sayable))
    return some, columns


def _is_awkward(value: Any) -> bool:
    """Whether not every grammar has a literal for it."""
    if isinstance(value, str):
        return not 0 < len(value) <= _LONGEST or not value.isprintable() or any(c in value for c in "'\"\\%_")
    return isinstance(value, float) and (value != value or "e" in repr(value))


def _prefixable(column: _Column) -> Sequence[str]:
    return [value for value in column.values if value.isascii()]
