"""Drawn tables as Iceberg tables in a directory, made once and found again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from benchmarks.data import Dataset, found_dataset, kept_dataset
from benchmarks.handmade import HandmadeTable, schema_of
from benchmarks.random_tables.drawing import INTEGERS, DrawnColumn, DrawnTable, draw
from benchmarks.random_tables.writers import write_files
from benchmarks.run import say

_NAME_MAPPING = "schema.name-mapping.default"  # only pyarrow writes field ids


def random_table(home: Path, seed: int, size: int) -> tuple[DrawnTable, Dataset]:
    """The table of a seed, of about ``size`` bytes, below ``home``."""
    table = draw(seed, size)
    name = f"random-{seed}-{size}"
    facts = home / f"{name}.json"
    found = found_dataset(facts)
    if found is None:
        say(f"making {name}: {table.said}")
        directory = home / name
        shutil.rmtree(directory, ignore_errors=True)
        found = kept_dataset(facts, name, directory, tuple(map(str, make_table(table, directory))))
    return table, found


def make_table(table: DrawnTable, directory: Path) -> list[Path]:
    """Write a table and its metadata; returns its files."""
    schema = schema_of({column.name: _type(column) for column in table.columns})
    mapping = json.dumps([{"field-id": field["id"], "names": [field["name"]]} for field in schema["fields"]])
    made = HandmadeTable(directory, schema, properties={_NAME_MAPPING: mapping})
    paths = write_files(table, made.data)
    made.snapshot(1, [made.manifest(1, [made.parquet_file(path) for path in paths])])
    made.finish()
    return paths


def _type(column: DrawnColumn) -> str:
    if column.kind in INTEGERS:
        return "long" if column.kind == "int64" else "int"
    if column.kind == "decimal":
        return f"decimal({column.precision},2)"
    names = {"short": "string", "medium": "string", "long": "string", "fixed": f"fixed[{column.lengths[1]}]"}
    return names.get(column.kind, column.kind)
