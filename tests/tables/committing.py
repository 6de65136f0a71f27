"""Races of processes, each of which commits statistics of a column, or an append."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException

from puffin.load import load_table
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.assemble import ColumnStatistics
from puffin.statistics.draft import FileOptions, StatisticsDraft
from puffin.statistics.kinds import THETA
from puffin.tables.base import SnapshotSelector
from puffin.tables.commit import commit_statistics
from tests.processes import at_once

APPEND = "append"
PATIENT = {
    "commit.retry.num-retries": "100",
    "commit.retry.min-wait-ms": "10",
    "commit.retry.max-wait-ms": "200",
}
"""Properties of tables whose writers retry until they succeed."""


def race(
    name: str, catalog: Mapping[str, str] | None, whats: Sequence[str], environment: Mapping[str, str] | None = None
) -> None:
    """Run writers of a table, each in its own process, all started at the same moment."""
    at_once(commit, [(name, catalog, what, environment or {}) for what in whats])


def commit(
    meet: Callable[[], object], name: str, catalog: Mapping[str, str] | None, what: str, environment: Mapping[str, str]
) -> None:
    """Commit to a table as `load_table` takes it, what the name of a column or `APPEND` says, when all have met."""
    os.environ.update(environment)
    if what == APPEND:
        target = load_catalog("races", **(catalog or {}))
        meet()
        append(target, name)
        return
    table = load_table(name, catalog=catalog and "races", catalog_properties=catalog)
    opened = table.open(SnapshotSelector(snapshot_id=next(iter(table.open().state.snapshots))))
    (column,) = opened.state.select_columns((what,))
    sketch = ThetaSketch.from_arrow(pa.array(range(column.field_id), pa.int64()), column.type)
    draft = StatisticsDraft(opened, [ColumnStatistics(column, {THETA: sketch})], FileOptions())
    meet()
    commit_statistics(table, draft)


def append(catalog: Any, name: str) -> None:
    while True:
        try:
            catalog.load_table(name).append(pa.table({"a": pa.array([1], pa.int64())}))
        except CommitFailedException:
            continue
        return
