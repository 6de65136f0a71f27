"""Tables in memory with real statistics files, and a count of the reads."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from puffin.format import PARTITION_SKETCHES_V1, THETA_V1, Blob, PuffinWriter, WrittenFile
from puffin.iceberg.metadata.document import parse_state
from puffin.iceberg.table import IcebergSnapshot
from puffin.sketches.partition_sketches import PartitionSketchesBuilder
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.kinds import PARTITION_SKETCHES, THETA, to_properties
from puffin.statistics.private_state.manifest import BlobKey, Manifest, Part, StoredKey, encode
from puffin.storage import FileSource, LocalStore
from puffin.tables.base import SnapshotSelector
from puffin.tables.snapshot import CURRENT
from puffin.values.partition_tuples import PartitionKey

TABLE_UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"  # of `table_document`


class CountingStore(LocalStore):
    """Records every opened file and every range that is read."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.reads: list[tuple[int, int]] = []

    def open_source(self, uri: str) -> FileSource:
        source = super().open_source(uri)
        self.opened.append(uri)
        read_at = source.read_at

        def counted(offset: int, length: int) -> bytes:
            self.reads.append((offset, length))
            return read_at(offset, length)

        source.read_at = counted
        return source


class LookedUpTable:
    """A table made of a metadata document."""

    name = "t"

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.files = CountingStore()

    def open(self, selector: SnapshotSelector = CURRENT) -> IcebergSnapshot:
        return IcebergSnapshot(
            name=self.name,
            state=parse_state(self.document, "v1.metadata.json"),
            selector=selector,
            store_for=lambda uri: self.files,  # noqa: ARG005
            io_properties={},
            table=self,
        )

    def refresh(self, opened: IcebergSnapshot, selector: SnapshotSelector) -> IcebergSnapshot:
        return opened.of(selector)


def described(field_id: int, snapshot_id: int, **properties: str) -> dict[str, Any]:
    """A theta blob as table metadata lists it; keywords use underscores and leave out the prefix."""
    return {
        "type": THETA_V1,
        "snapshot-id": snapshot_id,
        "sequence-number": 1,
        "fields": [field_id],
        "properties": properties,
    }


def entry_json(
    snapshot_id: int, path: Path, written: WrittenFile, blobs: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The entry of a written statistics file, with these of its blobs."""
    return {
        "snapshot-id": snapshot_id,
        "statistics-path": str(path),
        "file-size-in-bytes": written.file_size,
        "file-footer-size-in-bytes": written.footer_size,
        "blob-metadata": list(blobs),
    }


@pytest.fixture
def entry_of(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """
    Makes the entry of a snapshot: ndv by field id, each of that snapshot or the one given with it.

    There is no file, since a lookup that has the ndv opens none.
    """

    def make(snapshot_id: int, ndv: Mapping[int, Any]) -> dict[str, Any]:
        blobs = []
        for field_id, said in ndv.items():
            value, computed_from = said if isinstance(said, tuple) else (said, snapshot_id)
            blobs.append(described(field_id, computed_from, **({} if value is None else {"ndv": str(value)})))
        return {
            "snapshot-id": snapshot_id,
            "statistics-path": f"{tmp_path}/{snapshot_id}.stats",
            "file-size-in-bytes": 100,
            "file-footer-size-in-bytes": 50,
            "blob-metadata": blobs,
        }

    return make


@pytest.fixture
def sketched(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Makes a snapshot's entry with a real file; each field has a sketch of so many values and no ndv."""

    def make(snapshot_id: int, sizes: Mapping[int, int], *, listed: Sequence[int] | None = None) -> dict[str, Any]:
        path = tmp_path / f"{snapshot_id}.stats"
        with path.open("wb") as file:
            writer = PuffinWriter(file, properties={"created-by": "Trino version 476"})
            for field_id, size in sizes.items():
                sketch = ThetaSketch.from_arrow(pa.array(range(size), pa.int64()), "long")
                writer.add(
                    Blob(
                        type=THETA_V1,
                        fields=(field_id,),
                        snapshot_id=snapshot_id,
                        sequence_number=1,
                        payload=sketch.to_bytes(),
                        compression_codec="zstd",
                    )
                )
            written = writer.finish()
        blobs = [described(field_id, snapshot_id) for field_id in listed or sizes]
        return entry_json(snapshot_id, path, written, blobs)

    return make


@pytest.fixture
def by_partition(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """
    Makes a snapshot's entry with real files: by field id and partition key, the values of each partition.

    Each field has its sketch and its partition sketches, of that snapshot or of another one that is given.
    """

    def make(
        snapshot_id: int, values: Mapping[int, Mapping[PartitionKey, range]], *, of: int | None = None
    ) -> dict[str, Any]:
        path, part = tmp_path / f"{snapshot_id}.stats", Part(str(uuid.uuid4()), 0, 0)
        home = tmp_path / "home" / TABLE_UUID
        stored = home / "parts" / part.id / "version-hint.text"
        stored.parent.mkdir(parents=True)
        place = {"snapshot_id": snapshot_id if of is None else of, "sequence_number": 1}
        listed = []
        with path.open("wb") as file, stored.open("wb") as private:
            writer, beside = PuffinWriter(file), PuffinWriter(private)
            for field_id, partitions in values.items():
                everything = pa.array([value for each in partitions.values() for value in each], pa.int64())
                sketch = ThetaSketch.from_arrow(everything, "long")
                builder = PartitionSketchesBuilder(9)
                for key, each in partitions.items():
                    of_partition = ThetaSketch.from_arrow(pa.array(each, pa.int64()), "long", 9)
                    builder.add(key, of_partition.theta, of_partition.hashes)
                properties = to_properties({THETA: sketch, PARTITION_SKETCHES: builder.compact()}, "long")
                properties["puffin-sidecar.home"] = str(tmp_path / "home")
                fields = (field_id,)
                writer.add(
                    Blob(type=THETA_V1, fields=fields, payload=sketch.to_bytes(), properties=properties, **place)
                )
                payload = builder.compact().to_bytes()
                beside.add(
                    Blob(type=PARTITION_SKETCHES_V1, fields=fields, payload=payload, compression_codec="zstd", **place)
                )
                listed.append({**described(field_id, place["snapshot_id"]), "properties": properties})
            written, written_beside = writer.finish(), beside.finish()
        part = Part(part.id, written_beside.file_size, written_beside.footer_size)
        keys = (BlobKey(PARTITION_SKETCHES_V1, field_id, place["snapshot_id"]) for field_id in values)
        blobs = {key: StoredKey(part, key.snapshot_id) for key in keys}
        (home / path.name).write_bytes(encode(Manifest(TABLE_UUID, path.name, written.file_size, blobs)))
        return {**entry_json(snapshot_id, path, written, listed), "part": str(stored)}

    return make


@pytest.fixture
def table_of(table_document: Callable[..., dict[str, Any]]) -> Callable[..., LookedUpTable]:
    """Makes a table with these statistics; other keywords are those of ``table_document``."""
    return lambda *entries, **options: LookedUpTable(table_document("s3://b/t", statistics=entries, **options))


class TableDirectory:
    """A file-system table with hand-written versions."""

    def __init__(self, root: Path, document: Callable[..., dict[str, Any]]) -> None:
        self.root = root
        self._document = document
        self.version = 0
        (root / "metadata").mkdir(parents=True)

    def __str__(self) -> str:
        return str(self.root)

    def commit(self, *entries: Mapping[str, Any], **options: Any) -> None:
        """Write the next version with these statistics; keywords are those of ``table_document``."""
        self.version += 1
        data = json.dumps(self._document(self.root, statistics=entries, **options))
        hint, new = self.root / "metadata" / "version-hint.text", self.root / "metadata" / "new"
        new.write_text(data)
        new.replace(self.root / "metadata" / f"v{self.version}.metadata.json")
        new.write_text(str(self.version))
        new.replace(hint)


@pytest.fixture
def directory(tmp_path: Path, table_document: Callable[..., dict[str, Any]]) -> Callable[..., TableDirectory]:
    """Makes a file-system table by name, with these statistics; keywords are those of ``table_document``."""

    def make(name: str, *entries: Mapping[str, Any], **options: Any) -> TableDirectory:
        table = TableDirectory(tmp_path / name, table_document)
        table.commit(*entries, **options)
        return table

    return make
