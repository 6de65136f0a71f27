"""
Small tables that are committed to as engines do it: Iceberg directories and Delta logs, with statistics files of ours.

They have metadata and no data: a lookup never opens a data file, and neither does a commit of statistics. The number of
distinct values tells by itself which analysis a table's statistics are of: each finds one more than the one before.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.handmade import schema_of
from puffin.load import load_table
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.assemble import ColumnStatistics
from puffin.statistics.draft import FileOptions, StatisticsDraft
from puffin.statistics.kinds import THETA
from puffin.storage import LocalStore
from puffin.tables.commit import commit_statistics

COLUMN = "id"
FIRST_NDV = 100  # of the first analysis

_KEPT_SNAPSHOTS = 2
_KEPT_VERSIONS = 3  # of Iceberg's metadata
_STORE = LocalStore()


class SoakTable(ABC):
    """
    A table in a directory of its own.

    Attributes:
        analyses: How many there were.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.analyses = 0

    @abstractmethod
    def create(self) -> None:
        """Make the table, without a snapshot."""

    @abstractmethod
    def add_snapshot(self) -> None:
        """Commit what an engine commits when it adds rows."""

    @abstractmethod
    def expire(self) -> None:
        """Drop old snapshots and delete their files at once, even while readers have them open."""

    def analyze(self) -> None:
        """Give the current snapshot statistics, through the commit that the job uses."""
        table = load_table(str(self.directory))
        opened = table.open()
        if opened.is_empty:
            raise SystemExit(f"{self.directory}: expected a snapshot to analyze, found none")
        values = pa.array(range(FIRST_NDV + self.analyses), pa.int64())
        (column,) = opened.state.columns
        statistics = [ColumnStatistics(column, {THETA: ThetaSketch.from_arrow(values, column.type)})]
        draft = StatisticsDraft(opened, statistics, FileOptions())
        commit_statistics(table, draft)
        self.analyses += 1


class IcebergSoakTable(SoakTable):
    """An Iceberg table of the file system."""

    def create(self) -> None:
        """Write its first version."""
        self._write(
            1,
            {
                "format-version": 2,
                "table-uuid": str(uuid.uuid4()),
                "location": str(self.directory),
                "last-sequence-number": 0,
                "last-updated-ms": _now_ms(),
                "last-column-id": 1,
                "current-schema-id": 0,
                "schemas": [{**schema_of({COLUMN: "long"}), "schema-id": 0}],
                "default-spec-id": 0,
                "partition-specs": [{"spec-id": 0, "fields": []}],
                "last-partition-id": 999,
                "default-sort-order-id": 0,
                "sort-orders": [{"order-id": 0, "fields": []}],
                "snapshots": [],
                "statistics": [],
            },
        )

    def add_snapshot(self) -> None:
        """Write a version with one more snapshot."""
        version, document = self._read()
        number = document["last-sequence-number"] + 1
        snapshot = {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": _now_ms(),
            "manifest-list": f"{self.directory}/metadata/snap-{number}.avro",
            "summary": {"operation": "append", "added-records": "1"},
            "schema-id": 0,
        }
        if number > 1:
            snapshot["parent-snapshot-id"] = number - 1
        document["snapshots"].append(snapshot)
        self._write(version + 1, {**document, "last-sequence-number": number, "current-snapshot-id": number})

    def expire(self) -> None:
        """Write a version with the last snapshots alone; then delete the statistics of the others, and old versions."""
        version, document = self._read()
        snapshots = document["snapshots"][-_KEPT_SNAPSHOTS:]
        kept = {snapshot["snapshot-id"] for snapshot in snapshots}
        statistics = [entry for entry in document["statistics"] if entry["snapshot-id"] in kept]
        self._write(version + 1, {**document, "snapshots": snapshots, "statistics": statistics})
        referred = {entry["statistics-path"] for entry in statistics}
        _delete(path for path in self._metadata.glob("*.stats") if str(path) not in referred)
        versions = ((self._version(path), path) for path in self._metadata.glob("v*.metadata.json"))
        _delete(path for number, path in versions if number <= version + 1 - _KEPT_VERSIONS)

    @property
    def _metadata(self) -> Path:
        return self.directory / "metadata"

    def _read(self) -> tuple[int, dict[str, Any]]:
        version = int((self._metadata / "version-hint.text").read_text())
        return version, json.loads((self._metadata / f"v{version}.metadata.json").read_bytes())

    def _write(self, version: int, document: dict[str, Any]) -> None:
        _STORE.put_if_absent(f"{self._metadata}/v{version}.metadata.json", json.dumps(document).encode())
        _STORE.replace(f"{self._metadata}/version-hint.text", str(version).encode())

    @staticmethod
    def _version(path: Path) -> int:
        return int(path.name.partition(".")[0].removeprefix("v"))


class DeltaSoakTable(SoakTable):
    """A Delta table."""

    def create(self) -> None:
        """Write the first entry of its log."""
        schema = {"type": "struct", "fields": [{"name": COLUMN, "type": "long", "nullable": True, "metadata": {}}]}
        metadata = {
            "id": self.directory.name,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(schema),
            "partitionColumns": [],
            "configuration": {},
        }
        self._append(0, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata})

    def add_snapshot(self) -> None:
        """Append an entry that adds a file."""
        version = self._newest() + 1
        file = {
            "path": f"part-{version}.parquet",
            "partitionValues": {},
            "size": 1000,
            "modificationTime": _now_ms(),
            "dataChange": True,
        }
        self._append(version, {"add": file})

    def expire(self) -> None:
        """Delete the statistics of all versions but the last; of the one before, a reader may have just found them."""
        versions = {int(path.name.partition("-")[0]) for path in self._log.glob("_puffin_sidecar/*.stats")}
        for version in sorted(versions)[:-_KEPT_SNAPSHOTS]:
            _delete(self._log.glob(f"_puffin_sidecar/{version}-*"))

    @property
    def _log(self) -> Path:
        return self.directory / "_delta_log"

    def _newest(self) -> int:
        return max(int(path.stem) for path in self._log.glob("*.json"))

    def _append(self, version: int, *actions: dict[str, Any]) -> None:
        told = {"commitInfo": {"timestamp": _now_ms(), "operation": "WRITE"}}
        data = "".join(f"{json.dumps(action)}\n" for action in (told, *actions))
        _STORE.put_if_absent(f"{self._log}/{version:020d}.json", data.encode())


def make_tables(root: Path, count: int) -> list[SoakTable]:
    """So many analyzed tables below a directory; one in ten is a Delta table."""
    tables: list[SoakTable] = []
    for number in range(count):
        kind = DeltaSoakTable if number % 10 == 9 else IcebergSoakTable
        table = kind(root / f"t{number:04d}")
        table.create()
        table.add_snapshot()
        table.analyze()
        tables.append(table)
    return tables


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _delete(paths: Iterable[Path]) -> None:
    for path in list(paths):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
