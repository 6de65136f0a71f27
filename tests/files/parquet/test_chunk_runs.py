"""Chunks of neighbouring row groups have the same values and summaries together as one by one."""

import decimal

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from puffin.files.file_columns import FileColumn
from puffin.files.parquet import chunk_runs, page_batches, parquet_file
from puffin.files.parquet.chunk_plan import ChunkPlanner
from puffin.files.parquet.chunk_runs import PlannedChunk, runs
from puffin.tables.base import Column
from puffin.values.chunk_summary import ChunkSummary
from puffin.values.column_chunk import ChunkStatistics
from tests.page_counts import page_counts, written

pytestmark = pytest.mark.usefixtures("compiled")

COLUMN = FileColumn(Column(1, "c", "string", (1,), (None,)), ("c",), None)
FIELDS = [(1, "n", "long"), (2, "s", "string"), (3, "d", "decimal(12, 2)"), (4, "x", "double"), (5, "b", "boolean")]


def drawn_rows(source, count):
    numbers = source.integers(-50, 50, count)
    nulls = source.random(count) < source.choice([0, 0.3, 1])
    texts = [f"{n:0{source.choice([1, 20])}}" for n in numbers]
    floats = np.where(numbers % 7 == 0, np.nan, numbers / 4)
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64(), mask=nulls),
            "s": pa.array(texts, pa.string(), mask=nulls),
            "d": pa.array([decimal.Decimal(int(n)) / 4 for n in numbers], pa.decimal128(12, 2), mask=nulls),
            "x": pa.array(floats, mask=nulls),
            "b": pa.array(numbers > 40, mask=nulls),
        }
    )


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.sampled_from([[], ["n", "x"], ["s", "d"]]), st.data())
def test_joined_chunks_have_the_sketches_and_summaries_of_each(make_table, seed, statistics, data):
    """Row groups may be of nulls only, fall back from their dictionary, and lack statistics where values do."""
    source = np.random.default_rng(seed)
    rows = pa.concat_tables([drawn_rows(source, 40) for _ in range(6)])
    table = make_table(FIELDS)
    path = table.write(
        "1.parquet",
        rows,
        {name: field_id for field_id, name, _ in FIELDS},
        row_group_size=data.draw(st.sampled_from([20, 40, 100])),
        write_statistics=statistics,
        dictionary_pagesize_limit=data.draw(st.sampled_from([60, 1 << 20])),
        compression=data.draw(st.sampled_from(["none", "zstd", "lz4"])),
    )
    table.snapshot(table.data(path))
    joined = table.read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_file, "_WINDOW_CHUNKS", 1)
        alone = table.read()
    assert joined.rows == alone.rows == len(rows)
    assert joined.bytes_read == alone.bytes_read
    assert joined.summaries == alone.summaries
    for name, sketch in alone.sketches.items():
        assert joined.sketches[name].to_bytes() == sketch.to_bytes()


def test_broken_chunk_is_read_row_by_row_and_its_neighbours_are_not(make_table, monkeypatch):
    """A chunk with another encoding of levels, say, should not cost the others their fast way."""
    table = make_table(FIELDS[:1])
    path = table.write("1.parquet", pa.table({"n": range(400)}), {"n": 1}, row_group_size=100)
    table.snapshot(table.data(path))
    expected = table.read()
    tried = []
    parts = page_batches._parts

    def second_is_unusual(source, chunk, *args):
        tried.append(chunk.data_page_offset)
        if chunk.data_page_offset == second:
            raise ValueError("unusual")
        return parts(source, chunk, *args)

    second = pq.read_metadata(path).row_group(1).column(0).data_page_offset
    monkeypatch.setattr(page_batches, "_parts", second_is_unusual)
    found = table.read()
    assert found.sketches["n"] == expected.sketches["n"]
    assert len(set(tried)) == 4
    assert found.summaries == expected.summaries


def planned(file, sizes, of_footer):
    """Chunks of so many bytes, and what the footer tells of each."""
    parquet = pq.ParquetFile(pa.BufferReader(file))
    planner = ChunkPlanner(parquet.metadata, parquet.schema_arrow)
    plan = planner.plan(0, [("c",)], all_live=True, each_row=True)[("c",)]
    for place, (_, footer) in enumerate(zip(sizes, of_footer, strict=True)):
        yield PlannedChunk(COLUMN, place, 10, plan, ChunkSummary("string", footer))


def test_run_ends_where_bytes_or_what_the_footer_tells_do(monkeypatch):
    file = written(pa.array(["a", "b"] * 5))
    known = ChunkStatistics(pa.string(), 0, (b"a", b"b"), 10)
    lacks_bytes = ChunkStatistics(pa.string(), 0, (b"a", b"b"))
    broken = ChunkStatistics(pa.string(), 0, (b"\xff", b"\xff"), 10)  # text that cannot be decoded bounds nothing
    footers = [known, known, lacks_bytes, broken, broken, known]
    chunks = list(planned(file, range(6), footers))
    assert [[chunk.group for chunk in run.chunks] for run in runs(chunks)] == [[0, 1], [2], [3, 4], [5]]
    monkeypatch.setattr(chunk_runs, "MAX_JOINED_BYTES", 2 * chunks[0].plan.held_bytes)
    assert [len(run.chunks) for run in runs(list(planned(file, range(5), [known] * 5)))] == [2, 2, 1]


def test_pages_that_would_not_fit_together_are_not_read_together(monkeypatch):
    monkeypatch.setattr(page_batches, "MAX_PAGE_BYTES", 500)
    file = written(pa.array(range(100)), row_group_size=50, use_dictionary=False)
    chunk, other = (
        ChunkPlanner(parquet.metadata, parquet.schema_arrow).row_groups[group][0]
        for parquet in [pq.ParquetFile(pa.BufferReader(file))]
        for group in range(2)
    )
    assert page_counts(pa.BufferReader(file), chunk, pa.int64(), other) is None
    assert sum(page_counts(pa.BufferReader(file), chunk, pa.int64()).values()) == 50
