"""What an engine is to the benchmark."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod

from benchmarks.estimates.questions import Question

OURS = "ours"
DUCKDB = "DuckDB"
SPARK_ANALYZE = "Spark ANALYZE"
SPARK_OURS = "Spark with our NDV"
TRINO = "Trino with our NDV"


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """
    What an engine expects.

    Attributes:
        rows: Or groups.
        lower: The least that there may be; None where the engine gives no bounds.
        upper: The most.
        microseconds: How long the engine took, where it is ours.
        method: How it was found, where it is ours.
    """

    rows: float
    lower: float | None = None
    upper: float | None = None
    microseconds: float | None = None
    method: str | None = None


class Engine(ABC):
    """
    An engine that was told of the tables of a suite.

    Attributes:
        name: As the results call it.
        missing: Why it answers some kinds of questions not at all; the reasons.
    """

    name: str

    def __init__(self) -> None:
        self.missing: dict[str, int] = {}

    @abstractmethod
    def estimate(self, question: Question) -> Estimate | None:
        """What it expects; None where it does not say."""

    def miss(self, reason: str) -> None:
        """Count a question that it does not answer."""
        self.missing[reason] = self.missing.get(reason, 0) + 1
