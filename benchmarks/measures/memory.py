"""
What a Python worker takes for one large file, and for strings of 1 MB each.

The code that an executor runs is called on one task for the whole file, in a process that has done nothing before; in
a job the same file would be several tasks. Its peak includes the interpreter with Arrow and numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.processes import in_fresh_process, peak_mib
from benchmarks.results import LOWER, Bar, Results, Row, Sample
from benchmarks.run import HOME, Run, say

NAMES = _LARGE_FILE, _LONG_STRINGS = "memory-large-file", "memory-long-strings"

_GROUP_ROWS = 3 * 1024 * 1024  # of 8 and 32 random bytes: about as large as Spark's row groups
_STRING_BYTES = 32
_MB = 1_000_000
_ROWS_OF_STRINGS = 500  # in a row group
_BAR = Bar(LOWER, 1024, 400)

_TYPES = {"number": "long", "text": "string"}
_SCHEMA = pa.schema(
    [
        pa.field("number", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("text", pa.string(), metadata={"PARQUET:field_id": "2"}),
    ]
)


def measure(run: Run, results: Results) -> None:
    """Make the files that are wanted, and sketch each in a process of its own."""
    for name, title, write, size in (
        (
            _LARGE_FILE,
            "peak memory of a worker; a Parquet file of {:,} bytes",
            _write_large,
            run.sizes.large_file_bytes,
        ),
        (_LONG_STRINGS, "peak memory of a worker; {:,} strings of 1 MB", _write_long_strings, run.sizes.long_strings),
    ):
        if run.wants(name):
            path = _found_or_made(HOME / "data" / f"{name}-{size}.parquet", write, size)
            peak, rows = in_fresh_process(_peak, str(path))
            say(f"{name}: {peak:.0f} MiB for {rows} rows")
            results.rows.append(Row(name, title.format(size), Sample("a Python worker", "MiB", (peak,)), None, _BAR))


def _peak(path: str) -> tuple[float, int]:
    from puffin.files.formats import DataFiles
    from puffin.statistics.kinds import ROW_COUNTS, SUMMARY
    from puffin.storage import store_for
    from puffin.tables.base import Column
    from puffin.tables.scan_task import DATA, ContentFile, FileScanTask, ScanBatch, ScanContext
    from stats_jobs.execute import read_batch

    size = Path(path).stat().st_size
    file = ContentFile(
        content=DATA, file_path=path, file_format="PARQUET", spec_id=0, partition={}, record_count=0,
        file_size_in_bytes=size,
    )  # fmt: skip
    batch = ScanBatch(
        columns=tuple(
            Column(field_id, name, type_, (field_id,), (None,))
            for field_id, (name, type_) in enumerate(_TYPES.items(), start=1)
        ),
        tasks=(FileScanTask(file, (), 0, size),),
        context=ScanContext({}, None, {}),
    )
    partial = read_batch(batch, [(ROW_COUNTS, SUMMARY)] * len(batch.columns), DataFiles(store_for))
    if partial.failure is not None:
        raise partial.failure
    return peak_mib(), partial.rows


def _found_or_made(path: Path, write: Callable[[int], Iterator[pa.Table]], size: int) -> Path:
    if not path.exists():
        say(f"making {path.name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        with unfinished.open("wb") as sink, pq.ParquetWriter(sink, _SCHEMA, compression="none") as writer:
            for table in write(size):
                writer.write_table(table, row_group_size=len(table))
        unfinished.rename(path)
    return path


def _write_large(size: int) -> Iterator[pa.Table]:
    """Row groups of random values that together take this many bytes."""
    random = np.random.default_rng(0)
    left = -(-size // (8 + 4 + _STRING_BYTES))  # a number, a string's length and the string
    while left > 0:
        rows = min(left, _GROUP_ROWS)
        letters = random.integers(97, 123, rows * _STRING_BYTES, np.uint8)
        offsets = np.arange(0, rows * _STRING_BYTES + 1, _STRING_BYTES, dtype=np.int32)
        texts = pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))
        yield pa.table([pa.array(random.integers(0, 1 << 62, rows)), texts], schema=_SCHEMA)
        left -= rows


def _write_long_strings(count: int) -> Iterator[pa.Table]:
    """Row groups of strings that differ from each other at their beginning."""
    letters = np.random.default_rng(0).integers(97, 123, _MB, np.uint8).tobytes().decode()
    for start in range(0, count, _ROWS_OF_STRINGS):
        numbers = range(start, min(count, start + _ROWS_OF_STRINGS))
        texts = [f"{number:010}{letters[10:]}" for number in numbers]
        yield pa.table([pa.array(numbers, pa.int64()), pa.array(texts, pa.string())], schema=_SCHEMA)
