"""
The tables of ``make soak-autopilot``: Delta tables below a root, and Iceberg tables in catalogs of several kinds.

An append adds a thousandth of a table's rows. A delete takes a few rows: from an Iceberg table with position deletes,
from a Delta table by rewriting one of its files, as delta-rs does.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestWriter, ManifestWriterV2
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record

from tools.catalogs import running_glue_process, running_hive_metastore, running_rest_catalog
from tools.jars import jars

DELTA = "delta"
KINDS = (DELTA, "sql", "rest", "hive", "glue")
POISONED = "poisoned"
_DELETED_ROWS = 3
_FILES = 20  # of a table to begin with, about
_DELETES_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


class Lake:
    """The tables of a soak, and their writers; ``names`` begin with the kind of catalog: ``hive.n.t3``."""

    def __init__(self, root: Path, catalogs: Mapping[str, Mapping[str, str]]) -> None:
        self.root = root
        self.names: list[str] = []
        self._properties = catalogs
        self._catalogs: dict[str, Catalog] = {kind: load_catalog(kind, **found) for kind, found in catalogs.items()}
        self._rows: dict[str, int] = {}
        self._files: dict[str, str] = {}
        self._deleted: dict[str, int] = {}
        for kind, catalog in self._catalogs.items():
            where = {"location": f"{self._properties[kind]['warehouse']}/n.db"} if kind in ("hive", "glue") else {}
            catalog.create_namespace("n", where)

    def fill(self, tables: int, rows: int) -> None:
        """Make so many tables of so many rows, of one kind after the other, and one that cannot be read."""
        kinds = [DELTA, *self._catalogs]
        for number in range(tables):
            kind = kinds[number % len(kinds)]
            name = f"{kind}.n.t{number}"
            if kind == DELTA:
                for part in range(_FILES):
                    self._append(name, self._new_rows(rows // _FILES, part * (rows // _FILES)))
            else:
                new = self._new_rows(rows, 0)
                properties = {"write.target-file-size-bytes": str(new.nbytes // _FILES)}
                self._catalogs[kind].create_table(_table(name), new.schema, properties=properties).append(new)
            self._rows[name] = rows
            self.names.append(name)
        self._append(f"{DELTA}.n.{POISONED}", self._new_rows(10, 0))
        for file in (self.root / "lake/n" / POISONED).glob("*.parquet"):
            file.write_bytes(b"PAR1 poison PAR1")

    def policy(self, rules: str) -> str:
        """The part of a policy that names the places, with these rules."""
        found = [{"name": kind, "properties": dict(of)} for kind, of in self._properties.items()]
        return f"{yaml.safe_dump({'roots': ['lake'], 'catalogs': found} if found else {'roots': ['lake']})}{rules}"

    def change(self, name: str, *, deletes: bool) -> None:
        """Append to a table, or delete a few of its rows."""
        if deletes:
            self._delete(name)
        else:
            self._append(name, self._new_rows(max(1, self._rows[name] // 1000), random.getrandbits(40)))

    @contextlib.contextmanager
    def sql_outage(self) -> Iterator[None]:
        """Keep the SQL catalog from answering in the block."""
        lock = sqlite3.connect(self.root / "catalog.db", isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
        try:
            yield
        finally:
            lock.execute("ROLLBACK")
            lock.close()

    def _append(self, name: str, rows: pa.Table) -> None:
        kind = name.partition(".")[0]
        if kind == DELTA:
            write_deltalake(self._path(name), rows, mode="append")
        else:
            self._catalogs[kind].load_table(_table(name)).append(rows)

    def _delete(self, name: str) -> None:
        kind, first = name.partition(".")[0], self._deleted.get(name, 0)
        self._deleted[name] = first + _DELETED_ROWS
        if kind == DELTA:
            DeltaTable(self._path(name)).delete(f"k >= {first} and k < {first + _DELETED_ROWS}")
            return
        table = self._catalogs[kind].load_table(_table(name))
        if name not in self._files:
            largest = max((task.file for task in table.scan().plan_files()), key=lambda file: file.record_count)
            self._files[name] = largest.file_path
        _delete_positions(table, self._files[name], range(first, first + _DELETED_ROWS))

    def _path(self, name: str) -> str:
        return str(self.root / "lake" / "n" / name.rpartition(".")[2])

    @staticmethod
    def _new_rows(count: int, first: int) -> pa.Table:
        keys = list(range(first, first + count))
        return pa.table({"k": keys, "s": [f"value {random.getrandbits(40)}" for _ in keys]})


@contextlib.contextmanager
def running_lake(root: Path, kinds: tuple[str, ...]) -> Iterator[Lake]:
    """An empty lake below a directory, with the servers of these kinds of catalog."""
    (root / "lake").mkdir()
    with contextlib.ExitStack() as servers:
        yield Lake(root, {kind: servers.enter_context(_running(kind, root)) for kind in kinds if kind != DELTA})


@contextlib.contextmanager
def _running(kind: str, root: Path) -> Iterator[Mapping[str, str]]:
    directory = root / kind
    directory.mkdir()
    if kind == "sql":
        uri = f"sqlite:///{root}/catalog.db"
        yield {"type": "sql", "uri": uri, "warehouse": directory.as_uri()}
        return
    if kind == "glue":
        with running_glue_process() as properties:
            yield properties
        return
    java_home, log = Path(os.environ["JAVA_HOME"]), directory / "server.log"
    server = (
        running_hive_metastore(java_home, directory, log)
        if kind == "hive"
        else running_rest_catalog(java_home, [*jars("rest-server"), *jars("sqlite")], directory, log)
    )
    with server as properties:
        yield properties


def _table(name: str) -> str:
    return name.partition(".")[2]


class _DeletesWriter(ManifestWriterV2):
    """A manifest of delete files, which pyiceberg does not write."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _AppendDeletes(_FastAppendFiles):
    def new_manifest_writer(self, spec: PartitionSpec) -> ManifestWriter:
        return _DeletesWriter(spec, self.schema(), self.new_manifest_output(), self._snapshot_id, self._compression)


def _delete_positions(table: Table, path: str, positions: range) -> None:
    """Commit a file of position deletes for a data file."""
    location = f"{table.location().rstrip('/')}/data/deletes-{positions.start}-{random.getrandbits(64):x}.parquet"
    rows = pa.table([[path] * len(positions), list(positions)], schema=_DELETES_SCHEMA)
    with table.io.new_output(location).create() as sink:
        pq.write_table(rows, sink)
    deletes = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(positions),
        file_size_in_bytes=len(table.io.new_input(location)),
    )
    deletes.spec_id = table.spec().spec_id
    with table.transaction() as transaction:
        producer: Any = _AppendDeletes(operation=Operation.OVERWRITE, transaction=transaction, io=table.io)
        producer.append_data_file(deletes)
        producer.commit()
