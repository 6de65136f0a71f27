"""
One writer of `test_commit_races`: a process that commits when it is told to, so that several do it at once.

It is called with a table as `load_table` takes it, a catalog's properties in JSON (null for a directory) and the name
of a column, or of an append. It prints a line when it is ready, and starts when it reads one.
"""

import json
import sys

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

APPEND = "append"


def main(name: str, catalog: str, what: str) -> None:
    properties = json.loads(catalog)
    if what == APPEND:
        target = load_catalog("races", **properties)
        wait()
        append(target, name)
        return
    table = load_table(name, catalog=properties and "races", catalog_properties=properties)
    opened = table.open(SnapshotSelector(snapshot_id=next(iter(table.open().state.snapshots))))
    (column,) = opened.state.select_columns((what,))
    sketch = ThetaSketch.from_arrow(pa.array(range(column.field_id), pa.int64()), column.type)
    draft = StatisticsDraft(opened, [ColumnStatistics(column, {THETA: sketch})], FileOptions())
    wait()
    commit_statistics(table, draft)


def append(catalog, name: str) -> None:
    while True:
        try:
            catalog.load_table(name).append(pa.table({"a": pa.array([1], pa.int64())}))
        except CommitFailedException:
            continue
        return


def wait() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()


main(*sys.argv[1:])
