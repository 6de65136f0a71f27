"""A table on S3 whose distinct values are known, and what statistics say of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

COLUMNS = tuple("abcd")
QUICK = {
    "commit.retry.num-retries": "100",
    "commit.retry.min-wait-ms": "10",
    "commit.retry.max-wait-ms": "200",
    "commit.status-check.num-retries": "1",
    "commit.status-check.min-wait-ms": "10",
}


def rows(start: int, stop: int) -> pa.Table:
    """Columns of integers; each has half the distinct values of the previous one."""
    return pa.table({c: pa.array([i // 2**n for i in range(start, stop)], pa.int64()) for n, c in enumerate(COLUMNS)})


class IcebergTable:
    """
    A table of two snapshots to come, in a SQL catalog whose warehouse is on S3.

    Attributes:
        properties: With which the catalog is opened.
        location: The table's directory.
        prefix: The same without the scheme.
    """

    def __init__(self, s3, place: str, database: Path, version: int = 2) -> None:
        self._s3 = s3
        self._version = version
        uri = f"sqlite:///{database}"
        self.properties = {"type": "sql", "uri": uri, "warehouse": f"s3://{place}", **s3.io_properties}
        self.catalog = SqlCatalog("lake", **self.properties)
        self.catalog.create_namespace("db")
        written = {**QUICK, "format-version": str(min(version, 2))}
        self._table = self.catalog.create_table("db.t", rows(0, 1).schema, properties=written)
        self.location = self._table.location()
        self.prefix = self.location.removeprefix("s3://")
        self._versions = 0

    def append(self, start: int, stop: int) -> None:
        self._table.refresh()
        self._table.append(rows(start, stop))

    def publish(self) -> None:
        """Make the catalog's version the next one of a table without a catalog, with that table's statistics."""
        document = self._read(self._table.metadata_location)
        if self._versions:
            document["statistics"] = self.published["statistics"]
        if self._version == 3:  # which pyiceberg does not write
            document |= {"format-version": 3, "next-row-id": 0}
        self._versions = len(self.versions()) + 1
        self._write(f"v{self._versions}.metadata.json", json.dumps(document).encode())
        self._write("version-hint.text", str(self._versions).encode())

    def versions(self) -> list[str]:
        """Return the names of all versions in the directory."""
        names = (name.removeprefix("metadata/") for name in self.names())
        return sorted(name for name in names if name.startswith("v") and name.endswith(".metadata.json"))

    @property
    def published(self) -> dict[str, Any]:
        """Return the document of the newest version."""
        return self._read(f"{self.location}/metadata/v{len(self.versions())}.metadata.json")

    def names(self) -> list[str]:
        return self._s3.names(self.prefix)

    def files(self) -> dict[str, bytes]:
        return self._s3.files(self.prefix)

    def read(self, name: str) -> bytes:
        return self._s3.read(f"{self.prefix}/{name}")

    def _read(self, location: str) -> dict[str, Any]:
        return json.loads(self.read(location.removeprefix(f"{self.location}/")))

    def _write(self, name: str, data: bytes) -> None:
        with self._s3.filesystem().open_output_stream(f"{self.prefix}/metadata/{name}") as stream:
            stream.write(data)


def distinct(columns) -> dict[str, tuple[int | None, str]]:
    return {column.column.name: (column.ndv, column.source) for column in columns}


def expected(count: int) -> dict[str, tuple[int, str]]:
    """The expected answers, all exact: no column has more values than a sketch holds."""
    return {column: (-(-count // 2**n), "snapshot") for n, column in enumerate(COLUMNS)}
