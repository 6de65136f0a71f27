"""
Random row filters that know their meaning: as text in pyiceberg's grammar, and as a test of one row.

A row counts as a match if any reading of the filter takes it:

- SQL's, where a comparison with null is not true, also under ``not``, and NaN is the largest number;
- the same with literals rounded to the type of a ``float`` column;
- Iceberg's, where a null differs from every value, -0.0 is less than 0.0, and uuids are two signed numbers.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import math
import operator
import random
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, TypeAlias

from tests.planning.transformed import OLDER_TYPES, is_of, overflows, transformed

Row: TypeAlias = Mapping[int, Any]
"""Values by field id; dates and times are counts of days and microseconds."""

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
OPPOSITES = {
    "=": "!=",
    "<": ">=",
    ">": "<=",
    "in": "not in",
    "is null": "is not null",
    "is nan": "is not nan",
    "like": "not like",
}
OPPOSITES |= {after: before for before, after in OPPOSITES.items()}
FLOATS = ("float", "double")
UNWRITABLE = ("binary", "timestamp_ns")  # the grammar has no literals of these types, nor of ``fixed``
EPOCH = datetime.datetime(1970, 1, 1)


class Reading(enum.Enum):
    SQL = enum.auto()
    SQL_ROUNDED = enum.auto()
    ICEBERG = enum.auto()


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A column that a filter can name."""

    field_id: int
    name: str
    type: str


@dataclasses.dataclass(frozen=True)
class Test:
    """A test of one column, or of a partition transform of one, which the grammar cannot write."""

    __test__ = False

    leaf: Leaf
    op: str
    values: tuple[Any, ...] = ()
    transform: str | None = None

    def __str__(self) -> str:
        said = [literal(self.type, value) for value in self.values]
        if self.op.endswith("like"):
            said = [f"'{self.values[0]}%'"]
        values = f"({', '.join(said)})" if self.op.endswith("in") else "".join(said)
        term = self.leaf.name if self.transform is None else f"{self.transform}({self.leaf.name})"
        return f"{term} {self.op} {values}".rstrip()

    @property
    def type(self) -> str:
        """Of the values."""
        if self.transform is None or self.transform.startswith("truncate"):
            return self.leaf.type
        return "date" if self.transform == "day" else "int"

    @property
    def is_writable(self) -> bool:
        """Whether the grammar has such a test."""
        return self.transform is None and (not self.values or _has_literals(self.type))

    def holds(self, row: Row, reading: Reading) -> bool | None:
        value, op = row[self.leaf.field_id], self.op
        if self.transform is not None:
            before = OLDER_TYPES.get(self.leaf.type)
            if before and is_of(before, value) and overflows(self.transform, before, value):
                return None  # the partition has what overflowed if it was written then, which nobody knows
            value = transformed(self.transform, self.leaf.type, value)
        if op.endswith("null"):
            return (value is None) == (op == "is null")
        if op.endswith("nan"):
            return (value is not None and math.isnan(value)) == (op == "is nan")
        if value is None:
            return op in ("!=", "not in", "not like") if reading is Reading.ICEBERG else None
        if op.endswith("like"):
            return value.startswith(self.values[0]) == (op == "like")
        found, *wanted = (self._in_order(each, reading) for each in (value, *self.values))
        if op.endswith("in"):
            return (found in wanted) == (op == "in")
        return COMPARISONS[op](found, wanted[0])

    def opposite(self) -> Test:
        return dataclasses.replace(self, op=OPPOSITES[self.op])

    def _in_order(self, value: Any, reading: Reading) -> Any:
        if self.type == "uuid" and reading is Reading.ICEBERG:
            return struct.unpack(">qq", value)
        if self.leaf.type not in FLOATS:
            return value
        if self.leaf.type == "float" and reading is not Reading.SQL:
            value = rounded(value)
        sign = math.copysign(1, value) if value == 0 and reading is Reading.ICEBERG else 0
        return (1, 0.0, 0) if math.isnan(value) else (0, value, sign)


@dataclasses.dataclass(frozen=True)
class Not:
    part: Filter

    def __str__(self) -> str:
        return f"not ({self.part})"

    @property
    def is_writable(self) -> bool:
        return self.part.is_writable

    def holds(self, row: Row, reading: Reading) -> bool | None:
        found = self.part.holds(row, reading)
        return None if found is None else not found

    def opposite(self) -> Filter:
        return without_not(self.part)


@dataclasses.dataclass(frozen=True)
class Both:
    """Two filters joined by AND or OR."""

    left: Filter
    right: Filter
    is_and: bool

    def __str__(self) -> str:
        return f"({self.left}) {'and' if self.is_and else 'or'} ({self.right})"

    @property
    def is_writable(self) -> bool:
        return self.left.is_writable and self.right.is_writable

    def holds(self, row: Row, reading: Reading) -> bool | None:
        found = [side.holds(row, reading) for side in (self.left, self.right)]
        if (not self.is_and) in found:
            return not self.is_and
        return None if None in found else self.is_and

    def opposite(self) -> Filter:
        return Both(self.left.opposite(), self.right.opposite(), not self.is_and)


Filter: TypeAlias = Test | Not | Both


def without_not(filter_: Filter) -> Filter:
    """The same filter with every NOT moved into the operators, as Iceberg does before it looks at rows."""
    if isinstance(filter_, Not):
        return filter_.part.opposite()
    if isinstance(filter_, Both):
        return Both(without_not(filter_.left), without_not(filter_.right), filter_.is_and)
    return filter_


def leaf_tests(filter_: Filter) -> Iterator[Test]:
    """The tests of a filter, from left to right."""
    if isinstance(filter_, Not):
        yield from leaf_tests(filter_.part)
    elif isinstance(filter_, Both):
        yield from leaf_tests(filter_.left)
        yield from leaf_tests(filter_.right)
    else:
        yield filter_


def matches(filter_: Filter, rows: Sequence[Row]) -> bool:
    """Whether any reading takes any of the rows."""
    pushed = without_not(filter_)
    sql = (Reading.SQL, Reading.SQL_ROUNDED)
    return any(
        any(filter_.holds(row, reading) is True for reading in sql) or pushed.holds(row, Reading.ICEBERG) is True
        for row in rows
    )


def rounded(value: float) -> float:
    """The nearest ``float``."""
    (found,) = struct.unpack("<f", struct.pack("<f", value))
    return found


def literal(type_: str, value: Any) -> str:
    """A value as the grammar writes it, or for people if it cannot."""
    if type_ == "string":
        return f"'{value}'"
    if type_ == "date":
        return f"'{(EPOCH + datetime.timedelta(days=value)).date().isoformat()}'"
    if type_ in ("time", "timestamp", "timestamptz"):
        moment = EPOCH + datetime.timedelta(microseconds=value)
        if type_ == "time":
            return f"'{moment.time().isoformat()}'"
        return f"'{moment.isoformat()}{'+00:00' if type_ == 'timestamptz' else ''}'"
    if type_ == "uuid":
        return f"'{uuid.UUID(bytes=value)}'"
    if type_ == "boolean":
        return str(value).lower()
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return f"{value:f}" if isinstance(value, Decimal) else f"{Decimal(repr(value)):f}"


class RandomFilters:
    """
    Draws filters over some columns.

    Args:
        present: Draws a value of a column that some row has, or null.
        made_up: Draws a value of a type, or null.
        transform: Draws a transform of a column; with it, filters are drawn that the grammar cannot write.
    """

    def __init__(
        self,
        source: random.Random,
        leaves: Sequence[Leaf],
        present: Callable[[Leaf], Any],
        made_up: Callable[[str], Any],
        transform: Callable[[Leaf], str] | None = None,
    ) -> None:
        self._source = source
        self._leaves = leaves
        self._present = present
        self._made_up = made_up
        self._transform = transform

    def draw(self, depth: int) -> Filter:
        """A filter with at most so many levels of and, or and not."""
        chance = self._source.random()
        if depth == 0 or chance < 0.35:
            return self._test()
        if chance < 0.5:
            return Not(self.draw(depth - 1))
        return Both(self.draw(depth - 1), self.draw(depth - 1), chance < 0.75)

    def _test(self) -> Test:
        leaf = self._source.choice(self._leaves)
        if self._transform is not None and self._source.random() < 0.2:
            transform = self._transform(leaf)
            if transform not in ("identity", "void"):
                return self._test_of_transform(leaf, transform)
        op = self._source.choice(_operators(leaf.type, in_json=self._transform is not None))
        if op.startswith("is"):
            return Test(leaf, op)
        count = self._source.randint(1, 4) if op.endswith("in") else 1
        values = tuple(self._value(leaf) for _ in range(count))
        is_exact = leaf.type in ("int", "long") or leaf.type.startswith("decimal")
        if self._transform is not None:
            is_exact = leaf.type.startswith("decimal")  # engines write no fractions for integers
        if is_exact and op in COMPARISONS and self._source.random() < 0.2:
            more = Decimal(self._source.choice(("0.5", "0.1", "-0.9", "0.0000001")))
            values = (Context(prec=60).add(values[0], more),)
        if op.endswith("like"):
            prefix = values[0][: self._source.choice((1, 2, 3, 15, 16, 17))]
            values = (prefix or "a",)
        return Test(leaf, op, values)

    def _test_of_transform(self, leaf: Leaf, transform: str) -> Test:
        of_result = Test(leaf, "is null", transform=transform)
        ops = [op for op in _operators(of_result.type, in_json=True) if not op.endswith("nan")]
        op = self._source.choice(ops)
        count = 0 if op.startswith("is") else self._source.randint(1, 4) if op.endswith("in") else 1
        values = tuple(transformed(transform, leaf.type, self._value(leaf)) for _ in range(count))
        if op.endswith("like"):
            values = (values[0][: self._source.choice((1, 2, 3))] or "a",)
        return dataclasses.replace(of_result, op=op, values=values)

    def _value(self, leaf: Leaf) -> Any:
        while True:
            value = self._present(leaf) if self._source.random() < 0.7 else self._made_up(leaf.type)
            if value is None or (isinstance(value, float) and not math.isfinite(value)):
                continue
            # Engines write no nanoseconds.
            return value - value % 1000 if leaf.type.endswith("_ns") else value


def _has_literals(type_: str) -> bool:
    """Whether the grammar has literals of a type."""
    return type_ not in UNWRITABLE and not type_.startswith("fixed")


def _operators(type_: str, *, in_json: bool = False) -> list[str]:
    found = ["is null", "is not null"]
    if in_json or _has_literals(type_):
        found += ["=", "=", "=", "!="]
        found += [] if type_ == "boolean" else ["<", "<=", ">", ">=", "in", "in", "not in"]
    found += ["is nan", "is not nan"] if type_ in FLOATS else []
    return found + (["like", "not like"] if type_ == "string" else [])
