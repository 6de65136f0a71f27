"""Columns that had another type at an old snapshot, as after Spark's CREATE OR REPLACE, which keeps field ids."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.types import StringType

from puffin.errors import UnsupportedError
from puffin.tables.base import SnapshotSelector
from tests.statistics.made_rows import numbers

TAG = SnapshotSelector(ref="v1")


@pytest.fixture
def replaced(shared):
    """A table whose column n is a string, with a tag of a snapshot at which it was a number."""
    table = shared("t", numbers(0, 1, 2))
    table.load().manage_snapshots().create_tag(table.state.current_snapshot_id, "v1").commit()
    table.analyze(joint=("k+n",))
    with table.load().update_schema(allow_incompatible_changes=True) as schema:
        schema.update_column("n", StringType())
    table.load().overwrite(pa.table({"k": [0, 1], "n": ["a", "b"]}))
    return table


@pytest.mark.parametrize("mode", ["auto", "full"])
def test_tag_is_analyzed_without_a_column_that_had_another_type_there(replaced, caplog, mode):
    (column,) = replaced.analyze(selector=TAG, mode=mode).columns
    assert (column.column.name, column.ndv) == ("k", 3)
    assert "column n is left out: of type long at snapshot" in caplog.text
    assert [column.ndv for column in replaced.analyze().columns] == [2, 2]


@pytest.mark.parametrize("options", [{"columns": ("n",)}, {"joint": ("k+n",)}])
def test_column_that_had_another_type_is_refused_if_it_is_named(replaced, options):
    with pytest.raises(UnsupportedError, match=r"column n: of type long at snapshot \d+, now string"):
        replaced.analyze(selector=TAG, **options)
