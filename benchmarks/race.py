"""Engines timed side by side: in rounds, each engine once in each, and every result held against the exact counts."""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Sequence

from benchmarks.engines import Engine
from benchmarks.results import Accuracy, Results, Sample
from benchmarks.run import say

_SETTLE_SECONDS = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Times:
    """What the rounds of an engine took, by the clock and of processors."""

    elapsed: Sample
    processor: Sample


def race(engines: Sequence[Engine], rounds: int, results: Results) -> dict[str, Sample]:
    """
    The seconds of each engine, by its name, after one round that is not timed.

    The engine that begins is another one in every round. How accurate they were goes to ``results``.
    """
    return {name: times.elapsed for name, times in timed(engines, rounds, results).items()}


def timed(engines: Sequence[Engine], rounds: int, results: Results) -> dict[str, Times]:
    """As `race`, with the processor time beside it of engines that know theirs."""
    seconds: dict[str, list[tuple[float, float]]] = {engine.name: [] for engine in engines}
    worst: dict[str, Accuracy] = {}
    for number in range(rounds + 1):
        first = number % len(engines)
        for engine in [*engines[first:], *engines[:first]]:
            engine.prepare()
            _settle()
            used, started = engine.processor_seconds(), time.perf_counter()
            engine.run()
            taken, used = time.perf_counter() - started, engine.processor_seconds() - used
            said = "to warm up" if number == 0 else f"round {number} of {rounds}"
            say(f"{engine.table.name}, {len(engine.columns)} columns: {engine.name}: {taken:.2f} s ({said})")
            if number > 0:
                seconds[engine.name].append((taken, used))
            for check in checked(engine):
                if engine.name not in worst or _badness(check) > _badness(worst[engine.name]):
                    worst[engine.name] = check
    results.accuracy.extend(worst.values())
    return {
        name: Times(*(Sample(name, "s", values) for values in zip(*pairs, strict=True)))
        for name, pairs in seconds.items()
    }


def checked(engine: Engine) -> list[Accuracy]:
    """How far off each count of an engine's last run is."""
    found = engine.counts()
    if found and set(found) != set(engine.columns):
        raise SystemExit(
            f"{engine.table.name}: {engine.name}: expected counts of {engine.columns}, found {list(found)}"
        )
    checks = []
    for column, count in found.items():
        exact = engine.table.exact[column]
        error = abs(count - exact) / max(1, exact)
        allowed = 0.0 if exact <= engine.exact_up_to else engine.tolerance
        checks.append(Accuracy(engine.table.name, engine.name, column, error, allowed))
    return checks


def _settle() -> None:
    # What others have just done ends first, in the JVM too; what they keep is no part of this one's collections.
    gc.collect()
    gc.freeze()
    time.sleep(_SETTLE_SECONDS)


def _badness(check: Accuracy) -> tuple[bool, float]:
    return not check.right, check.error
