"""Rows that delete files name, and that were gone before: bounds from earlier statistics do not count on them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from puffin.cli.render import changed_since
from puffin.load import load_table
from puffin.lookup.estimates import Estimator, estimate
from stats_jobs import analyze
from tests.table_directory import publish, statistics_of


def advance(table: Any, **summary: int) -> str:
    """Make the table's document the newest version, with the statistics committed before, and summarize its changes."""
    snapshots = table.document["snapshots"]
    counts = {key.replace("_", "-"): str(count) for key, count in summary.items()}
    snapshots[-1]["summary"] = {"operation": "overwrite", "total-equality-deletes": "0"} | counts
    if len(snapshots) > 1:
        snapshots[-1]["parent-snapshot-id"] = snapshots[-2]["snapshot-id"]
    publish(table.root, table.document | {"statistics": statistics_of(table.root)})
    return str(table.root)


def test_delete_files_that_go_with_their_data_file_named_its_rows_twice(make_table) -> None:
    table = make_table([(1, "k", "long")])
    a, b = (table.write(f"{name}.parquet", pa.table({"k": range(10)}), {"k": 1}) for name in "ab")
    twice = [table.position_deletes(f"a{i}.parquet", [(a, at) for at in range(5)]) for i in range(2)]
    table.snapshot(table.data(a), table.data(b), *twice)
    path = advance(table, added_records=20, added_position_deletes=10, total_records=20, total_position_deletes=10)
    analyze(path)
    assert estimate(path).rows.rounded() == (15, 15, 15)
    table.snapshot(table.data(b), table.position_deletes("b.del.parquet", [(b, at) for at in range(3)]))
    advance(
        table,
        deleted_records=10,
        added_position_deletes=3,
        removed_position_deletes=10,
        total_records=10,
        total_position_deletes=3,
    )
    for where in (None, "k >= 0"):
        assert estimate(path, where).rows.rounded()[1:] == (7, 10)


def test_deletion_vector_that_is_written_again_takes_no_rows_twice(make_table) -> None:
    table = make_table([(1, "k", "long")], version=3)
    path = table.write("a.parquet", pa.table({"k": range(100)}), {"k": 1})
    table.snapshot(table.data(path), table.vector("a.puffin", path, range(40)))
    name = advance(table, added_records=100, added_position_deletes=40, total_records=100, total_position_deletes=40)
    analyze(name)
    table.snapshot(table.data(path), table.vector("b.puffin", path, range(42)))
    advance(
        table,
        added_position_deletes=42,
        removed_position_deletes=40,
        total_records=100,
        total_position_deletes=42,
    )
    assert estimate(name).rows.lower == 58
    assert estimate(name, "k >= 50").rows.lower == 48


def test_rows_that_went_are_unknown_after_an_equality_delete(make_table) -> None:
    table = make_table([(1, "k", "long")])
    path = table.write("a.parquet", pa.table({"k": range(10)}), {"k": 1})
    table.snapshot(table.data(path))
    name = advance(table, added_records=10, total_records=10)
    analyze(name)
    table.snapshot(table.data(path))
    advance(table, added_records=4, added_equality_deletes=1, total_records=14, total_equality_deletes=1)
    estimator = Estimator(load_table(name).open())
    found = estimator.estimate("k >= 0")
    assert found.rows.rounded()[1:] == (0, 14)
    changed = estimator.rows_changed((), found.how)
    assert changed == (4, None)
    assert changed_since(changed) == ("since the statistics were made, 4 rows came and an unknown number went")
