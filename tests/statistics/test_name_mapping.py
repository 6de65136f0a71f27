"""Files without field ids get their columns from the table's name mapping, which may change."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import StringType

import puffin

MAPPING = "schema.name-mapping.default"


@pytest.fixture
def table(shared, tmp_path):
    """A table whose one data file has no field ids: k of 300 values, s of 90."""
    made = shared("t", pa.table({"k": pa.array([], pa.int64()), "s": pa.array([], pa.string())}))
    add_file(made, tmp_path / "added.parquet", 0)
    return made


def add_file(table, path, first: int, columns=("k", "s")) -> None:
    """Write a file as an engine without field ids does."""
    keys = range(first, first + 300)
    values = {"k": pa.array(keys, pa.int64()), "s": pa.array([f"s{k % 90}" for k in keys])}
    pq.write_table(pa.table({name: values[name] for name in columns}), path)
    table.load().add_files([f"file://{path}"])


def set_mapping(table, change) -> None:
    mapping = json.loads(table.load().properties[MAPPING])
    change(mapping)
    with table.load().transaction() as transaction:
        transaction.set_properties({MAPPING: json.dumps(mapping)})


def counted(table) -> dict[str, int]:
    """Count distinct values as pyiceberg reads the table."""
    read = table.load().scan().to_arrow()
    return {name: len(set(read[name].to_pylist()) - {None, ""}) for name in read.column_names}


def ndvs(report) -> dict[str, int]:
    return {column.column.name: column.ndv for column in report.columns}


def bases(report) -> dict[str, str]:
    return {column.column.name: column.basis for column in report.columns}


def test_rename_and_new_column_of_the_old_name_change_what_files_mean(table):
    assert ndvs(table.check()) == counted(table) == {"k": 300, "s": 90}
    with table.load().update_schema() as update:
        update.rename_column("s", "s2")
    report = table.check()
    assert ndvs(report) == counted(table) == {"k": 300, "s2": 90}
    with table.load().update_schema() as update:
        update.add_column("s", StringType())
    report = table.check()
    assert ndvs(report) == counted(table)
    assert report.columns[0].basis == "carried"


def test_manual_mapping_change_is_noticed_by_lookups_on_the_same_snapshot(table):
    table.check()
    set_mapping(table, lambda mapping: mapping[1].update(names=["nothing"]))
    answer = puffin.ndv(table.name, catalog="beside", catalog_properties=table.properties)
    assert [(c.column.name, c.source) for c in answer.columns] == [("k", "snapshot"), ("s", "missing")]
    assert "name mapping" in answer.columns[1].reason
    report = table.check()
    assert (ndvs(report), bases(report)) == ({"k": 300, "s": 0}, {"k": "carried", "s": "full"})
    assert "name mapping" in report.columns[1].reason


def test_only_files_under_the_same_mapping_are_added_to_the_base(table, tmp_path):
    table.check()
    add_file(table, tmp_path / "second.parquet", 300)
    assert bases(table.check()) == {"k": "added-files", "s": "added-files"}
    set_mapping(table, lambda mapping: mapping[0].update(names=["k", "key"]))
    add_file(table, tmp_path / "third.parquet", 600)
    report = table.check()
    assert bases(report) == {"k": "full", "s": "added-files"}
    assert ndvs(report) == counted(table) == {"k": 900, "s": 90}


def test_files_with_field_ids_ignore_the_mapping(shared):
    table = shared("ids", pa.table({"k": pa.array(range(50), pa.int64())}))
    mapping = [{"field-id": 1, "names": ["k"]}]
    table.check()
    for names in (["k"], ["x"]):
        mapping[0]["names"] = names
        with table.load().transaction() as transaction:
            transaction.set_properties({MAPPING: json.dumps(mapping)})
        assert table.check().current


def test_other_engines_do_not_record_which_mapping_their_sketches_depend_on(table):
    table.analyze()
    theirs = [
        dataclasses.replace(raw, metadata=dataclasses.replace(raw.metadata, properties={"ndv": "9"}))
        for raw in table.stored()
    ]
    shutil.rmtree(table.private)
    table.replace("Trino version 476", theirs)
    report = table.check()
    assert set(bases(report).values()) == {"full"}
    assert table.check().current


def test_mapping_that_moves_a_file_column_to_another_field_changes_both(table):
    table.check()

    with table.load().update_schema() as update:
        update.add_column("t", StringType())
    set_mapping(table, lambda mapping: (mapping[1].update(names=["x"]), mapping[2].update(names=["s"])))
    report = table.check()
    assert ndvs(report) == counted(table) == {"k": 300, "s": 0, "t": 90}
