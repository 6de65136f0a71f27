"""A seed draws one table, its files hold what was drawn, and the floor decompresses all of their pages."""

import dataclasses

import pyarrow.parquet as pq
import pytest

from benchmarks.random_tables import drawing
from benchmarks.random_tables.floors import decompress, uncompressed_bytes
from benchmarks.random_tables.tables import make_table
from benchmarks.random_tables.values import rows_of
from stats_jobs import Options, analyze

SIZE = 12_000
CASES = [
    (2, drawing.PYARROW, "lz4", 2),
    (4, drawing.DUCKDB, "snappy", 2),
    (5, drawing.POLARS, "gzip", 1),
]


def test_a_seed_draws_one_table():
    for seed in range(50):
        table = drawing.draw(seed, SIZE)
        assert table == drawing.draw(seed, SIZE)
        assert table != drawing.draw(seed + 1, SIZE)
        assert sum(table.file_rows) == table.rows


def test_every_choice_is_drawn():
    tables = [drawing.draw(seed, SIZE) for seed in range(200)]
    assert {table.writer for table in tables} == set(drawing.WRITERS)
    assert {table.codec for table in tables} == {"none", "snappy", "zstd", "gzip", "lz4"}
    assert {(table.dictionary, table.delta, table.version) for table in tables} == {
        (dictionary, delta, version) for dictionary in (True, False) for delta in (True, False) for version in (1, 2)
    }


@pytest.mark.parametrize(("seed", "writer", "codec", "version"), CASES)
def test_a_table_is_read_as_it_was_drawn(tmp_path, monkeypatch, seed, writer, codec, version):
    monkeypatch.setattr(drawing, "WRITERS", (writer,))
    table = dataclasses.replace(drawing.draw(seed, SIZE), codec=codec, version=version)
    paths = make_table(table, tmp_path)
    names = [column.name for column in table.columns]
    share, values = {}, {name: set() for name in names}
    for file, path in enumerate(paths):
        drawn, found = rows_of(table, file), pq.read_table(path)
        assert found.num_rows == table.file_rows[file]
        for column in table.columns:
            assert found[column.name].to_pylist() == drawn[column.name].to_pylist()
            values[column.name].update(drawn[column.name].to_pylist())
        share[str(path)] = list(range(pq.read_metadata(path).num_row_groups))
    footers = [pq.read_metadata(path) for path in paths]
    groups = [footer.row_group(i) for footer in footers for i in range(footer.num_row_groups)]
    stored = sum(group.column(i).total_uncompressed_size for group in groups for i in range(group.num_columns))
    bodies, before = uncompressed_bytes(tuple(share), names)
    assert bodies + before == stored
    assert decompress(share, names) == bodies
    counts = {each.column.name: each.ndv for each in analyze(str(tmp_path), Options(dry_run=True)).columns}
    assert counts == {name: pytest.approx(len(each - {None}), rel=0.06) for name, each in values.items()}
