"""The figures that there are bars for, each of several kinds of questions together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from benchmarks.estimates.engine import OURS
from benchmarks.estimates.generator import (
    CONJUNCTION,
    CONJUNCTION_JOINT,
    GROUP_ONE,
    GROUP_TWO,
    JOIN_FILTERED,
    JOIN_INDEPENDENT,
    JOIN_SAME,
)
from benchmarks.estimates.predicates import EQ, SINGLE_KINDS
from benchmarks.estimates.score import Scored, by_kind, percentile, times_of

_SKEWED = "zipf"


@dataclasses.dataclass(frozen=True, slots=True)
class Headline:
    """
    Kinds of questions that share a bar.

    Attributes:
        suite: The only suite that counts; None for all.
        bars: By share of the questions, the q-error that may not be exceeded.
    """

    title: str
    suite: str | None
    kinds: tuple[str, ...]
    bars: dict[float, float]

    def errors(self, scored: Iterable[Scored], engine: str = OURS) -> list[float]:
        """The q-errors of an engine in these questions."""
        counted = (s for s in scored if s.question.kind in self.kinds and self.suite in (None, s.suite))
        return [error for each in counted if (error := each.error(engine)) is not None]


HEADLINES = (
    Headline("joins on Zipf keys", _SKEWED, (JOIN_SAME, JOIN_INDEPENDENT), {0.5: 1.3, 0.99: 4}),
    Headline("filters of one column, skewed data", _SKEWED, SINGLE_KINDS, {0.5: 1.1, 0.99: 3}),
    Headline("equality alone, skewed data", _SKEWED, (EQ,), {0.5: 1.1, 0.99: 3}),
    Headline("groups of one and two columns", None, (GROUP_ONE, GROUP_TWO), {0.5: 1.05, 0.99: 2}),
)

_WARM: dict[str, int | None] = {
    EQ: None,
    CONJUNCTION: 50,
    CONJUNCTION_JOINT: None,
    JOIN_SAME: None,
    JOIN_FILTERED: 200,
    GROUP_ONE: None,
}
"""The kinds of questions whose time is shown, with the microseconds that there is a bar for."""

TIME_HEADER = ("kind", "questions", "p50 µs", "p90 µs", "p99 µs", "bar of p50")


def time_rows(scored: Iterable[Scored]) -> list[list[str]]:
    """A row for each of these kinds: how long ours takes for literals that it was never asked about."""
    rows = []
    for kind, part in by_kind(scored):
        title = kind
        if kind == CONJUNCTION:  # the bar is for two predicates; half of these questions have more
            title = f"{kind} of two"
            part = [each for each in part if sum(p.tests for p in each.question.predicates[0]) == 2]
        times = times_of(part)
        if kind in _WARM and times:
            bar = _WARM[kind]
            figures = [f"{percentile(times, share):,.0f}" for share in (0.5, 0.9, 0.99)]
            rows.append([title, str(len(times)), *figures, "" if bar is None else f"≤ {bar}"])
    return rows


HEADLINE_HEADER = ("q-error", "questions", "engine", "p50", "bar", "p90", "p99", "bar")


def headline_rows(scored: Sequence[Scored], engines: Sequence[str]) -> list[list[str]]:
    """A row for each headline and engine, with the bars of ours."""
    rows = []
    for headline in HEADLINES:
        for engine in engines:
            errors = headline.errors(scored, engine)
            if errors:
                p50, p90, p99 = (f"{percentile(errors, share):,.3f}" for share in (0.5, 0.9, 0.99))
                bars = [f"≤ {headline.bars[share]:g}" if engine == OURS else "" for share in (0.5, 0.99)]
                rows.append([headline.title, str(len(errors)), engine, p50, bars[0], p90, p99, bars[1]])
    return rows
