"""
Iceberg tables that pyiceberg writes and loads, with statistics that other engines left.

What Trino 476 writes was measured with Trino itself (``make test-engines``): it copies every blob of the footer that it
does not compute anew, bytes and properties and snapshot id alike, and lists all of them in the entry; its own blobs
have ``ndv`` for their only property. Presto's file is the one in ``fixtures/engines``.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from puffin.format import CREATED_BY, THETA_V1, Blob, PuffinReader, PuffinWriter, RawBlob
from puffin.load import load_table
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.damage import PRESTOS
from puffin.storage import LocalStore
from puffin.tables.base import BlobEntry, StatisticsEntry
from puffin.tables.state import TableState
from stats_jobs import Options, analyze
from tests.foretold import analyze_as_foretold
from tests.statistics.made_rows import numbers

FIXTURES = Path(__file__).parents[2] / "fixtures"
TRINO, PRESTO = "Trino version 476", "presto-0.287-b8952fa"


class SharedTable:
    """
    A table of a SQL catalog that pyiceberg and we share.

    Attributes:
        name: As ``puffin.load_table`` takes it, with ``catalog`` and ``properties``.
    """

    def __init__(self, catalog: Any, properties: Mapping[str, str], name: str) -> None:
        self.catalog, self.properties, self.name = catalog, dict(properties), name

    @property
    def table(self) -> Any:
        """The table as our own commands open it."""
        return load_table(self.name, catalog="beside", catalog_properties=self.properties)

    @property
    def state(self) -> TableState:
        return self.table.open().state

    @property
    def entry(self) -> StatisticsEntry:
        """Return the entry of the current snapshot."""
        state = self.state
        assert state.current_snapshot_id is not None
        return state.statistics[state.current_snapshot_id]

    @property
    def entry_of_parent(self) -> StatisticsEntry:
        """Return the entry of the snapshot before the current one."""
        state = self.state
        assert state.current_snapshot_id is not None
        parent = state.snapshot(state.current_snapshot_id).parent_id
        assert parent is not None
        return state.statistics[parent]

    @property
    def private(self) -> Path:
        """Return the default home of the table's private state."""
        return Path(self.state.location.removeprefix("file://")) / "_puffin_sidecar"

    def load(self) -> Any:
        """
        Return the table as pyiceberg loads it; loading fails if an entry lists a blob type that pyiceberg does not
        know.
        """
        return self.catalog.load_table(self.name)

    def append(self, rows: pa.Table) -> None:
        self.load().append(rows)

    def delete(self, where: str) -> None:
        self.load().delete(where)

    def analyze(self, **options: Any) -> Any:
        return analyze(self.table, Options(**options))

    def check(self) -> Any:
        """
        Run `auto`, and check that it reads what its status said and equals `full`, and that other engines can load
        every statistics file.
        """
        report = analyze_as_foretold(self.table)
        full = self.analyze(mode="full", dry_run=True)
        assert [(c.column.name, c.distinct) for c in report.columns] == [
            (c.column.name, c.distinct) for c in full.columns
        ]
        self.load()
        for entry in self.state.statistics.values():
            listed = [(b.type, b.fields, b.snapshot_id, dict(b.properties)) for b in entry.blobs]
            with LocalStore().open_source(entry.statistics_path) as source:
                blobs = PuffinReader(source, file_size=entry.file_size_in_bytes).file_metadata.blobs
            stored = [(b.type, b.fields, b.snapshot_id, dict(b.properties)) for b in blobs]
            # Entries of very many columns leave the other properties to the file.
            pairs = zip(listed, stored, strict=True)
            assert [(*blob, {**(of if "sidecar" in p else {}), **p}) for (*blob, p), (*_, of) in pairs] == stored
            assert all(type_ == THETA_V1 and len(fields) == 1 for type_, fields, *_ in listed)
        return report

    def replace(self, created_by: str, blobs: Sequence[Blob | RawBlob], snapshot_id: int | None = None) -> None:
        """Commit a file of these blobs for a snapshot and list all of them, as another engine does."""
        opened = self.table.open()
        snapshot_id = snapshot_id or opened.state.current_snapshot_id
        assert snapshot_id is not None
        file = opened.new_statistics_file(snapshot_id)
        path = file.path
        with LocalStore().create(path) as sink:
            writer = PuffinWriter(sink, properties={CREATED_BY: created_by, **file.properties})
            for blob in blobs:
                _ = writer.add(blob) if isinstance(blob, Blob) else writer.copy(blob)
            written = writer.finish()
        listed = tuple(
            BlobEntry(b.type, b.snapshot_id, b.sequence_number, b.fields, b.properties) for b in written.blobs
        )
        entry = StatisticsEntry(snapshot_id, path, written.file_size, written.footer_size, listed)
        opened.commit(entry)

    def stored(self, snapshot_id: int | None = None) -> list[RawBlob]:
        """Return the blobs of a snapshot's file, as they are stored."""
        return self.stored_in(self.entry if snapshot_id is None else self.state.statistics[snapshot_id])

    def stored_in(self, entry: StatisticsEntry) -> list[RawBlob]:
        """Return the blobs of an entry's file, as they are stored."""
        with LocalStore().open_source(entry.statistics_path) as source:
            return PuffinReader(source).read_all_raw()

    def list_sizes_of_presto(self, *snapshot_ids: int) -> None:
        """Put a blob of a type that only Presto knows into the files and entries of these snapshots."""
        for snapshot_id in snapshot_ids:
            described = {"fields": (1,), "snapshot_id": snapshot_id, "sequence_number": 1}
            size = Blob(type=PRESTOS[0], payload=b"8", **described)
            self.replace(PRESTO, [*self.stored(snapshot_id), size], snapshot_id)


class OwnDeltaTable(SharedTable):
    """A Delta table, which nobody but us gives statistics."""

    def __init__(self, directory: Path) -> None:
        self.name = str(directory)

    @property
    def table(self) -> Any:
        return load_table(self.name)

    def load(self) -> Any:
        return DeltaTable(self.name)

    def append(self, rows: pa.Table) -> None:
        write_deltalake(self.name, rows, mode="append")


def theta(values: Any, type_: str, field_id: int, snapshot_id: int, properties: Mapping[str, str]) -> Blob:
    sketch = ThetaSketch.from_arrow(values, type_)
    return Blob(
        type=THETA_V1,
        fields=(field_id,),
        snapshot_id=snapshot_id,
        sequence_number=1,
        payload=sketch.to_bytes(),
        compression_codec="zstd",
        properties={"ndv": str(sketch.ndv), **properties},
    )


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Callable[..., SharedTable]]:
    """Creates a table of these rows, committed by pyiceberg."""
    from pyiceberg.catalog.sql import SqlCatalog

    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    catalog = SqlCatalog("beside", **properties)
    catalog.create_namespace("db")

    def create(name: str, rows: pa.Table, **table_properties: str) -> SharedTable:
        created = SharedTable(catalog, properties, f"db.{name}")
        table = catalog.create_table(created.name, rows.schema, properties=table_properties)
        table.append(rows)
        return created

    yield create
    catalog.close()


@pytest.fixture
def table(shared: Callable[..., SharedTable]) -> SharedTable:
    """A table of the numbers below 100, analyzed."""
    made = shared("t", numbers(*range(100)))
    made.analyze()
    return made


@pytest.fixture
def delta(tmp_path: Path) -> Callable[[pa.Table], OwnDeltaTable]:
    """Creates a Delta table of these rows."""

    def create(rows: pa.Table) -> OwnDeltaTable:
        made = OwnDeltaTable(tmp_path / "delta")
        made.append(rows)
        return made

    return create


@pytest.fixture
def trino_analyzes() -> Callable[..., None]:
    """Run ``ANALYZE`` of some columns or all: compute these anew and copy everything else."""

    def run(shared: SharedTable, values: Mapping[str, Collection[int]]) -> None:
        state = shared.state
        ids = {column.name: column.field_id for column in state.columns}
        anew = {(ids[name],) for name in values}
        kept = [raw for raw in shared.stored() if not (raw.metadata.type == THETA_V1 and raw.metadata.fields in anew)]
        assert state.current_snapshot_id is not None
        fresh = [
            theta(pa.array(list(v), pa.int64()), "long", ids[name], state.current_snapshot_id, {})
            for name, v in values.items()
        ]
        shared.replace(TRINO, [*kept, *fresh])

    return run


@pytest.fixture(scope="session")
def presto_rows() -> Callable[[range], pa.Table]:
    """Return rows k of the table that Presto analyzed, by the recipe in the README of ``fixtures/engines``."""

    def rows(keys: range) -> pa.Table:
        epoch = datetime.datetime(1969, 12, 31, 23, 59, 59, 123_000)
        columns = {
            "b": pa.array([k % 2 == 0 for k in keys]),
            "i": pa.array([k * 7 - 3000 for k in keys], pa.int32()),
            "l": pa.array([k * 12345678901 for k in keys], pa.int64()),
            "r": pa.array([k / 3 for k in keys], pa.float32()),
            "d": pa.array([k / 3 for k in keys], pa.float64()),
            "ds": pa.array([decimal.Decimal(k - 500) / 4 for k in keys], pa.decimal128(9, 2)),
            "dl": pa.array([(k - 500) * decimal.Decimal("123.8912") for k in keys], pa.decimal128(38, 10)),
            "dt": pa.array([k - 500 for k in keys], pa.int32()).cast(pa.date32()),
            "ts": pa.array([epoch + datetime.timedelta(hours=(k - 500) * 3) for k in keys], pa.timestamp("us")),
            "s": pa.array(["" if k == 1 else f"value {k}" for k in keys]),
            "vb": pa.array([hashlib.sha1(str(k).encode(), usedforsecurity=False).digest() for k in keys]),
        }
        return pa.table(columns)

    return rows


@pytest.fixture
def presto_analyzes() -> Callable[[SharedTable], None]:
    """Store Presto's own blobs of the first thousand rows as the statistics of the table's current snapshot."""

    def run(shared: SharedTable) -> None:
        snapshot_id = shared.state.current_snapshot_id
        assert snapshot_id is not None
        reader = PuffinReader((FIXTURES / "engines" / "presto-0.287-1000-rows.stats").read_bytes())
        moved = [
            dataclasses.replace(raw, metadata=dataclasses.replace(raw.metadata, snapshot_id=snapshot_id))
            for raw in reader.read_all_raw()
            if raw.metadata.fields[0] <= 11
        ]
        shared.replace(reader.file_metadata.properties[CREATED_BY], moved)

    return run
