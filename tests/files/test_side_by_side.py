"""The rows of chosen columns come side by side, in every format and on every way to their values."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from puffin.files.formats import DataFiles
from puffin.files.rows import Wants
from puffin.files.task_reader import TaskReader
from puffin.kernels import load_kernels
from puffin.storage import store_for
from puffin.tables.scan_task import ScanBatch, ScanContext

COUNT = 3000
WORDS = [None, "", "a", "b" * 300, *map(str, range(20))]
ROWS = pa.table(
    {
        "word": pa.array([WORDS[i * i % len(WORDS)] for i in range(COUNT)]),
        "long_text": pa.array([f"{i % 7}" * 2000 for i in range(COUNT)]),
        "number": pa.array([None if i % 11 == 0 else i % 13 for i in range(COUNT)], pa.int64()),
    }
)
IDS = {"word": 1, "long_text": 2, "number": 3}
FIELDS = [(1, "word", "string"), (2, "long_text", "string"), (3, "number", "long"), (4, "later", "long")]
WRITING = {
    "dictionary.parquet": {"row_group_size": 700},
    "plain.parquet": {"use_dictionary": False, "row_group_size": 700},
    "rows.avro": {},
    "rows.orc": {},
}


def tuples_read(table, field_ids, each_row):
    """Count the tuples of columns that are read side by side, and the rows."""
    state = table.state()
    batch = ScanBatch(columns=state.columns, tasks=table.plan(), context=ScanContext({}, None, {}))
    reader = TaskReader(batch, DataFiles(store_for), Wants(each_row=each_row, side_by_side=frozenset(field_ids)))
    found, rows = Counter(), 0
    for task in batch.tasks:
        for live in reader.read(task):
            rows += live.count
            if field_ids[0] in live.columns:
                assert live.columns.keys() >= set(field_ids)
                assert all(live.columns[i].rows is None for i in field_ids)
                arrays = [live.columns[i].array.to_pylist() for i in field_ids]
                assert {len(array) for array in arrays} == {live.count}
                found.update(zip(*arrays, strict=True))
    return found, rows


@pytest.mark.parametrize("name", WRITING)
@pytest.mark.parametrize("deleted", [(), (0, 1, 699, 700, 2999)], ids=["whole", "with deletes"])
@pytest.mark.parametrize("each_row", [False, True])
def test_columns_that_are_needed_side_by_side_have_every_live_row(make_table, name, deleted, each_row):
    load_kernels()
    table = make_table(FIELDS)
    path = table.write(name, ROWS, IDS, **WRITING[name])
    entries = [table.data(path)]
    if deleted:
        entries.append(table.position_deletes("deletes.parquet", [(path, at) for at in deleted]))
    table.snapshot(*entries)
    live = [row for at, row in enumerate(ROWS.to_pylist()) if at not in deleted]
    for names in (("word", "number"), ("number", "long_text"), ("word", "later")):
        found, rows = tuples_read(table, [4 if n == "later" else IDS[n] for n in names], each_row)
        assert rows == len(live)
        assert found == Counter(tuple(row.get(n) for n in names) for row in live)
