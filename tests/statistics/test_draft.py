"""The statistics file of a run, written for a table that already has statistics."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pytest

from puffin.errors import StorageError
from puffin.format import THETA_V1, Blob, PuffinReader, PuffinWriter
from puffin.format.model import Properties
from puffin.iceberg.metadata.document import parse_state
from puffin.load import load_table
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.storage import LocalStore
from puffin.tables.base import BlobEntry, StatisticsEntry
from puffin.tables.statistics_json import entry_to_json
from tests.table_directory import publish

KLL = "presto-kll-sketch-bytes-v1"
LIST = {"id": 4, "name": "l", "required": False, "type": {"type": "list", "element-id": 5, "element": "long"}}


@pytest.fixture
def table(tmp_path, table_document):
    """A table with the columns a, b and c, and a list l whose elements are field 5."""
    document = table_document(tmp_path)
    document["schemas"][0]["fields"].append(LIST)
    publish(tmp_path, document)
    return load_table(str(tmp_path))


@pytest.fixture
def opened(table):
    return table.open()


@pytest.fixture
def old(tmp_path):
    """Writes a statistics file of another engine: blobs of ``(type, fields)`` or of such with properties."""

    def write(*blobs: Blob) -> StatisticsEntry:
        path = tmp_path / "metadata" / "old.stats"
        with path.open("wb") as file:
            writer = PuffinWriter(file, properties={"created-by": "Trino version 476"})
            for blob in blobs:
                writer.add(blob)
            written = writer.finish()
        entries = tuple(BlobEntry(b.type, b.snapshot_id, b.sequence_number, b.fields, b.properties) for b in blobs)
        return StatisticsEntry(10, str(path), written.file_size, written.footer_size, entries)

    return write


def theta(field_id: int, size: int = 3, codec: str | None = "zstd", **options) -> Blob:
    sketch = ThetaSketch.from_arrow(pa.array(range(size), pa.int64()), "long")
    described = {"snapshot_id": 10, "sequence_number": 1, "properties": {"ndv": str(size)}, **options}
    return Blob(type=THETA_V1, fields=(field_id,), payload=sketch.to_bytes(), compression_codec=codec, **described)


def other(*fields: int) -> Blob:
    return Blob(
        type=KLL, fields=fields, snapshot_id=10, sequence_number=1, payload=b"kll" * 99, compression_codec="lz4"
    )


def read(entry: StatisticsEntry) -> PuffinReader:
    """Read an entry's file by the sizes in the entry."""
    data = Path(entry.statistics_path).read_bytes()
    assert len(data) == entry.file_size_in_bytes
    reader = PuffinReader(data, footer_size=entry.file_footer_size_in_bytes)
    reader.check_head()
    return reader


def test_entry_describes_the_file(table, opened, draft_of):
    entry = draft_of(table, {"b": [1, 2], "a": [1]}).write(opened, [])
    metadata = read(entry).file_metadata
    assert metadata.properties["created-by"].startswith("puffin-sidecar ")
    assert [(b.type, b.fields, b.properties) for b in metadata.blobs] == [
        (b.type, b.fields, b.properties) for b in entry.blobs
    ]
    assert [b.fields for b in entry.blobs] == [(1,), (2,)]
    assert [b.compression_codec for b in metadata.blobs] == [None, None]
    assert read(entry).footer_compressed is False
    assert entry.snapshot_id == 10


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_blobs_are_compressed_on_request(table, opened, draft_of, codec):
    entry = draft_of(table, {"a": range(5000)}, codec=codec).write(opened, [])
    (blob,) = read(entry).file_metadata.blobs
    assert blob.compression_codec == codec
    assert ThetaSketch.from_bytes(read(entry).read(blob)).estimating


def test_kept_sketches_are_copied_raw_with_a_mark_of_their_maker(table, opened, draft_of, old):
    """Compressed bytes of any codec, with their own snapshot; nothing else is kept."""
    existing = old(theta(2, snapshot_id=5, sequence_number=3), other(1), theta(1), theta(3, codec=None))
    entry = draft_of(table, {"a": [1]}).write(opened, [existing])
    before = {(b.metadata.type, b.metadata.fields): b for b in read(existing).read_all_raw()}
    after = read(entry).read_all_raw()
    assert [(b.metadata.type, b.metadata.fields) for b in after] == [(THETA_V1, (i,)) for i in (1, 2, 3)]
    for blob in after[1:]:
        was = before[blob.metadata.type, blob.metadata.fields]
        marked = {**was.metadata.properties, "puffin-sidecar.writer": "Trino version 476"}
        assert blob.stored == was.stored
        assert blob.metadata == dataclasses.replace(
            was.metadata, offset=blob.metadata.offset, properties=Properties(marked)
        )
    assert [(b.snapshot_id, b.sequence_number) for b in entry.blobs] == [(10, 1), (5, 3), (10, 1)]
    assert Path(existing.statistics_path).exists()


def test_blob_of_a_field_inside_a_list_is_kept(table, opened, draft_of, old):
    """The schema has it, though it is not a column that can be analyzed."""
    existing = old(other(4), other(5), other(6), theta(5))
    entry = draft_of(table, {"a": [1]}).write(opened, [existing])
    assert [b.fields for b in read(entry).file_metadata.blobs] == [(1,), (5,)]


@pytest.mark.parametrize("damage", ["missing", "cut", "garbage", "wrong sizes", "no puffin"])
def test_unreadable_old_file_loses_its_columns_with_a_warning(table, opened, draft_of, old, caplog, damage):
    existing = old(theta(2))
    path = Path(existing.statistics_path)
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    elif damage == "garbage":
        path.write_bytes(path.read_bytes().replace(b'"fields":[2]', b'"fields":"2"'))
    elif damage == "wrong sizes":
        existing = dataclasses.replace(existing, file_footer_size_in_bytes=existing.file_footer_size_in_bytes - 1)
    else:
        existing = dataclasses.replace(existing, statistics_path="nosuch://bucket/old.stats")
    entry = draft_of(table, {"a": [1]}).write(opened, [existing])
    assert [b.fields for b in entry.blobs] == [(1,)]
    assert f"statistics of other columns are dropped: cannot read their file: {existing.statistics_path}" in caplog.text


def test_old_file_that_the_store_does_not_give_now_fails_the_run(table, opened, draft_of, old, monkeypatch):
    """Its columns would be lost, though the next run may be able to read them."""
    existing, open_source = old(theta(2)), LocalStore.open_source

    def busy(store, uri):
        if uri.endswith(Path(existing.statistics_path).name):
            raise StorageError(f"{uri}: 503 Slow Down")
        return open_source(store, uri)

    monkeypatch.setattr(LocalStore, "open_source", busy)
    draft = draft_of(table, {"a": [1]})
    with pytest.raises(StorageError, match="503 Slow Down"):
        draft.write(opened, [existing])


def test_entry_that_lists_more_than_its_file_loses_the_missing_blobs(table, opened, draft_of, old):
    existing = old(theta(2))
    promised = dataclasses.replace(existing.blobs[0], fields=(3,))
    entry = draft_of(table, {"a": [1]}).write(
        opened, [dataclasses.replace(existing, blobs=(*existing.blobs, promised))]
    )
    assert [b.fields for b in entry.blobs] == [(1,), (2,)]


def test_file_is_rewritten_only_if_its_basis_changed(table, opened, draft_of, old):
    draft = draft_of(table, {"a": [1]})
    first = draft.write(opened, [])
    assert draft.write(opened, []) is first
    second = draft.write(opened, [old(theta(2))])
    assert second.statistics_path != first.statistics_path
    assert not Path(first.statistics_path).exists()
    assert Path(second.statistics_path).exists()


def test_changed_schema_is_a_changed_basis(table, opened, draft_of):
    draft = draft_of(table, {"a": [1], "b": [1]})
    first = draft.write(opened, [])
    schema = opened.state.document["schemas"][0]
    without_a = {**opened.state.document, "schemas": [{**schema, "fields": schema["fields"][1:]}]}
    second = draft.write(dataclasses.replace(opened, state=parse_state(without_a, "v2")), [])
    assert [b.fields for b in second.blobs] == [(2,)]
    assert not Path(first.statistics_path).exists()


def test_released_file_is_neither_deleted_nor_reused(table, opened, draft_of):
    draft = draft_of(table, {"a": [1]})
    first = draft.write(opened, [])
    draft.keep()
    second = draft.write(opened, [])
    assert second.statistics_path != first.statistics_path
    draft.discard()
    assert Path(first.statistics_path).exists()
    assert not Path(second.statistics_path).exists()


def test_referenced_file_is_not_deleted_by_the_next_write(table, opened, draft_of):
    draft = draft_of(table, {"a": [1]})
    first = draft.write(opened, [])
    state = parse_state({**opened.state.document, "statistics": [entry_to_json(first)]}, "v2")
    changed = dataclasses.replace(opened, state=state)
    second = draft.write(changed, [first])
    assert Path(first.statistics_path).exists()
    assert second.blobs == first.blobs


def test_discard_is_idempotent_and_survives_store_failures(table, opened, draft_of, monkeypatch, caplog):
    draft = draft_of(table, {"a": [1]})
    draft.discard()
    path = draft.write(opened, []).statistics_path

    def refuse(self, uri):
        raise StorageError(f"{uri}: no")

    monkeypatch.setattr(LocalStore, "delete", refuse)
    draft.discard()
    assert path in caplog.text
    draft.discard()


def test_failed_write_leaves_nothing(table, opened, draft_of, tmp_path, monkeypatch):
    def fail(self):
        raise StorageError("no space left on device")

    monkeypatch.setattr(PuffinWriter, "finish", fail)
    with pytest.raises(StorageError, match="no space left"):
        draft_of(table, {"a": [1]}).write(opened, [])
    assert {path.name for path in (tmp_path / "metadata").iterdir()} == {"v1.metadata.json", "version-hint.text"}
