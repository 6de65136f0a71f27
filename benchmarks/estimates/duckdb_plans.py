"""DuckDB: what ``EXPLAIN (FORMAT JSON)`` expects of tables that are loaded and analyzed."""

from __future__ import annotations

import json
from typing import Any

import duckdb

from benchmarks.estimates.engine import DUCKDB, Engine, Estimate
from benchmarks.estimates.questions import Question

_CARDINALITY = "Estimated Cardinality"


class DuckDBPlans(Engine):
    """Estimates of the topmost operator of a plan that has one."""

    name = DUCKDB

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        super().__init__()
        self._connection = connection

    def estimate(self, question: Question) -> Estimate | None:
        sql = f"EXPLAIN (FORMAT JSON) {question.to_sql(str)}"
        (plan,) = json.loads(self._connection.execute(sql).fetchall()[0][1])
        rows = _topmost(plan)
        if rows is None:
            self.miss("no cardinality in the plan")
            return None
        return Estimate(rows)


def _topmost(plan: dict[str, Any]) -> float | None:
    if "EMPTY_RESULT" in plan["name"]:
        return 0
    told = plan.get("extra_info", {}).get(_CARDINALITY)
    if told is not None:
        return float(told)
    for child in plan.get("children", ()):
        found = _topmost(child)
        if found is not None:
            return found
    return None
