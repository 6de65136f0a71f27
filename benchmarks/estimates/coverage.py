"""
How often bounds hold, over many random tables.

``python -m benchmarks.estimates.coverage --trials 200`` takes ten minutes. The questions on one column share its
sample, so that their errors go together: each trial has two new tables and one question of each kind for a column, and
the standard error is that of the trials.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.estimates.engine import OURS, Estimate
from benchmarks.estimates.generator import (
    CONJUNCTION,
    CONJUNCTION_JOINT,
    GROUP_FILTERED,
    GROUP_ONE,
    GROUP_TWO,
    JOIN_FILTERED,
)
from benchmarks.estimates.ours import estimate_of, estimate_of_join
from benchmarks.estimates.predicates import EQ, IN, NE, NULL, PREFIX, RANGE, Predicate, drawn
from benchmarks.estimates.questions import Question
from benchmarks.estimates.random_tables import random_suite
from benchmarks.estimates.score import Scored, percentile, q_error
from benchmarks.estimates.suite import Suite
from puffin.lookup import Lookup

_POOL = 2_000  # rows that literals are drawn from
NARROW, JOIN = "range, narrow", "join"


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """Two tables, and questions with their true counts."""

    suite: Suite
    questions: tuple[tuple[Question, int], ...]

    @classmethod
    def made(cls, directory: Path, seed: int) -> Trial:
        """Write the tables, analyze them and count."""
        suite, rows = random_suite(directory, seed)
        questions = list(_Draw(suite, rows, random.Random(seed)).questions())
        with duckdb.connect(config={"threads": 1}) as connection:
            for name, table in rows.items():
                connection.register(f"{name}_", table)
                connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_")
            counts = [int(connection.execute(each.to_count(str)).fetchall()[0][0]) for each in questions]
        return cls(suite, tuple(zip(questions, counts, strict=True)))

    def scored(self) -> list[Scored]:
        """What ours estimates."""
        lookup = Lookup(ttl_seconds=1e9)
        return [
            Scored(self.suite.name, question, true, {OURS: self._estimate(lookup, question)})
            for question, true in self.questions
        ]

    def _estimate(self, lookup: Lookup, question: Question) -> Estimate:
        paths = [str(self.suite.tables[name].directory) for name in question.tables]
        where = [question.filter_of(name) for name in question.tables]
        if question.edges:
            (edge,) = question.edges
            joined = lookup.estimate_join(paths[0], edge.left_column, paths[1], edge.right_column, *where)
            found = estimate_of_join(joined)
        else:
            found = estimate_of(lookup.estimate(paths[0], where[0], list(question.group_by) or None))
        assert found is not None
        return found


class _Draw:
    def __init__(self, suite: Suite, rows: dict[str, pa.Table], source: random.Random) -> None:
        self._suite = suite
        self._random = source
        self._rows = {
            name: table.take(sorted(source.sample(range(table.num_rows), min(_POOL, table.num_rows))))
            for name, table in rows.items()
        }

    def questions(self) -> Iterator[Question]:
        for name, table in self._suite.tables.items():
            columns = [column for column in self._rows[name].column_names if self._values(name, column)]
            for column in columns:
                yield from self._of_column(
                    name, column, self._random.choice([each for each in columns if each != column])
                )
            for joint in table.joint:
                yield from self._of_joint(name, tuple(joint.split("+")))
        tables = tuple(self._suite.tables)
        for edge in self._suite.edges:
            yield Question(JOIN, tables, ((), ()), (edge,))
            filtered = self._random.choice((edge.left_column, edge.left_column, "n", "c0"))
            if self._values(edge.left, filtered):
                yield Question(JOIN_FILTERED, tables, (self._predicates(edge.left, filtered), ()), (edge,))

    def _of_column(self, table: str, column: str, other: str) -> Iterator[Question]:
        is_text = pa.types.is_string(self._rows[table].schema.field(column).type)
        for kind in (EQ, NE, IN, RANGE, NARROW, NULL, *([PREFIX] if is_text else [])):
            yield Question(kind, (table,), ((self._predicate(table, column, kind),),))
        yield Question(CONJUNCTION, (table,), (self._predicates(table, column, other),))
        yield Question(GROUP_ONE, (table,), ((),), group_by=(column,))
        group = self._random.choice((column, column, other))
        yield Question(GROUP_FILTERED, (table,), (self._predicates(table, column),), group_by=(group,))

    def _of_joint(self, table: str, pair: tuple[str, ...]) -> Iterator[Question]:
        yield Question(GROUP_TWO, (table,), ((),), group_by=pair)
        for row in self._random.sample(self._rows[table].select(pair).to_pylist(), 3):
            if None not in row.values():
                equal = tuple(Predicate(column, "=", (row[column],)) for column in pair)
                yield Question(CONJUNCTION_JOINT, (table,), (equal,))

    def _values(self, table: str, column: str) -> list[Any]:
        found: list[Any] = pc.drop_null(self._rows[table][column]).to_pylist()
        return found

    def _predicates(self, table: str, *columns: str) -> tuple[Predicate, ...]:
        kinds = (EQ, IN, RANGE, RANGE, NARROW, NE)
        return tuple(self._predicate(table, column, self._random.choice(kinds)) for column in columns)

    def _predicate(self, table: str, column: str, kind: str) -> Predicate:
        values = self._values(table, column)
        value = self._random.choice(values)
        if kind == NULL:
            return Predicate(column, "is null")
        if kind == PREFIX:
            return Predicate(column, "prefix", (value[: self._random.randint(1, len(value))],))
        if kind == NARROW:  # as many of the drawn rows as chance says, from one of them to all
            ordered = sorted(values)
            reach = int(math.exp(self._random.uniform(0, math.log(len(ordered)))))
            start = self._random.randrange(len(ordered) - reach + 1)
            return Predicate(column, "between", (ordered[start], ordered[start + reach - 1]))
        return drawn(column, kind, value, values, self._random)


@dataclasses.dataclass(frozen=True, slots=True)
class Coverage:
    """
    How often the bounds of a kind of question hold.

    Attributes:
        exact: Answers whose bounds are equal; how many are right, of how many.
        sampled: The others; how many bounds hold, of how many.
        below, above: Of the sampled ones, those with a true count beyond the lower and the upper bound.
        deviation: The standard error of the share that holds, by trials.
        width: The median of the width of sampled bounds over the true count.
        errors: p50, p90 and p99 of the q-errors of sampled answers.
    """

    kind: str
    exact: tuple[int, int]
    sampled: tuple[int, int]
    below: int
    above: int
    deviation: float
    width: float
    errors: tuple[float, ...]

    @classmethod
    def of(cls, kind: str, trials: Sequence[Sequence[Scored]]) -> Coverage:
        """The questions of a kind, by trial."""
        exact, sampled, by_trial = _Answers(), _Answers(), []
        for trial in trials:
            before = sampled.held, len(sampled.widths)
            for each in trial:
                (exact if each.estimates[OURS].lower == each.estimates[OURS].upper else sampled).add(each)
            by_trial.append((sampled.held - before[0], len(sampled.widths) - before[1]))
        count = len(sampled.widths)
        off = sum((held - sampled.held / count * asked) ** 2 for held, asked in by_trial) if count else 0.0
        return cls(
            kind=kind,
            exact=(exact.held, len(exact.widths)),
            sampled=(sampled.held, count),
            below=sampled.below,
            above=sampled.above,
            deviation=math.sqrt(off) / max(count, 1),
            width=statistics.median(sampled.widths or [0.0]),
            errors=tuple(percentile(sampled.errors or [1.0], share) for share in (0.5, 0.9, 0.99)),
        )

    @property
    def share(self) -> float:
        """Of the sampled answers, those whose bounds hold."""
        held, count = self.sampled
        return held / count if count else 1.0


class _Answers:
    def __init__(self) -> None:
        self.held = self.below = self.above = 0
        self.widths: list[float] = []
        self.errors: list[float] = []

    def add(self, each: Scored) -> None:
        found = each.estimates[OURS]
        lower, upper = found.lower or 0.0, found.upper or 0.0
        self.below += each.true < lower
        self.above += each.true > upper
        self.held += lower <= each.true <= upper
        self.widths.append((upper - lower) / max(each.true, 1))
        self.errors.append(q_error(found.rows, each.true))


def coverage_of(trials: Sequence[Sequence[Scored]]) -> list[Coverage]:
    """How often bounds hold, by kind."""
    kinds = dict.fromkeys(each.question.kind for trial in trials for each in trial)
    return [
        Coverage.of(kind, [[each for each in trial if each.question.kind == kind] for trial in trials])
        for kind in kinds
    ]


def to_text(found: Sequence[Coverage]) -> str:
    """A line for each kind."""
    header = (
        "exact ones right",
        "sampled",
        " hold",
        "± s.e.",
        "below",
        "above",
        "width / true",
        "q p50",
        "q p90",
        "q p99",
    )
    lines = [f"{'':26}" + "".join(f"{title:>{len(title) + 3}}" for title in header)]
    for each in found:
        figures = (
            "{} of {}".format(*each.exact),
            str(each.sampled[1]),
            f"{each.share:.1%}",
            f"{each.deviation:.1%}",
            str(each.below),
            str(each.above),
            f"{each.width:.3g}",
            *(f"{error:.3f}" if error < 10 else f"{error:.0f}" for error in each.errors),
        )
        cells = (f"{figure:>{len(title) + 3}}" for title, figure in zip(header, figures, strict=True))
        lines.append(f"{each.kind:26}" + "".join(cells))
    return "\n".join(lines)


def main() -> int:
    """Make tables, ask, and print how often bounds hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimates.coverage", description=__doc__)
    parser.add_argument("--trials", type=int, default=50, help="pairs of tables (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first trial (default: %(default)s)")
    args = parser.parse_args()
    trials = []
    for seed in range(args.seed, args.seed + args.trials):
        with tempfile.TemporaryDirectory() as directory:
            trials.append(Trial.made(Path(directory), seed).scored())
    print(to_text(coverage_of(trials)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
