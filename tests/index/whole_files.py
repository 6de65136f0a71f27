"""
Every row of every data file of a table, read with fastavro, pyarrow and JSON alone: our code does not judge itself.

Rows have values by field id, dates and times as counts of days and microseconds. A file's rows are all that it was
written with, deleted ones too: filters and bounds of a file are those of all its rows.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests.planning.random_filters import Leaf, Row

RowsOfFiles: TypeAlias = Mapping[str, Sequence[Row]]
"""Rows by the path of their file, as metadata has it."""

FIELD_ID = b"PARQUET:field_id"
DELETED, DATA = 2, 0  # of an entry in a manifest; of a manifest
ICEBERG_TYPES = {"integer": "int", "timestamp": "timestamptz", "timestamp_ntz": "timestamp"}


class IcebergFiles:
    """The data files of a table in a directory."""

    def __init__(self, root: Path) -> None:
        self._metadata = root / "metadata"
        self._rows: dict[str, list[Row]] = {}

    def leaves(self) -> list[Leaf]:
        """The columns as they are now."""
        document = self._document()
        (schema,) = (s for s in document["schemas"] if s["schema-id"] == document["current-schema-id"])
        return list(_leaves(schema["fields"]))

    def rows(self, ref: str | None = None) -> RowsOfFiles:
        """The rows of the files of the current snapshot, or of that of a branch."""
        document = self._document()
        now = document["refs"][ref]["snapshot-id"] if ref else document["current-snapshot-id"]
        (snapshot,) = (s for s in document["snapshots"] if s["snapshot-id"] == now)
        manifests = [each["manifest_path"] for each in _records(snapshot["manifest-list"]) if each["content"] == DATA]
        entries = itertools.chain.from_iterable(map(_records, manifests))
        paths = [each["data_file"]["file_path"] for each in entries if each["status"] != DELETED]
        for path in paths:
            if path not in self._rows:
                self._rows[path] = _rows_of(path, _field_id)
        return {path: self._rows[path] for path in paths}

    def _document(self) -> dict[str, Any]:
        version = (self._metadata / "version-hint.text").read_text().strip()
        return json.loads((self._metadata / f"v{version}.metadata.json").read_text())


class DeltaFiles:
    """The data files of a table whose whole log is there as JSON."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ids: dict[str, int] = {}
        self._rows: dict[str, list[Row]] = {}

    def leaves(self) -> list[Leaf]:
        """The columns as they are now; their ids are made up, one for each name that files have."""
        return [Leaf(self._id(_name_in_files(f)), f["name"], _iceberg_type(f["type"])) for f in self._fields()]

    def rows(self) -> RowsOfFiles:
        """The rows of the files of the newest version."""
        live: dict[str, Any] = {}
        for action in self._actions():
            if "add" in action:
                live[action["add"]["path"]] = action["add"]
            live.pop(action.get("remove", {}).get("path"), None)
        types = {_name_in_files(field): field["type"] for field in self._fields()}
        found = {}
        for path, add in live.items():
            if path not in self._rows:
                self._rows[path] = _rows_of(self._root / unquote(path), lambda field: self._id(field.name))
            said = add["partitionValues"]
            constant = {self._id(name): _from_text(types[name], text) for name, text in said.items()}
            found[f"{self._root}/{unquote(path)}"] = [{**row, **constant} for row in self._rows[path]]
        return found

    def _fields(self) -> list[dict[str, Any]]:
        (*_, metadata) = (action["metaData"] for action in self._actions() if "metaData" in action)
        return json.loads(metadata["schemaString"])["fields"]

    def _actions(self) -> Iterator[dict[str, Any]]:
        for entry in sorted((self._root / "_delta_log").glob(f"{'[0-9]' * 20}.json")):
            yield from map(json.loads, entry.read_text().splitlines())

    def _id(self, name: str) -> int:
        return self._ids.setdefault(name, len(self._ids) + 1)


def _leaves(fields: Iterable[Mapping[str, Any]], prefix: str = "") -> Iterator[Leaf]:
    for field in fields:
        name, type_ = prefix + field["name"], field["type"]
        if isinstance(type_, str):
            yield Leaf(field["id"], name, type_)
        elif type_["type"] == "struct":
            yield from _leaves(type_["fields"], f"{name}.")


def _records(path: str) -> list[Any]:
    with Path(path.removeprefix("file:")).open("rb") as file:
        return list(fastavro.reader(file))


def _field_id(field: pa.Field) -> int:
    return int(field.metadata[FIELD_ID])


def _rows_of(path: str | Path, key_of: Callable[[pa.Field], int]) -> list[Row]:
    with pq.ParquetFile(str(path).removeprefix("file:")) as file:
        columns = dict(_columns(file.read(), key_of))
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _columns(table: pa.Table, key_of: Callable[[pa.Field], int]) -> Iterator[tuple[int, list[Any]]]:
    for field, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_struct(field.type):
            parts = pa.Table.from_arrays(column.combine_chunks().flatten(), schema=pa.schema(list(field.type)))
            yield from _columns(parts, key_of)
        else:
            yield key_of(field), _plain(column).to_pylist()


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date(column.type) else column


def _name_in_files(field: Mapping[str, Any]) -> str:
    return field["metadata"].get("delta.columnMapping.physicalName", field["name"])


def _iceberg_type(type_: str) -> str:
    return ICEBERG_TYPES.get(type_, type_.replace(",", ", "))


def _from_text(type_: str, text: str | None) -> Any:
    """A partition value; those of the tests are numbers."""
    assert type_ in ("integer", "long"), type_
    return None if text is None else int(text)
