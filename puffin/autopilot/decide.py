"""
Decides which tables are due and in which order, from their status, the policy and the clock. It does no I/O.

The order is value per byte: how stale a table is, times the questions that planners ask of it, over the bytes that a
run reads.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from puffin.autopilot.look import SeenTable
from puffin.lookup.health import BEST, TableStatus
from puffin.policy.model import Due
from puffin.policy.quantities import about_seconds, shown_share
from puffin.policy.table_policy import TablePolicy, matches_nothing

FRESH, DUE, WAITING, HELD, NEVER, BROKEN = STATES = ("fresh", "due", "waiting", "held", "never", "broken")

_LEAST_BYTES = 1024 * 1024  # what a run costs beside the bytes that it reads


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """How often a table has failed in a row, the last error, and when to try again, in seconds since the epoch."""

    count: int
    error: str
    until: float


@dataclasses.dataclass(frozen=True, slots=True)
class Past:
    """What is remembered of runs, by the key of the table; times are in seconds since the epoch."""

    failures: Mapping[str, Failure] = dataclasses.field(default_factory=dict)
    ended: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """
    What is to be done for a table now.

    Attributes:
        state: One of `STATES`; ``why`` says it for a person.
        statistics, index: What a run does, if it is due.
        bytes: About the bytes that the run reads.
        value: The value of the run per byte; the highest goes first.
    """

    seen: SeenTable
    state: str
    why: str
    statistics: bool = False
    index: bool = False
    bytes: int = 0
    value: float = 0.0

    @property
    def action(self) -> str:
        """What a run does, as `puffin.autopilot.events.Event` has it."""
        both = (("statistics", self.statistics), ("index", self.index))
        return " and ".join(name for name, is_due in both if is_due)

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.seen.name,
            "catalog": self.seen.catalog,
            "state": self.state,
            "reason": self.why,
            "statistics": self.statistics,
            "index": self.index,
            "bytes-to-read": self.bytes,
            "health": self.seen.status.health,
        }


def decide(
    tables: Iterable[SeenTable],
    now: float,
    past: Past = Past(),
    questions: Mapping[str, int] | None = None,
) -> list[Verdict]:
    """
    The verdict on each table: those that are due first, in the order of their value; ``questions`` are counted by
    `CoveredTable.asked_as`, a set of names.
    """
    asked = questions or {}
    verdicts = [judge(seen, now, past, sum(asked.get(name, 0) for name in seen.covered.asked_as)) for seen in tables]
    return sorted(verdicts, key=lambda each: (STATES.index(each.state) if each.state != DUE else -1, -each.value))


def within(verdicts: Iterable[Verdict], left: int | None) -> Iterator[tuple[Verdict, bool]]:
    """Each due table, and whether it may still start with this many bytes left of the budget (None: no limit)."""
    for verdict in verdicts:
        if verdict.state == DUE:
            yield verdict, left is None or left > 0
            left = None if left is None else left - verdict.bytes


def spread(verdicts: Sequence[Verdict], seed: int) -> list[Verdict]:
    """
    The due tables, those of about the same value in an order that differs with the seed.

    Instances that know nothing of each other then seldom begin with the same tables.
    """
    draw = random.Random(seed)  # noqa: S311 - nobody gains from guessing it
    due = [(verdict, draw.random()) for verdict in verdicts if verdict.state == DUE]
    due.sort(key=lambda each: (-_band(each[0].value), each[1]))
    return [verdict for verdict, _ in due]


def judge(seen: SeenTable, now: float, past: Past = Past(), questions: int = 0) -> Verdict:
    """What is to be done for a table."""
    policy, status = seen.policy, seen.status
    if policy is not None and policy.due.never:
        return Verdict(seen=seen, state=NEVER, why="the policy says never")
    if policy is None or status.error is not None:
        return Verdict(seen=seen, state=BROKEN, why=status.error or status.reason)
    statistics, index = _why_statistics(policy, status, now), _why_index(policy, status)
    why = statistics or index
    if why is None:
        return Verdict(seen=seen, state=FRESH, why="; ".join((status.reason, *_unmet(policy))))
    if statistics is not None and seen.refusal is not None:
        return Verdict(seen=seen, state=BROKEN, why=seen.refusal)
    verdict = Verdict(
        seen=seen,
        state=DUE,
        why=why,
        statistics=statistics is not None,
        index=index is not None,
        bytes=(status.run_bytes or 0) * bool(statistics) + (status.index_bytes_to_read or 0) * bool(index),
    )
    failure = past.failures.get(seen.key)
    if failure is not None and failure.until > now:
        often = "once" if failure.count == 1 else f"{failure.count} times"
        again = f"again in {about_seconds(failure.until - now)}"
        return dataclasses.replace(
            verdict,
            state=HELD,
            why=f"failed {often}, {again}: {failure.error}",
        )
    made = (status.since_oldest.statistics_timestamp_ms or 0) / 1000 if statistics else 0.0
    ran = (made, past.ended.get(seen.key, 0.0))
    # Ignore times in the future: they come from another clock, or from this one before it was set back.
    until = max((each for each in ran if each <= now), default=0.0) + policy.due.at_most_every
    if until > now:
        return dataclasses.replace(verdict, state=WAITING, why=f"{why}; waits for {about_seconds(until - now)}")
    stale = (BEST + 1 - status.health) / BEST
    return dataclasses.replace(verdict, value=stale * (1 + questions) / max(verdict.bytes, _LEAST_BYTES))


def _unmet(policy: TablePolicy) -> Iterator[str]:
    """What the policy asks of a table in vain, which is why nothing is due."""
    yield from policy.owner_mistakes
    if policy.columns == ():  # the columns of a rule may be those of other tables
        yield from (matches_nothing(key, name) for key, name in sorted(policy.unmatched) if key == "columns")


def _why_statistics(policy: TablePolicy, status: TableStatus, now: float) -> str | None:
    """Why statistics are due; None if they are not."""
    if status.health == BEST:
        return None
    wrong = _why_wrong(status)
    is_there = status.statistics_snapshot_id is not None
    return _why_old(policy.due, status, now) if wrong is None and is_there else wrong


def _why_wrong(status: TableStatus) -> str | None:
    """Why statistics are due however new they are."""
    if status.columns_missing and status.statistics_snapshot_id is None:
        return "there are no statistics"
    if status.columns_missing:
        return _counted(status.columns_missing, "has no statistics", "have no statistics")
    if status.columns_with_values:
        return _counted(status.columns_with_values, "has values in statistics", "have values in statistics")
    return None


def _why_old(due: Due, status: TableStatus, now: float) -> str | None:
    """Which condition of the policy holds; None if none does."""
    since = status.since_oldest  # a current column must not hide older ones
    behind, share, made = since.snapshots_behind, since.rows_changed_share, since.statistics_timestamp_ms
    if due.rows_changed is not None:
        if share is None:
            return "the number of changed rows is unknown"
        if share >= due.rows_changed and share > 0:
            return f"{shown_share(round(share, 4))} of the rows in changed files"
    if due.snapshots is not None and (behind is None or behind >= due.snapshots):
        return "the number of snapshots since is unknown" if behind is None else f"{behind:,} snapshots behind"
    lacks_only_index = behind == 0 and not status.bytes_to_read and status.index_files_missing != 0
    if due.age is not None and not lacks_only_index:
        age = now if made is None else now - made / 1000
        if age >= due.age:
            return "the age of the statistics is unknown" if made is None else f"statistics {about_seconds(age)} old"
    return None


def _why_index(policy: TablePolicy, status: TableStatus) -> str | None:
    """Why the index is due; None if it is not."""
    missing = status.index_files_missing
    if missing is None:
        return "the index cannot be read" if policy.index_columns else None
    new = [name for name in policy.index_columns if name not in status.indexed_columns]
    if new and missing:
        return _counted(new, "has no index", "have no index")
    if policy.due.index_files is not None and missing >= policy.due.index_files:
        return "the index lacks a file" if missing == 1 else f"the index lacks {missing:,} files"
    return None


def _band(value: float) -> int:
    """Values of one band differ by a factor of four at most."""
    return math.floor(math.log2(value) / 2) if value > 0 else -10_000


def _counted(names: Sequence[str], one: str, many: str) -> str:
    return f"column {names[0]} {one}" if len(names) == 1 else f"{len(names):,} columns {many}"
