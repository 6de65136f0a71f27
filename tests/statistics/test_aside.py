"""What a wide table's run puts aside is what a narrow one holds: the same statistics, in every kind of run."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from puffin.errors import StorageError
from puffin.format import PuffinReader
from puffin.statistics import aside, deltas
from puffin.statistics.aside import Aside
from puffin.statistics.kinds import SUMMARY
from puffin.statistics.private_state import writing
from puffin.storage import LocalStore
from puffin.storage.shelf import Shelf
from puffin.values.row_summary import RowSummary
from stats_jobs import Options, analyze


def stored(table: Path) -> Iterator[object]:
    """What stands in each statistics file and each private part, whatever their names."""
    for path in table.glob("**/*"):
        if path.is_file() and path.read_bytes()[:4] == b"PFA1":
            with LocalStore().open_source(str(path)) as source:
                reader = PuffinReader(source)
                yield [
                    (b.type, b.fields, b.snapshot_id, b.properties, reader.read(b)) for b in reader.file_metadata.blobs
                ]


def runs(table: Path, seed: int) -> Iterator[object]:
    """All that a number of runs say and store, of a table that gets rows and loses some."""
    draw = random.Random(seed)

    def rows(part: int, count: int) -> pa.Table:
        numbers = [draw.randrange(5000) for _ in range(count)]
        texts = [None if number % 7 == 0 else f"{number:030}" for number in numbers]
        return pa.table({"p": [part] * count, "a": numbers, "b": texts, "c": [n / 3 for n in numbers]})

    for part in range(3):
        write_deltalake(table, rows(part, 1000), mode="append", partition_by=["p"])
    yield analyze(str(table), Options(joint=("a+b",))).columns
    for _ in range(2):
        write_deltalake(table, rows(1, 200), mode="append")
        yield analyze(str(table), Options(partitions=True)).columns
    yield analyze(str(table), Options(no_values=("b",))).columns
    DeltaTable(table).delete("p = 2")
    yield analyze(str(table), Options(joint=("a+b",))).columns
    yield sorted(stored(table), key=repr)


def test_statistics_that_were_put_aside_are_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(deltas, "LEAST_BYTES", random.choice([0, deltas.LEAST_BYTES]))
    seed = random.randrange(1 << 30)
    found, puts = [], list[int]()
    put = Shelf.put
    monkeypatch.setattr(Shelf, "put", lambda shelf, data: puts.append(len(data)) or put(shelf, data))
    for many in (1000, 0):
        monkeypatch.setattr(aside, "MANY", many)
        monkeypatch.setattr(writing, "_MANY", many)
        assert not puts
        found.append([*runs(tmp_path / str(many), seed)])
    assert len(puts) > 100
    assert found[0] == found[1], seed


def test_file_of_what_was_put_aside_is_gone_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    values = Aside().put({SUMMARY: RowSummary(rows=7)})
    assert SUMMARY in values
    assert values == {SUMMARY: RowSummary(rows=7)}
    assert not [*tmp_path.iterdir()], "the file has no name"


def test_disk_without_room_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(StorageError, match=f"^{tmp_path}/gone: a temporary file of statistics: No such file"):
        Shelf().put(b"x")
