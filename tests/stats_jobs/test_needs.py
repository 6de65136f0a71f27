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
from puffin.kernels import load_kernels
from puffin.storage import store_for
from puffin.tables.scan_task import DATA, PARQUET, ContentFile, FileScanTask, ScanBatch, ScanContext
from stats_jobs.execute import read_batch
from stats_jobs.options import Options

path, columns, kept = sys.argv[1:]
columns = pickle.loads(Path(columns).read_bytes())
size = Path(path).stat().st_size
file = ContentFile(
    content=DATA, file_path=path, file_format=PARQUET, spec_id=0, partition={}, record_count=0, file_size_in_bytes=size
)
batch = ScanBatch(columns, (FileScanTask(file, (), 0, size),), ScanContext({}, None, {}))
load_kernels()
partial = read_batch(batch, [Options().kinds] * len(columns), store_for)
assert partial.failure is None, partial.failure
Path(kept).write_bytes(pickle.dumps(partial))
print(Path("/proc/self/status").read_text())
"""
MERGE = """
import functools, pickle, sys
from pathlib import Path
from stats_jobs.execute import merge_partials

print(len(functools.reduce(merge_partials, (pickle.loads(Path(sys.argv[1]).read_bytes()) for _ in range(3))).added))
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
    taken, said = peak(MERGE, str(kept)), Needs.of(COLUMNS, files=1).driver_bytes
    assert taken <= said <= 3 * taken


def test_a_task_stays_below_a_gigabyte_however_many_columns_there_are():
    assert Needs.of(COLUMNS * 100, files=1_000_000).task_bytes <= 1_000_000_000
