"""The memory that a run is said to need, beside what processes take that read and merge columns of many values."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from puffin.tables.base import Column
from stats_jobs.needs import Needs

ROWS = 40_000  # distinct values, of which row counts keep a part
COLUMNS = [
    Column(field_id, f"c{field_id}", type_, (field_id,), (None,))
    for field_id, type_ in enumerate(["long", "string"] * 16, start=1)
]
READ = """
import pickle, sys
from pathlib import Path
from puffin.files.formats import DataFiles
from puffin.kernels import load_kernels
from puffin.storage import store_for
from puffin.tables.scan_task import DATA, PARQUET, ContentFile, FileScanTask, ScanBatch, ScanContext
from stats_jobs.execute import read_batch
from stats_jobs.merge import dumped
from stats_jobs.options import Options

path, columns, kept = sys.argv[1:]
columns = pickle.loads(Path(columns).read_bytes())
size = Path(path).stat().st_size
file = ContentFile(
    content=DATA, file_path=path, file_format=PARQUET, spec_id=0, partition={}, record_count=0, file_size_in_bytes=size
)
batch = ScanBatch(columns, (FileScanTask(file, (), 0, size),), ScanContext({}, None, {}))
load_kernels()
partial = read_batch(batch, [Options().kinds] * len(columns), DataFiles(store_for))
assert partial.failure is None, partial.failure
Path(kept).write_bytes(dumped(partial))
print(Path("/proc/self/status").read_text())
"""
MERGE = """
import pickle, sys
from pathlib import Path
from types import SimpleNamespace
from puffin.statistics.assemble import ColumnStatistics, companion_blobs, sketch_blobs
from puffin.statistics.basis import ColumnPlan
from puffin.tables.base import Column, Snapshot
from stats_jobs.compute import compute
from stats_jobs.partial import Partial
from stats_jobs.merge import Gathered, Groups, loaded
from stats_jobs.options import Options
from stats_jobs.plan_scans import Plans

kept, tables, tasks = Path(sys.argv[1]), *map(int, sys.argv[2:])
columns = loaded(kept.read_bytes(), dict).added
ids = [range(table * len(columns), (table + 1) * len(columns)) for table in range(tables)]
gathered = Gathered(Groups.of(field_id for of in ids for field_id in of))
for of in ids * tasks:
    gathered.all([pickle.dumps(Partial(dict(zip(of, columns.values()))))])
plans = [ColumnPlan.in_full(Column(i, str(i), "long", (i,), (None,)), "") for i in gathered.partial.added]
runner = SimpleNamespace(read=lambda _: gathered.partial)
computed = compute(Plans(plans), runner, tuple, Options().kinds).columns
written = [ColumnStatistics(each.plan.column, each.values) for each in computed]
snapshot = Snapshot(1, None, 1, 0, "append", None)
sketches = sketch_blobs(written, snapshot, None)
assert len(sketches) == len(plans)
assert sum(len(blob.make().payload) for blob in companion_blobs(written, snapshot).new) > 50_000 * len(plans)
print(Path("/proc/self/status").read_text())
"""


def peak(script: str, *arguments: str) -> int:
    """The most bytes that a process which runs the script has resident."""
    ran = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return int(re.search(r"VmHWM:\s+(\d+)", ran.stdout)[1]) * 1024


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    arrays = []
    for column in COLUMNS:
        numbers = random.permutation(ROWS)
        texts = pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), 32)
        arrays.append(pa.array(numbers) if column.type == "long" else texts)
    fields = [
        pa.field(column.name, array.type, metadata={"PARQUET:field_id": str(column.field_id)})
        for column, array in zip(COLUMNS, arrays, strict=True)
    ]
    path = tmp_path_factory.mktemp("needs") / "wide.parquet"
    pq.write_table(pa.table(arrays, schema=pa.schema(fields)), path, use_dictionary=False)
    return path


def test_needs_are_what_tasks_and_the_driver_take(file):
    """What is said is what is taken, or up to three times as much; of each column that a task reads, too."""
    chosen, kept = file.parent / "columns", file.parent / "partial"
    took = []
    for count in (4, len(COLUMNS)):
        chosen.write_bytes(pickle.dumps(tuple(COLUMNS[:count])))
        took.append((peak(READ, str(file), str(chosen), str(kept)), Needs.of(COLUMNS[:count], files=1).task_bytes))
    (few, few_said), (many, many_said) = took
    for taken, said in (*took, (many - few, many_said - few_said)):
        assert taken <= said <= 3 * taken, took
    assert kept.stat().st_size <= 300_000 * len(COLUMNS), "what the documentation says that is shuffled"
    for tables, tasks in ((1, 3), (5, 1)):
        taken = peak(MERGE, str(kept), str(tables), str(tasks))
        assert taken <= Needs.of(COLUMNS * tables, files=1).driver_bytes <= 3 * taken


def test_processes_stay_below_a_gigabyte_for_thousands_of_columns():
    needs = Needs.of(COLUMNS * 100, files=100_000)
    assert max(needs.task_bytes, needs.driver_bytes) <= 1_000_000_000
