"""What happens to the tables while they are asked about: they grow, are analyzed again and forget what is old."""

from __future__ import annotations

import random
import time
from typing import TypeAlias

from benchmarks.soak.tables import FIRST_NDV, SoakTable

Commits: TypeAlias = dict[str, list[tuple[float, float]]]
"""For each analysis of a table after its first, when its commit began and when it was over, by the monotonic clock."""


def change(tables: list[SoakTable], rate: float, seconds: float) -> Commits:
    """
    Change one table after the other, in no order; each change is a snapshot, its statistics, and every other time what
    is old expires.

    Args:
        rate: Changes a second, as far as the machine can do so many.
    """
    rng = random.Random(1)
    commits: Commits = {str(table.directory): [] for table in tables}
    began = time.monotonic()
    done = 0
    while (now := time.monotonic()) < began + seconds:
        if now < (due := began + done / rate):
            time.sleep(min(due - now, began + seconds - now))
            continue
        table = rng.choice(tables)
        table.add_snapshot()
        started = time.monotonic()
        table.analyze()
        commits[str(table.directory)].append((started, time.monotonic()))
        if rng.random() < 0.5:
            table.expire()
        done += 1
    return commits


def was_true(commits: list[tuple[float, float]], ndv: int | None, since: float, until: float) -> bool:
    """
    Whether the statistics of a table had this ndv at some moment between two.

    Args:
        commits: Of that table.
    """
    if ndv is None or not 0 <= (analysis := ndv - FIRST_NDV) <= len(commits):
        return False
    came = -1.0 if analysis == 0 else commits[analysis - 1][0]
    went = until if analysis == len(commits) else commits[analysis][1]
    return came <= until and went >= since
