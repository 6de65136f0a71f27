"""How many files a query of Spark reads."""

from __future__ import annotations

from typing import Any


def files_read(frame: Any) -> int:
    """The tasks of the scans of a query, each of which reads a file."""
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    groups = [leaves.apply(i).scan().taskGroups() for i in range(leaves.size())]
    return sum(of_scan.get(i).tasks().size() for of_scan in groups for i in range(of_scan.size()))
