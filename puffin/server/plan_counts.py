"""
What plans have left out since the server started: of each table, and in total.

Everything is counted on the event loop, so a count takes no lock. Tables that were planned least recently make room for
others; the totals still have them.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from puffin.lookup import FilePlan

_MOST_TABLES = 1_000


@dataclasses.dataclass(slots=True)
class PlanCount:
    """Sums over plans: their number, files, files left out by each step, and bytes of files that are not planned."""

    plans: int = 0
    files_total: int = 0
    files_planned: int = 0
    by_partition: int = 0
    by_bounds: int = 0
    by_index: int = 0
    bytes_not_read: int = 0

    def add(self, plan: FilePlan) -> None:
        """Count one more plan."""
        self.plans += 1
        self.files_total += len(plan.all_files)
        self.files_planned += plan.files_matched
        self.by_partition += plan.pruned.partition
        self.by_bounds += plan.pruned.bounds
        self.by_index += plan.pruned.index
        self.bytes_not_read += plan.bytes_total - plan.bytes_matched

    def to_json(self) -> dict[str, Any]:
        return {
            "plans": self.plans,
            "files-total": self.files_total,
            "files-planned": self.files_planned,
            "pruned": {"partition": self.by_partition, "bounds": self.by_bounds, "index": self.by_index},
            "bytes-not-read": self.bytes_not_read,
        }


class PlanCounts:
    """The counts of a server."""

    def __init__(self) -> None:
        self._total = PlanCount()
        self._tables: OrderedDict[str, PlanCount] = OrderedDict()

    def add(self, plan: FilePlan, table: str | None) -> None:
        """Count a plan that was answered; only in the total, with None, if other callers must not learn the name."""
        self._total.add(plan)
        if table is not None:
            self._tables.setdefault(table, PlanCount()).add(plan)
            self._tables.move_to_end(table)
            if len(self._tables) > _MOST_TABLES:
                self._tables.popitem(last=False)

    def to_json(self) -> dict[str, Any]:
        """The tables, those with the most plans first."""
        tables = sorted(self._tables.items(), key=lambda each: (-each[1].plans, each[0]))
        return {"tables": [{"table": name, **counted.to_json()} for name, counted in tables]}

    def metrics(self) -> Mapping[str, int]:
        """The totals, by metric name."""
        total = self._total
        return {
            "puffin_plans_total": total.plans,
            "puffin_plan_files_total": total.files_total,
            "puffin_plan_files_pruned_by_partition_total": total.by_partition,
            "puffin_plan_files_pruned_by_bounds_total": total.by_bounds,
            "puffin_plan_files_pruned_by_index_total": total.by_index,
            "puffin_plan_bytes_not_read_total": total.bytes_not_read,
        }
