"""
What a run finds: samples, rows of two samples with their ratio, and how far counts were off.

A ratio is that of the medians. Its range is what it was round by round: two engines are timed one after the other in
each round, so that a slow minute of the machine makes both of them slow.
"""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any

HIGHER, LOWER = "other / ours", "ours / other"  # which ratio is better so


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """
    The values of one quantity.

    Attributes:
        what: Of what.
        unit: ``s``, ``ms``, ``µs``, ``MiB``, ``B``, ``B a value``, ``files`` or ``reads``.
        values: In the order of the rounds; or of a table's columns, where every round would find the same.
    """

    what: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    def to_json(self) -> dict[str, Any]:
        """The sample as programs get it."""
        return {
            "what": self.what,
            "unit": self.unit,
            "median": self.median,
            "min": min(self.values),
            "max": max(self.values),
            "values": list(self.values),
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """
    What a row is held against.

    Attributes:
        better: ``HIGHER`` or ``LOWER``.
        limit: What has to be reached; None where a row is there to compare only.
        moonshot: What would be splendid.
    """

    better: str
    limit: float | None = None
    moonshot: float | None = None

    def verdict(self, figure: float) -> str | None:
        """``"moonshot"``, ``"met"`` or ``"missed"``; None without a limit."""
        if self.limit is None:
            return None
        if self.moonshot is not None and self._reached(figure, self.moonshot):
            return "moonshot"
        return "met" if self._reached(figure, self.limit) else "missed"

    def _reached(self, figure: float, limit: float) -> bool:
        return figure >= limit if self.better == HIGHER else figure <= limit


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """
    A measure that was taken.

    Attributes:
        other: What ours is compared with; None where ours itself is held against the bar.
    """

    name: str
    title: str
    ours: Sample
    other: Sample | None
    bar: Bar

    @property
    def figure(self) -> float:
        """What the bar is about: the ratio of the medians, or our median where nothing is compared."""
        return self.ours.median if self.other is None else self._ratio(self.ours.median, self.other.median)

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the greatest of the rounds' figures."""
        if self.other is None:
            figures = list(self.ours.values)
        else:
            figures = [self._ratio(*pair) for pair in zip(self.ours.values, self.other.values, strict=True)]
        return min(figures), max(figures)

    @property
    def verdict(self) -> str | None:
        """How the figure stands to the bar."""
        return self.bar.verdict(self.figure)

    def to_json(self) -> dict[str, Any]:
        """The row as programs get it."""
        low, high = self.spread
        return {
            "name": self.name,
            "title": self.title,
            "ours": self.ours.to_json(),
            "other": None if self.other is None else self.other.to_json(),
            "figure": {"of": self.bar.better if self.other else "ours", "median": self.figure, "min": low, "max": high},
            "bar": self.bar.limit,
            "moonshot": self.bar.moonshot,
            "verdict": self.verdict,
        }

    def _ratio(self, ours: float, other: float) -> float:
        return other / ours if self.bar.better == HIGHER else ours / other


@dataclasses.dataclass(frozen=True, slots=True)
class Accuracy:
    """How far an engine was off on the worst column of a table, relative to the exact count, and how far it may be."""

    table: str
    engine: str
    column: str
    error: float
    allowed: float

    @property
    def right(self) -> bool:
        """Whether that is near enough."""
        return self.error <= self.allowed

    def to_json(self) -> dict[str, Any]:
        """The check as programs get it."""
        return {**dataclasses.asdict(self), "right": self.right}


@dataclasses.dataclass(slots=True)
class Results:
    """
    All that a run found, in the order it was found.

    Attributes:
        dictionary_columns: By table, those that are dictionary-encoded in every data page that Spark wrote.
        sections: What a measure has to show beside its rows, as Markdown.
    """

    rows: list[Row] = dataclasses.field(default_factory=list)
    accuracy: list[Accuracy] = dataclasses.field(default_factory=list)
    dictionary_columns: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    sections: list[str] = dataclasses.field(default_factory=list)
