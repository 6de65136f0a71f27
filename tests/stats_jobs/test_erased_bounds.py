"""Min and max forget values that were deleted, once the files with them are gone."""

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import puffin
from stats_jobs import Options, analyze
from tests.table_directory import publish, statistics_of


def bounds(path: Path | str, column: str = "name") -> tuple[Any, Any]:
    (answer,) = puffin.ndv(str(path), [column]).columns
    assert answer.source == "snapshot"
    assert answer.summary is not None
    return answer.summary.min, answer.summary.max


def test_delete_that_rewrites_files_leaves_closer_bounds(tmp_path: Path) -> None:
    path = tmp_path / "table"
    write_deltalake(path, pa.table({"name": ["aaron", *(f"m{i}" for i in range(50))]}))
    write_deltalake(path, pa.table({"name": [*(f"n{i}" for i in range(50)), "zoe"]}), mode="append")
    analyze(str(path))
    assert bounds(path) == ("aaron", "zoe")
    DeltaTable(path).delete("name = 'aaron' or name = 'zoe'")
    report = analyze(str(path))
    assert {column.basis for column in report.columns} == {"changed-files"}
    assert bounds(path) == ("m0", "n9")


def test_delete_inside_the_bounds_looks_at_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table"
    write_deltalake(path, pa.table({"name": ["aaron", "zoe"]}))
    write_deltalake(path, pa.table({"name": [f"m{i}" for i in range(50)]}), mode="append")
    analyze(str(path))
    DeltaTable(path).delete("name = 'm7'")

    def fail(*_: object) -> None:
        raise AssertionError("the metadata of files was read")

    monkeypatch.setattr("puffin.delta.snapshot.DeltaSnapshot.closer_bounds", fail)
    analyze(str(path))
    assert bounds(path) == ("aaron", "zoe")


def test_dry_run_looks_for_no_closer_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table"
    write_deltalake(path, pa.table({"name": ["aaron", "zoe"]}))
    analyze(str(path))
    DeltaTable(path).delete("name = 'aaron'")
    monkeypatch.setattr("puffin.delta.snapshot.DeltaSnapshot.closer_bounds", lambda *_: pytest.fail("looked"))
    (name,) = analyze(str(path), Options(dry_run=True)).columns
    assert (name.basis, name.ndv) == ("changed-files", 1)


def test_compaction_after_a_delete_file_leaves_closer_bounds(make_table) -> None:  # type: ignore[no-untyped-def]
    """A delete file keeps the value in the data file; the bounds stay until a compaction writes another."""
    table = make_table([(1, "name", "string")])
    names = ["aaron", *(f"m{i}" for i in range(50))]
    path = table.write("data/a.parquet", pa.table({"name": names}), {"name": 1})
    metrics = {"lower_bounds": {1: b"aaron"}, "upper_bounds": {1: b"m9"}}
    table.snapshot(first := table.data(path, **metrics))
    next_version(table)
    analyze(str(table.root))
    table.snapshot(first, table.position_deletes("data/d.parquet", [(path, 0)]))
    next_version(table)
    analyze(str(table.root))
    assert bounds(table.root) == ("aaron", "m9")
    compacted = table.write("data/b.parquet", pa.table({"name": names[1:]}), {"name": 1})
    closer = {"lower_bounds": {1: b"m0"}, "upper_bounds": {1: b"m9"}}
    table.snapshot(table.data(compacted, sequence_number=3, **closer))
    table.document["snapshots"][-1]["summary"] = {"operation": "replace"}
    next_version(table)
    report = analyze(str(table.root), Options(mode="incremental"))
    assert report.rows_read == 0
    assert bounds(table.root) == ("m0", "m9")
    assert "loose" not in json.dumps(statistics_of(table.root)[-1])


def next_version(table: Any) -> None:
    """Make the table's document the newest version, with the statistics that were committed before."""
    for parent, snapshot in itertools.pairwise(table.document["snapshots"]):
        snapshot["parent-snapshot-id"] = parent["snapshot-id"]
    publish(table.root, table.document | {"statistics": statistics_of(table.root)})
