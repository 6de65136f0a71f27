"""
Files made to do harm: few bytes that expand to many, and names that lead elsewhere.

What a reader may hold is bounded by what Python allocates at most, since all of these end up there.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from fuzz.held_files import HeldFiles
from fuzz.targets import TARGETS
from puffin.delta.log import actions, checkpoints
from puffin.delta.log.actions import parse_commit
from puffin.delta.log.log_files import Checkpoint
from puffin.delta.schema import table_schema
from puffin.delta.statistics.documents import decode_entry
from puffin.errors import ConflictError, CorruptDataFileError, CorruptMetadataError, CorruptPuffinError, StorageError
from puffin.files.avro import container as avro_container
from puffin.files.avro.records import MAX_TYPES, read_records
from puffin.files.parquet import thrift
from puffin.files.parquet.hybrid import HybridCounts
from puffin.files.parquet.parquet_footer import MAX_LEVELS, parse_footer
from puffin.format import LZ4, ZSTD, Blob, Limits, PuffinReader, PuffinWriter, compression
from puffin.iceberg.metadata import document as metadata
from puffin.index import manifest as index_manifest
from puffin.index.segment import SegmentColumn, SegmentEntry, read_directory
from puffin.load import load_table
from puffin.statistics.private_state import manifest as private_manifest
from puffin.storage import LocalStore, local, open_source
from puffin.tables import json_limits
from puffin.tables.commit import commit_statistics
from tests.table_directory import publish

MEGABYTE = 1 << 20
DEEP = 100_000
HUGE = 10**400
WHERE = "t/file"
SYNC = bytes(16)


@contextmanager
def holding_at_most(size: int) -> Iterator[None]:
    """Fail if the block allocates more than this on top of what there was."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= size


def with_footer(payload: bytes, *, compressed: bool = False) -> bytes:
    """A Puffin file without blobs, with any footer payload."""
    stored = compression.compress(LZ4, payload) if compressed else payload
    struct = len(stored).to_bytes(4, "little") + bytes((compressed, 0, 0, 0))
    return b"PFA1" + b"PFA1" + stored + struct + b"PFA1"


def avro(schema: object, records: int, content: bytes, codec: str = "null") -> bytes:
    """An Avro file of one block."""

    def sized(data: bytes) -> bytes:
        return thrift.varint(2 * len(data)) + data

    header = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec.encode()}
    entries = b"".join(sized(key) + sized(value) for key, value in header.items())
    return (
        b"Obj\1"
        + thrift.varint(2 * len(header))
        + entries
        + b"\0"
        + SYNC
        + thrift.varint(2 * records)
        + sized(content)
        + SYNC
    )


# --- few bytes that become many -----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [LZ4, ZSTD])
def test_oversized_blob_is_refused_before_allocating(codec):
    sink = io.BytesIO()
    writer = PuffinWriter(sink)
    writer.add(
        Blob(
            type="x", fields=(), snapshot_id=1, sequence_number=1, payload=bytes(64 * MEGABYTE), compression_codec=codec
        )
    )
    writer.finish()
    data = sink.getvalue()
    with holding_at_most(MEGABYTE), pytest.raises(CorruptPuffinError, match="payload-size-limit"):
        PuffinReader(data, limits=Limits(blob_size=8 * MEGABYTE)).read_all()


def test_oversized_footer_is_refused_before_allocating():
    data = with_footer(b'{"blobs":[' + b" " * (64 * MEGABYTE) + b"]}", compressed=True)
    with holding_at_most(MEGABYTE), pytest.raises(CorruptPuffinError, match="payload-size-limit"):
        _ = PuffinReader(data).file_metadata


def test_oversized_table_metadata_is_dropped(monkeypatch):
    monkeypatch.setattr(json_limits, "MAX_DOCUMENT_BYTES", 4 * MEGABYTE)
    data = gzip.compress(b'{"a":"' + b" " * (64 * MEGABYTE) + b'"}')
    with holding_at_most(16 * MEGABYTE), pytest.raises(CorruptMetadataError, match="more than 4194304 bytes"):
        metadata.decode_document(data, WHERE)
    with pytest.raises(CorruptMetadataError, match="more than 4194304 bytes"):
        metadata.decode_document(bytes(4 * MEGABYTE + 1), WHERE)


def test_gzipped_metadata_with_an_implausible_ratio_is_dropped():
    """A file of 64 kB takes no more than 16 MiB, whatever gzip makes of it."""
    data = gzip.compress(b'{"a":"' + b" " * (64 * MEGABYTE) + b'"}')
    with holding_at_most(48 * MEGABYTE), pytest.raises(CorruptMetadataError, match="more than 16777216 bytes in 65"):
        metadata.decode_document(data, WHERE)


@pytest.mark.parametrize("value", ["{}", "[]", '""', '{"":{"":0}}'])
def test_table_metadata_with_too_many_values_is_refused(monkeypatch, value):
    """The shortest values take twenty times their text in memory."""
    monkeypatch.setattr(json_limits, "MAX_DOCUMENT_VALUES", 1000)
    document = f'{{"a":[{",".join([value] * 250)}]}}'.encode()
    assert metadata.decode_document(document, WHERE)
    bomb = f'{{"a":[{",".join([value] * MEGABYTE)}]}}'.encode()
    with holding_at_most(MEGABYTE), pytest.raises(CorruptMetadataError, match="more than 1000 values"):
        metadata.decode_document(bomb, WHERE)


def directory_of_segment(text: bytes) -> None:
    stored = zstandard.compress(text)
    entry = SegmentEntry("7", SegmentColumn(1, "a", "int", None, 0.01), 1, 0, 0, len(stored), zlib.crc32(stored))
    read_directory(entry, SimpleNamespace(read_at=lambda offset, length: stored[offset : offset + length]), WHERE)


@pytest.mark.parametrize(
    "decode",
    [
        lambda text: index_manifest.decode(text + b"\n%08x\n" % zlib.crc32(text), 1, WHERE),
        lambda text: private_manifest.decode(text, WHERE),
        lambda text: decode_entry(text, WHERE, 1, 1),
        directory_of_segment,
    ],
)
def test_documents_of_our_own_with_too_many_values_are_refused(monkeypatch, decode):
    monkeypatch.setattr(json_limits, "MAX_DOCUMENT_VALUES", 1000)
    bomb = f'{{"format-version":1,"segments":[{",".join(["{}"] * MEGABYTE)}]}}'.encode()
    with holding_at_most(4 * len(bomb)), pytest.raises(CorruptMetadataError, match="more than 1000 values"):
        decode(bomb)


def test_metadata_files_that_are_too_long_are_not_read(table_document, delta_table, tmp_path):
    """The files are sparse, and not one byte of them is read; too long a hint counts as no hint."""
    root = tmp_path / "iceberg" / "metadata"
    root.mkdir(parents=True)
    document = root / "v1.metadata.json"
    document.write_text(json.dumps(table_document(tmp_path / "iceberg")))
    with (root / "version-hint.text").open("wb") as hint:
        hint.truncate(2 << 30)
    writer = delta_table()
    writer.commit(writer.add({"a": [1], "b": [2]}))
    with holding_at_most(8 * MEGABYTE):
        assert load_table(str(tmp_path / "iceberg")).open().state.current_snapshot_id == 10
        for table, file in ((tmp_path / "iceberg", document), (writer.path, max(writer.log.glob("*.json")))):
            with file.open("r+b") as sparse:
                sparse.truncate(2 << 30)
            with pytest.raises(CorruptMetadataError, match="at most 1073741824 bytes of metadata, found 2147483648"):
                load_table(str(table)).open()


def test_reading_a_device_ends(monkeypatch):
    monkeypatch.setattr(local, "MAX_WHOLE_BYTES", 4 * MEGABYTE)
    with holding_at_most(16 * MEGABYTE), pytest.raises(StorageError, match="at most 4194304 bytes"):
        LocalStore().read("/dev/zero")


def test_reading_standard_input_ends(monkeypatch):
    monkeypatch.setattr(local, "MAX_WHOLE_BYTES", 4 * MEGABYTE)
    with open("/dev/zero", "rb") as zero, holding_at_most(16 * MEGABYTE):  # noqa: PTH123
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=zero))
        with pytest.raises(StorageError, match="standard input: expected at most 4194304 bytes"):
            open_source("-")


def test_oversized_log_action_is_not_parsed(monkeypatch):
    monkeypatch.setattr(actions, "MAX_LINE_BYTES", 1000)
    with pytest.raises(CorruptMetadataError, match="line 2: expected at most 1000 bytes, found 100"):
        parse_commit(b'{}\n{"x":"' + b" " * 1000 + b'"}', 0, WHERE)


def test_checkpoint_cannot_have_more_rows_than_bytes(monkeypatch):
    """A run of one action takes as few bytes as one action."""
    monkeypatch.setattr(checkpoints, "_FREE_ROWS", 1)
    sink = io.BytesIO()
    pq.write_table(pa.table({"protocol": [{"minReaderVersion": 1, "minWriterVersion": 2}] * 100_000}), sink)
    store = HeldFiles({WHERE: sink.getvalue()})
    with pytest.raises(CorruptMetadataError, match="no more rows than bytes, found 100000"):
        checkpoints.read_checkpoint(Checkpoint(0, (store.info(WHERE),)), "t", store)


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "bzip2"])
def test_oversized_manifest_is_dropped(monkeypatch, codec):
    monkeypatch.setattr(avro_container, "MAX_BLOCK_BYTES", 4 * MEGABYTE)
    compress: dict[str, Callable[[bytes], bytes]] = {
        "deflate": lambda data: zlib.compress(data)[2:-4],
        "zstandard": zstandard.ZstdCompressor().compress,
        "bzip2": bz2.compress,
    }
    data = avro("bytes", 1, compress[codec](bytes(64 * MEGABYTE)), codec)
    with holding_at_most(24 * MEGABYTE), pytest.raises(CorruptMetadataError, match="more than 4194304 bytes"):
        list(read_records(data, {}, WHERE))


def test_schema_that_unfolds_without_end_is_refused():
    """Every type holds the previous one twice: thirty of them are a billion."""
    schema: object = {"type": "record", "name": "t0", "fields": [{"name": "a", "type": "null"}]}
    for i in range(1, 30):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"t{i - 1}"}]
        schema = {"type": "record", "name": f"t{i}", "fields": fields}
    with pytest.raises(CorruptMetadataError, match=f"more than {MAX_TYPES} types"):
        list(read_records(avro(schema, 1, b""), {}, WHERE))


def test_avro_items_that_take_no_bytes_are_refused():
    """A few bytes could be lists of nulls of any length."""
    nulls = {"type": "array", "items": {"type": "array", "items": "null"}}
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": nulls, "field-id": 1}]}
    inner = thrift.varint(2 * 60_000) + b"\0"
    content = thrift.varint(2 * 1000) + inner * 16_000 + b"\0"
    with holding_at_most(4 * MEGABYTE), pytest.raises(CorruptMetadataError, match="60000 items in 0 bytes"):
        list(read_records(avro(schema, 1, content), {1: None}, WHERE))


def test_avro_records_that_take_no_bytes_are_refused():
    with pytest.raises(CorruptMetadataError, match="1 items in 0 bytes"):
        list(read_records(avro("null", 1000, bytes(1000)), {}, WHERE))


@pytest.mark.parametrize("is_packed", [True, False])
def test_parquet_levels_of_zero_bits_take_no_time(is_packed):
    """A run of them takes a byte or two, whatever its length."""
    run = thrift.varint(1 << 33 | 1) if is_packed else thrift.varint(1 << 34)
    counts = HybridCounts(1)
    counts.add(run, 1 << 33, 0)
    assert counts.totals().tolist() == [1 << 33]


def test_parquet_schema_with_too_many_levels_is_refused():
    """Each level keeps the path that leads to it."""
    group = thrift.struct({3: thrift.i32(1), 4: thrift.binary(b"a"), 5: thrift.i32(2)})
    with pytest.raises(CorruptDataFileError, match=f"more than {MAX_LEVELS} levels"):
        parse_footer(thrift.struct({2: thrift.items([group] * (MAX_LEVELS + 2))})[1])


def chunk_with(**others: thrift.Written) -> bytes:
    """A Parquet footer of one column chunk in which some fields have another type."""
    number = thrift.i64(1)
    fields = {f"f{field_id}": number for field_id in (1, 4, 5, 6, 7, 9)} | {"f2": thrift.items([number])} | others
    by_id = {int(name[1:]): value for name, value in fields.items()}
    column = thrift.struct({3: thrift.struct(dict(sorted(by_id.items())))})
    leaf = thrift.struct({1: number, 3: number, 4: thrift.binary(b"a")})
    root = thrift.struct({4: thrift.binary(b"schema"), 5: thrift.i32(1)})
    group = thrift.struct({1: thrift.items([column])})
    return thrift.struct({2: thrift.items([root, leaf]), 4: thrift.items([group])})[1]


@pytest.mark.parametrize("field", ["f1", "f4", "f5", "f6", "f7", "f9", "f11"])
def test_parquet_footer_with_wrongly_typed_numbers_is_refused(field):
    """The bytes may give a field any type, whatever the format says."""
    (sound,) = parse_footer(chunk_with())
    assert sound[0].dictionary_page_size == 0
    (group,) = parse_footer(chunk_with(**{field: thrift.binary(b"1")}))
    with pytest.raises(CorruptDataFileError, match=f"field {field[1:]}"):
        _ = group[0]


def test_parquet_footer_with_a_number_as_size_statistics_is_refused():
    (group,) = parse_footer(chunk_with(f16=thrift.i64(1)))
    with pytest.raises(CorruptDataFileError, match="size_statistics"):
        _ = group[0]


@pytest.mark.parametrize(("last", "fits"), [(1, True), (2, False), (0x7F, False)])
def test_thrift_integer_beyond_64_bits_is_refused(last, fits):
    """Seeking to such an offset raises errors that are neither the file's nor the store's."""
    data = bytes([0x16, *[0xFF] * 9, last, 0])
    if fits:
        assert thrift.read_struct(data, 0, {1: None})[0] == {1: -(2**63)}
    else:
        with pytest.raises(ValueError, match="more than 64 bits"):
            thrift.read_struct(data, 0, {1: None})


# --- ten million blobs --------------------------------------------------------------------------------------------

BLOB = b'{"type":"","fields":[],"snapshot-id":1,"sequence-number":1,"offset":4,"length":0},'


class Sparse:
    """A file of ten million blobs that exists only as counted reads."""

    footer_payload = 10_000_000 * len(BLOB)

    def __init__(self) -> None:
        self.bytes_read = 0

    def size(self) -> int:
        return 4 + 4 + self.footer_payload + 12

    def read_at(self, offset: int, length: int) -> bytes:  # noqa: ARG002 - only the end is ever asked for
        self.bytes_read += length
        return (bytes(length) + self.footer_payload.to_bytes(4, "little") + bytes(4) + b"PFA1")[-length:]


def test_footer_of_ten_million_blobs_is_not_read():
    source = Sparse()
    with holding_at_most(MEGABYTE), pytest.raises(CorruptPuffinError, match="footer-size-limit"):
        _ = PuffinReader(source).file_metadata
    assert source.bytes_read <= 8 * 1024


def test_footer_of_too_many_blobs_takes_no_more_memory_than_its_json():
    data = with_footer(b'{"blobs":[' + BLOB * 20_000 + BLOB[:-1] + b"]}")
    with holding_at_most(32 * MEGABYTE), pytest.raises(CorruptPuffinError, match="blob-count-limit"):
        _ = PuffinReader(data, limits=Limits(blob_count=1000)).file_metadata


# --- JSON ---------------------------------------------------------------------------------------------------------

DEEP_ARRAY = b"[" * DEEP + b"]" * DEEP
DEEP_OBJECT = b'{"a":' * DEEP + b"1" + b"}" * DEEP


@pytest.mark.parametrize("deep", [DEEP_ARRAY, DEEP_OBJECT, b"[" * DEEP])
def test_deeply_nested_json_is_an_ordinary_error(deep):
    with pytest.raises(CorruptPuffinError, match="footer-json"):
        _ = PuffinReader(with_footer(b'{"blobs":[],"x":' + deep + b"}")).file_metadata
    for read in (
        lambda: metadata.decode_document(deep, WHERE),
        lambda: parse_commit(b'{"add":' + deep + b"}", 0, WHERE),
        lambda: decode_entry(deep, WHERE, 0, 0),
        lambda: table_schema(deep.decode(), {}, {}, WHERE),
        lambda: list(read_records(avro("null", 0, b"").replace(b'\x0c"null"', _sized_json(deep)), {}, WHERE)),
    ):
        with pytest.raises(CorruptMetadataError):
            read()


def _sized_json(data: bytes) -> bytes:
    return thrift.varint(2 * len(data)) + data


@pytest.mark.parametrize("key", ["blobs", "properties"])
def test_duplicate_json_key_is_refused(key):
    twice = f'{{"blobs":[],"properties":{{}},"{key}":{"[]" if key == "blobs" else "{}"}}}'
    with pytest.raises(CorruptPuffinError, match="2 times"):
        _ = PuffinReader(with_footer(twice.encode())).file_metadata


@pytest.mark.parametrize("number", [str(HUGE), f"-{HUGE}", "1e400", "9" * 5000, "1e999999999"])
@pytest.mark.parametrize("key", ["snapshot-id", "offset", "length", "fields"])
def test_huge_json_number_is_out_of_range(number, key):
    value = f"[{number}]" if key == "fields" else number
    fields = {"type": '""', "fields": "[]", "snapshot-id": "1", "sequence-number": "1", "offset": "4", "length": "0"}
    blob = ",".join(f'"{name}":{text}' for name, text in (fields | {key: value}).items())
    with pytest.raises(CorruptPuffinError, match=r"footer-(field|json)"):
        _ = PuffinReader(with_footer(f'{{"blobs":[{{{blob}}}]}}'.encode())).file_metadata


@pytest.mark.parametrize("number", [str(HUGE), "1e400", "1e999999999"])
@pytest.mark.parametrize("place", ["timestamp-ms", "snapshot-id", "fields", "size"])
def test_table_metadata_with_huge_numbers_is_read_or_refused_in_one_line(table_document, tmp_path, number, place):
    """The number is in a snapshot or in a statistics entry."""
    entry = {
        "snapshot-id": 10,
        "statistics-path": str(tmp_path / "a.stats"),
        "file-size-in-bytes": "HERE" if place == "size" else 100,
        "file-footer-size-in-bytes": 50,
        "blob-metadata": [
            {
                "type": "apache-datasketches-theta-v1",
                "snapshot-id": 10,
                "sequence-number": 1,
                "fields": ["HERE" if place == "fields" else 1],
                "properties": {"ndv": "5"},
            }
        ],
    }
    document = table_document(tmp_path, statistics=[entry])
    if place in document["snapshots"][0]:
        document["snapshots"][0][place] = "HERE"
    TARGETS["table-metadata"](json.dumps(document).replace('"HERE"', number).encode())


def test_half_surrogates_are_refused_in_footers_and_kept_in_table_metadata(table_document, tmp_path):
    """A footer is written again in UTF-8; table metadata may have them in anybody's comment."""
    with pytest.raises(CorruptPuffinError, match="footer-field"):
        _ = PuffinReader(with_footer(rb'{"blobs":[],"properties":{"a":"\ud800"}}')).file_metadata
    document = table_document(tmp_path, properties={"comment": "\ud800"})
    data = metadata.encode_document(document, compress=False)
    assert metadata.decode_document(data, WHERE) == document


# --- names that lead elsewhere ------------------------------------------------------------------------------------


def test_file_name_that_no_file_can_have_is_a_storage_error():
    for name in ("\ud800", "a\0b", "x" * 5000):
        with pytest.raises(StorageError) as caught:
            open_source(f"/tmp/{name}")
        assert "\n" not in str(caught.value)


def test_delta_entry_cannot_name_a_file_outside_its_directory():
    entry = {"snapshot-id": 3, "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1, "blob-metadata": []}
    document = {"format-version": 1, "table-id": "1", "version": 3, "generation": 0, "columns": []}
    for path in ("../../3-a.stats", "/etc/3-a.stats", "file:///3-a.stats", "3-../a.stats", "3-a.stats\n"):
        data = json.dumps({**document, "statistics": {**entry, "statistics-path": path}}).encode()
        with pytest.raises(CorruptMetadataError):
            decode_entry(data, WHERE, 3, 0)


def test_iceberg_entry_may_name_any_file_and_we_never_delete_it(table_document, draft_of, tmp_path):
    """Such an entry is legal and its file is read; the next file is in the table's own place again."""
    root, elsewhere = tmp_path / "t", tmp_path / "elsewhere.stats"
    publish(root, table_document(root))
    table = load_table(str(root))
    first = commit_statistics(table, draft_of(table, {"a": [1, 2]})).entry
    Path(first.statistics_path).rename(elsewhere)
    current = root / "metadata" / "v2.metadata.json"
    current.write_text(current.read_text().replace(first.statistics_path, str(elsewhere)))
    entry = commit_statistics(table, draft_of(table, {"b": [1]})).entry
    assert [(blob.fields, blob.properties["ndv"]) for blob in entry.blobs] == [((1,), "2"), ((2,), "1")]
    assert Path(entry.statistics_path).parent == root / "metadata"
    assert elsewhere.exists()


def test_circular_links_are_a_storage_error(tmp_path):
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    for read in (LocalStore().read, LocalStore().info, LocalStore().open_input):
        with pytest.raises(StorageError, match="symbolic links"):
            read(str(circle))


def test_link_in_place_of_a_file_is_replaced_and_not_followed(tmp_path):
    """Someone with access to a table's directory must not make us write elsewhere."""
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "version-hint.text"
    elsewhere.write_text("mine")
    link.symlink_to(elsewhere)
    LocalStore().replace(str(link), b"2")
    assert (elsewhere.read_text(), link.read_text(), link.is_symlink()) == ("mine", "2", False)


@pytest.mark.parametrize("exists", [True, False])
def test_link_in_place_of_a_new_file_is_a_conflict(tmp_path, exists):
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "v2.metadata.json"
    if exists:
        elsewhere.write_text("mine")
    link.symlink_to(elsewhere)
    with pytest.raises(ConflictError):
        LocalStore().put_if_absent(str(link), b"{}")
    assert elsewhere.exists() == exists


def test_invalid_last_checkpoint_is_ignored(delta_table):
    """It holds nonsense, or names a version that does not exist."""
    writer = delta_table()
    writer.commit(writer.add({"a": [1, 2], "b": [3, 4]}))
    expected = load_table(str(writer.path)).open().state.current_snapshot_id
    hint = writer.log / "_last_checkpoint"
    for content in (b"", b"\0", DEEP_ARRAY, b'{"version":99}', b'{"version":' + str(HUGE).encode() + b"}"):
        hint.write_bytes(content)
        assert load_table(str(writer.path)).open().state.current_snapshot_id == expected
    hint.unlink()
    hint.symlink_to(Path("/nowhere"))
    assert load_table(str(writer.path)).open().state.current_snapshot_id == expected


def test_read_only_store_reports_missing_files():
    """The fuzz targets keep their tables in such a store."""
    assert HeldFiles({"t/a/b": b"1"}).directories("t") == ["a"]
