"""q-errors, how often bounds hold, and the tables of them."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from benchmarks.estimates.engine import OURS, Estimate
from benchmarks.estimates.questions import Question

ANY = "all suites"


@dataclasses.dataclass(frozen=True, slots=True)
class Scored:
    """A question with its true count and what each engine expected, by name."""

    suite: str
    question: Question
    true: int
    estimates: dict[str, Estimate]

    def error(self, engine: str) -> float | None:
        """The q-error of an engine; None where it did not answer."""
        found = self.estimates.get(engine)
        return None if found is None else q_error(found.rows, self.true)

    def to_json(self, engines: Sequence[str]) -> list[Any]:
        """Suite, kind, question, true count, then our bounds, then each engine's estimate and q-error."""
        ours = self.estimates.get(OURS)
        bounds = [None, None] if ours is None else [_short(ours.lower), _short(ours.upper)]
        pairs: list[Any] = []
        for engine in engines:
            found = self.estimates.get(engine)
            pairs += [None, None] if found is None else [_short(found.rows), _short(self.error(engine))]
        return [self.suite, self.question.kind, self.question.to_text(), self.true, *bounds, *pairs]


def q_error(estimate: float, true: float) -> float:
    """By which factor the estimate is off, in either direction; both count as at least one row."""
    estimate, true = max(estimate, 1.0), max(true, 1.0)
    return max(estimate / true, true / estimate)


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def error_rows(scored: Sequence[Scored], engines: Sequence[str], by_suite: bool = False) -> list[list[str]]:
    """A row for each kind and engine: answered, p50, p90, p99, max."""
    rows = []
    for suite, kind, part in _parts(scored, by_suite):
        for engine in engines:
            errors = _errors(part, engine)
            figures = [_factor(percentile(errors, share)) for share in (0.5, 0.9, 0.99, 1.0)] if errors else ["-"] * 4
            rows.append([suite, kind, engine, f"{len(errors)} of {len(part)}", *figures])
    return rows


ERROR_HEADER = ("suite", "kind", "engine", "answered", "p50", "p90", "p99", "max")


def bound_rows(scored: Sequence[Scored], by_suite: bool = False) -> list[list[str]]:
    """A row for each kind: how often the bounds of ours hold, and how wide they are."""
    rows = []
    for suite, kind, part in _parts(scored, by_suite):
        ours = [(each.true, found) for each in part if (found := each.estimates.get(OURS)) is not None]
        spans = [_Span(true, f.lower, f.upper) for true, f in ours if f.lower is not None and f.upper is not None]
        exact = [span for span in spans if span.lower == span.upper]
        wide = [span for span in spans if span.lower != span.upper]
        width = _factor(statistics.median(span.width for span in wide)) if wide else "-"
        rows.append([suite, kind, _held(exact), _held(wide), width])
    return rows


BOUND_HEADER = ("suite", "kind", "exact ones hold", "other bounds hold", "their median upper / lower")


@dataclasses.dataclass(frozen=True, slots=True)
class _Span:
    """Bounds, and the true count that they are for."""

    true: int
    lower: float
    upper: float

    @property
    def holds(self) -> bool:
        """Whether the true count is within; bounds may be shown as whole rows, so rounding does not count."""
        return math.floor(self.lower) <= self.true <= math.ceil(self.upper)

    @property
    def width(self) -> float:
        return max(self.upper, 1) / max(self.lower, 1)


def _held(spans: Sequence[_Span]) -> str:
    return f"{sum(span.holds for span in spans) / len(spans):.1%} of {len(spans)}" if spans else "-"


def times_of(scored: Iterable[Scored]) -> list[float]:
    """The microseconds that ours took for each question that it answered."""
    found = (each.estimates.get(OURS) for each in scored)
    return [each.microseconds for each in found if each is not None and each.microseconds is not None]


def ratio_rows(scored: Sequence[Scored], engines: Sequence[str]) -> list[list[str]]:
    """A row for each kind: p90 of the best other engine over ours, each on what both of them answered."""
    rows = []
    for _, kind, part in _parts(scored, by_suite=False):
        best = best_ratio(part, engines)
        if best is not None:
            ratio, engine, other, ours = best
            rows.append([kind, engine, _factor(other), _factor(ours), f"{ratio:.2f}"])
    return rows


RATIO_HEADER = ("kind", "best other", "its p90", "p90 of ours", "ratio")


def best_ratio(part: Sequence[Scored], engines: Sequence[str]) -> tuple[float, str, float, float] | None:
    """
    The ratio of p90 of the best other engine to ours, with both figures; None without any.

    An engine that answers less than half of the questions is left out.
    """
    found = []
    for engine in engines:
        both = [each for each in part if each.error(OURS) is not None and each.error(engine) is not None]
        if engine == OURS or 2 * len(both) < len(part) or not both:
            continue
        other, ours = (percentile(_errors(both, name), 0.9) for name in (engine, OURS))
        found.append((other / ours, engine, other, ours))
    return min(found, default=None)


def by_kind(scored: Iterable[Scored]) -> list[tuple[str, list[Scored]]]:
    """The questions by kind, in the order of the kinds."""
    parts: dict[str, list[Scored]] = {}
    for each in scored:
        parts.setdefault(each.question.kind, []).append(each)
    return list(parts.items())


def _parts(scored: Sequence[Scored], by_suite: bool) -> Iterator[tuple[str, str, list[Scored]]]:
    """The questions by kind, and by suite if wanted."""
    for suite in dict.fromkeys(each.suite for each in scored) if by_suite else (ANY,):
        for kind, part in by_kind(each for each in scored if suite in (ANY, each.suite)):
            yield suite, kind, part


def _errors(part: Iterable[Scored], engine: str) -> list[float]:
    return [error for each in part if (error := each.error(engine)) is not None]


def _factor(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:,.0f}"


def _short(value: float | None) -> float | int | None:
    if value is None or value == int(value):
        return None if value is None else int(value)
    return float(f"{value:.5g}")
