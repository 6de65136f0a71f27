"""
Formulas for the memory of a run, from its columns and files; tests compare them with measured runs.

They assume columns with many distinct values; others need a fraction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from puffin.statistics.aside import are_many
from puffin.tables.base import Column
from stats_jobs.column_memory import MOST_STATE, state_bytes

_MB = 1_000_000
_DRIVER, _TASK = 160 * _MB, 350 * _MB  # Python with Arrow and numpy; a task's has kernels and their compiler too
_MERGED = 6 * _MB  # of a column, on the driver, whose values are in memory
_FETCHED = 100 * _MB  # of many columns, on the driver: those that come from executors at once
_ASIDE = _MB * 12 // 100  # of each of many columns: its sketch as it is written, and where its values are put aside
_FILE = 1_000  # of a data file, on the driver: its task and its place in a document
_PACKED = 100  # of a data file that executors plan, on the driver: its place in a document


@dataclasses.dataclass(frozen=True, slots=True)
class Needs:
    """
    The memory that a run takes at most, in bytes.

    Attributes:
        driver_bytes: Of the Python process that runs the job.
        task_bytes: Of the Python worker of each core that reads, beside the executor's heap: its memory overhead.
    """

    driver_bytes: int
    task_bytes: int

    @classmethod
    def of(cls, columns: Collection[Column], files: int, packed: int = 0) -> Needs:
        """What it takes to read these columns of so many data files, and of so many that executors plan."""
        read = min(sum(map(state_bytes, columns)), MOST_STATE)
        merged = len(columns) * _MERGED
        if are_many(len(columns)):
            merged = _FETCHED + len(columns) * _ASIDE
        return cls(_DRIVER + files * _FILE + packed * _PACKED + merged, _TASK + read)

    def to_json(self) -> dict[str, int]:
        return {"driver-bytes": self.driver_bytes, "task-bytes": self.task_bytes}
