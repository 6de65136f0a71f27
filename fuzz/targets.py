"""
What has to hold of any bytes: for each format that is read, a function from bytes to nothing.

A target returns, or raises what the reader's docstring promises. Any other exception, too much memory or too much time
is a failure. Where bytes are understood it goes on and asks for more: that they are written again as they were
read, and that two ways to the same answer agree.

Checksums would keep mutated bytes from getting anywhere, so there are targets behind them.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from fuzz.held_files import HeldFiles
from puffin import kernels
from puffin.delta.log.actions import parse_commit, read_file_statistics
from puffin.delta.log.checkpoints import checkpoint_files, files_in, outline_of, read_checkpoint
from puffin.delta.log.log_files import Checkpoint
from puffin.delta.log.replay import DeltaLog
from puffin.delta.schema import table_schema
from puffin.delta.statistics.documents import decode_entry, decode_field_ids
from puffin.errors import (
    ColumnNotFound,
    CorruptDataFileError,
    CorruptDeletionVectorError,
    CorruptError,
    CorruptMetadataError,
    CorruptPuffinError,
    CorruptSketchError,
    UnsupportedError,
    UnsupportedTableError,
    UsageError,
)
from puffin.files.formats import open_data_file
from puffin.files.orc.integers import read_bits, read_integers
from puffin.files.orc.orc_footer import MALFORMED as ORC_MALFORMED
from puffin.files.orc.orc_footer import TIMESTAMP, TIMESTAMP_INSTANT, is_encrypted, read_footer
from puffin.files.orc.timestamps import read_timestamps
from puffin.files.parquet import parquet_footer
from puffin.files.parquet.bloom_filters import parse_bloom_filter
from puffin.files.parquet.dictionary_page import has_readable_dictionary, read_dictionary_page
from puffin.files.parquet.hybrid import MAX_BIT_WIDTH, HybridCounts
from puffin.files.parquet.long_strings import read_long_strings
from puffin.files.parquet.page_header import parse_page_header
from puffin.files.parquet.page_rows import has_readable_rows, read_page_rows
from puffin.files.parquet.page_values import has_readable_values, read_page_values
from puffin.files.parquet.pages import has_readable_pages
from puffin.files.parquet.parquet_footer import BYTE_ARRAY, DOUBLE, INT32, INT64, ColumnChunk, Leaf
from puffin.files.parquet.plain_pages import ENCODINGS
from puffin.files.parquet.thrift import MALFORMED
from puffin.format import ZSTD, Blob, Limits, PuffinReader, PuffinWriter, compression, footer_json
from puffin.format.deletion_vector import MAGIC as VECTOR_MAGIC
from puffin.format.deletion_vector import DeletionVector
from puffin.iceberg.expression_json import FilterJson, parse_expression
from puffin.iceberg.filter_binding import JsonFilterParser
from puffin.iceberg.metadata.document import decode_document, encode_document, parse_state
from puffin.iceberg.scan.manifest_lists import ManifestFile, manifest_files
from puffin.iceberg.scan.manifests import live_files_of
from puffin.index import manifest as index_manifests
from puffin.index.lifting import lifted
from puffin.index.segment import SegmentColumn, SegmentEntry, read_directory
from puffin.inspection import describe, verify
from puffin.kernels import load_kernels
from puffin.rest_catalog.scan_request import ScanRequest
from puffin.sketches.distribution import Distribution
from puffin.sketches.joint_sketches import JointSketches
from puffin.sketches.partition_sketches import PartitionSketches
from puffin.sketches.row_counts import RowCounts
from puffin.sketches.theta_image import SketchImage
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.private_state import manifest as private_state
from puffin.storage.local import BytesSource
from puffin.tables.document import partition_specs
from puffin.tables.expression import predicates
from puffin.tables.scan_task import AVRO, DATA, ContentFile
from puffin.values.column_summary import ColumnSummary
from puffin.values.row_summary import RowSummary

Read: TypeAlias = Callable[[bytes], None]

SMALL = Limits(footer_payload_size=1 << 20, blob_size=1 << 20, blob_count=1000)
"""What a reader is to hold: so little that a run notices when it holds more."""

_WHERE = "t/file"


@dataclass(frozen=True, slots=True)
class Target:
    """
    A reader, and the errors that it promises.

    Attributes:
        kilobytes: The longest input that is worth trying.
    """

    read: Read
    promised: tuple[type[Exception], ...]
    kilobytes: int

    def __call__(self, data: bytes) -> bool:
        """Read; returns whether the bytes were understood."""
        try:
            self.read(data)
        except self.promised as exc:
            if "\n" in str(exc):
                raise AssertionError(f"expected an error of one line, found {exc!s}") from exc
            return False
        return True


TARGETS: dict[str, Target] = {}


def _target(*promised: type[Exception], kilobytes: int = 4) -> Callable[[Read], Read]:
    def add(read: Read) -> Read:
        TARGETS[read.__name__.replace("_", "-")] = Target(read, promised, kilobytes)
        return read

    return add


# --- Puffin -------------------------------------------------------------------------------------------------------


@_target(CorruptPuffinError, UnsupportedError)
def puffin_file(data: bytes) -> None:
    """A file that is understood is understood again when it is written again."""
    reader = PuffinReader(data, limits=SMALL)
    reader.check_head()
    payloads = reader.read_all()
    sink = io.BytesIO()
    writer = PuffinWriter(sink, properties=reader.file_metadata.properties)
    for blob, payload in zip(reader.file_metadata.blobs, payloads, strict=True):
        writer.add(
            Blob(
                type=blob.type,
                fields=blob.fields,
                snapshot_id=blob.snapshot_id,
                sequence_number=blob.sequence_number,
                payload=payload,
                properties=blob.properties,
            )
        )
    writer.finish()
    again = PuffinReader(sink.getvalue())
    assert again.read_all() == payloads
    assert again.file_metadata.properties == reader.file_metadata.properties


@_target(CorruptPuffinError)
def puffin_footer_json(data: bytes) -> None:
    metadata = footer_json.parse(data, offset=8, max_blobs=100)
    assert footer_json.parse(footer_json.render(metadata), offset=8, max_blobs=100) == metadata


@_target(CorruptPuffinError)
def puffin_blob(data: bytes) -> None:
    """The first byte chooses the codec."""
    codec = (None, "lz4", "zstd")[data[0] % 3] if data else None
    assert len(compression.decompress(codec, data[1:], offset=4, limit=SMALL.blob_size)) <= SMALL.blob_size


@_target()
def puffin_verdict(data: bytes) -> None:
    """What verify finds valid can be read and described; what cannot be read, verify does not find valid."""
    path = str(_scratch_file())
    Path(path).write_bytes(data)
    verdict = verify(path)
    try:
        reader = PuffinReader(data)
        reader.check_head()
        reader.read_all()
    except (CorruptPuffinError, UnsupportedError):
        assert not verdict.valid
        return
    description = describe(path)
    assert not verdict.valid or all(blob.error is None for blob in description.blobs)


@functools.cache
def _scratch_file() -> Path:
    return Path(_scratch_directory().name) / "file.puffin"


@functools.cache
def _scratch_directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="puffin-sidecar-fuzz-")  # gone with the process


# --- payloads -----------------------------------------------------------------------------------------------------


@_target(CorruptSketchError, UnsupportedError)
def theta_image(data: bytes) -> None:
    """A sketch survives its own image, and that image itself."""
    sketch = ThetaSketch.from_bytes(data)
    assert ThetaSketch.from_bytes(sketch.to_bytes()) == sketch
    image = SketchImage.parse(data).to_bytes()
    assert SketchImage.parse(image).to_bytes() == image
    assert sketch.lower_bound() <= sketch.estimate <= sketch.upper_bound()


@_target(CorruptDeletionVectorError)
def deletion_vector(data: bytes) -> None:
    vector = DeletionVector.from_bytes(data)
    assert DeletionVector.from_bytes(vector.to_bytes()).cardinality == vector.cardinality
    positions = vector.first(10)
    assert positions == sorted(set(positions))
    assert not any(vector.live_mask(at, at + 1)[0] for at in positions)


@_target(CorruptDeletionVectorError)
def deletion_vector_bitmaps(data: bytes) -> None:
    """Behind the checksum: the bytes are the vector alone."""
    body = VECTOR_MAGIC + data
    deletion_vector(struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body)))


@_target(CorruptSketchError)
def row_counts_image(data: bytes) -> None:
    assert RowCounts.from_bytes(data).to_bytes() == data


@_target(CorruptSketchError)
def partition_sketches_image(data: bytes) -> None:
    assert PartitionSketches.from_bytes(data).to_bytes() == data


@_target(CorruptSketchError)
def distribution_image(data: bytes) -> None:
    assert Distribution.from_bytes(data).to_bytes() == data


@_target(CorruptSketchError)
def joint_sketches_image(data: bytes) -> None:
    assert JointSketches.from_bytes(data).to_bytes() == data


@_target()
def column_summary(data: bytes) -> None:
    """A property that is no summary is none, and no error."""
    summary = ColumnSummary.from_text(data.decode("utf-8", "surrogateescape"))
    assert summary is None or ColumnSummary.from_text(summary.to_text()) == summary


# --- Iceberg ------------------------------------------------------------------------------------------------------


@_target(CorruptMetadataError, UnsupportedTableError)
def table_metadata(data: bytes) -> None:
    """A document is written again without a loss."""
    document = decode_document(data, _WHERE)
    assert repr(decode_document(encode_document(document, compress=False), _WHERE)) == repr(document)
    state = parse_state(document, _WHERE)
    partition_specs(state.document)


@_target(UsageError, UnsupportedError, ColumnNotFound)
def scan_request(data: bytes) -> None:
    """The body of a request for a plan; the partitions of its filter can be tested, and NOT undoes NOT."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return
    filter_ = ScanRequest.of(body).filter
    if filter_ is None:
        return
    tree = parse_expression(filter_)
    doubled = {"type": "not", "child": {"type": "not", "child": body["filter"]}}
    with contextlib.suppress(UsageError):  # two levels more may be too deep
        assert repr(parse_expression(FilterJson.of(doubled))) == repr(tree)
    for predicate in predicates(_filter_parser()(filter_)):
        for spec_id, test in predicate.partitions.items():
            for values in _SAMPLES[spec_id]:
                assert isinstance(test.holds([values[field_id] for field_id in test.field_ids]), bool)


_SAMPLES: dict[int, list[dict[int, Any]]] = {
    0: [{}],
    1: [{1000: 5, 1001: 3, 1002: "x"}, {1000: None, 1001: None, 1002: None}, {1000: -(1 << 63), 1001: 0, 1002: ""}],
}
"""Partition tuples of the specs below."""


@functools.cache
def _filter_parser() -> JsonFilterParser:
    types = ("long", "double", "string", "date", "timestamptz", "decimal(9, 2)", "uuid", "binary", "boolean", "float")
    fields = [{"id": i, "name": f"c{i}", "required": False, "type": type_} for i, type_ in enumerate(types, 1)]
    by = ((1, "identity"), (1, "bucket[16]"), (3, "truncate[2]"))
    spec = [
        {"source-id": source, "field-id": 1000 + i, "name": f"p{i}", "transform": transform}
        for i, (source, transform) in enumerate(by)
    ]
    return JsonFilterParser([{"type": "struct", "schema-id": 0, "fields": fields}], {0: [], 1: spec})


@_target(CorruptMetadataError, UnsupportedTableError, kilobytes=8)
def manifest_list(data: bytes) -> None:
    manifest_files(_WHERE, lambda _: HeldFiles({_WHERE: data}))


@_target(CorruptMetadataError, UnsupportedTableError, kilobytes=8)
def manifest(data: bytes) -> None:
    """The first byte chooses between data and deletes."""
    of_deletes = data[:1] == b"D"
    described = ManifestFile(
        manifest_path=_WHERE,
        partition_spec_id=0,
        of_deletes=of_deletes,
        sequence_number=1,
        min_sequence_number=1,
        added_snapshot_id=1,
        entries=None,
        live_files=None,
        encrypted=False,
    )
    for _ in live_files_of(described, lambda _: HeldFiles({_WHERE: data[1:]}), (1, 2, 3), nan_counts=True):
        pass


# --- Delta --------------------------------------------------------------------------------------------------------


@_target(CorruptMetadataError, UnsupportedTableError)
def delta_log_entry(data: bytes) -> None:
    commit = parse_commit(data, 3, _WHERE)
    statistics = dict(read_file_statistics(data, _WHERE))
    assert statistics.keys() <= {file.key for file in commit.adds}
    if commit.metadata is not None:
        table_schema(commit.metadata.schema_string, commit.metadata.configuration, {}, _WHERE)


@_target(CorruptMetadataError, UnsupportedTableError, kilobytes=16)
def delta_checkpoint(data: bytes) -> None:
    """In Parquet; its parts have the files that the whole has."""
    store = HeldFiles({_WHERE: data})
    checkpoint = Checkpoint(3, (store.info(_WHERE),))
    content = read_checkpoint(checkpoint, "t", store)
    for _ in checkpoint_files(checkpoint, content, store, with_statistics=True):
        pass
    files = [file for file, _ in checkpoint_files(checkpoint, content, store, with_statistics=False)]
    outline = outline_of(checkpoint, content, store, most_rows=2, least_files=0)
    assert outline is not None
    assert [file for rows in outline.rows for file in files_in(rows, store)] == files
    assert (len(outline.paths), outline.bytes) == (len(files), sum(file.size for file in files))


_FIRST_ENTRY = (
    b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n'
    b'{"metaData":{"id":"1","schemaString":"{}","partitionColumns":[],"configuration":{}}}\n'
    b'{"add":{"path":"a.parquet","partitionValues":{},"size":1,"dataChange":true}}\n'
)


@_target()
def delta_last_checkpoint(data: bytes) -> None:
    """It is never read: whatever is in it, the table is the same."""
    log = "t/_delta_log"
    segment = DeltaLog(
        "t", HeldFiles({f"{log}/{0:020d}.json": _FIRST_ENTRY, f"{log}/_last_checkpoint": data})
    ).segment()
    assert (segment.version, segment.checkpoint_version) == (0, None)
    assert [file.path for file, _ in segment.fold_files(list)] == ["a.parquet"]


@_target(CorruptMetadataError, UnsupportedTableError)
def delta_statistics_entry(data: bytes) -> None:
    decode_entry(data, _WHERE, 3, 0)


@_target(CorruptMetadataError, UnsupportedTableError)
def delta_field_ids(data: bytes) -> None:
    decode_field_ids(data, _WHERE)


@_target(CorruptMetadataError, UnsupportedTableError)
def private_state_manifest(data: bytes) -> None:
    """What was read is written as the same."""
    manifest = private_state.decode(data, _WHERE)
    assert private_state.decode(private_state.encode(manifest), _WHERE) == manifest


# --- the index, and steps of a run --------------------------------------------------------------------------------


@_target(CorruptMetadataError, UnsupportedTableError)
def index_manifest(data: bytes) -> None:
    """Behind the checksum; what was read is written as the same."""
    manifest = index_manifests.decode(b"%s\n%08x\n" % (data, zlib.crc32(data)), 3, _WHERE)
    assert index_manifests.decode(index_manifests.encode(manifest), 3, _WHERE) == manifest


@_target(CorruptMetadataError)
def index_directory(data: bytes) -> None:
    """Behind the checksum and the compression; every block has its place."""
    stored = compression.compress(ZSTD, data)
    entry = SegmentEntry(
        id="",
        column=SegmentColumn(1, "a", "long", None, 0.01),
        files=1,
        file_size=len(stored),
        directory_offset=0,
        directory_length=len(stored),
        directory_crc=zlib.crc32(stored),
    )
    for found in read_directory(entry, BytesSource(stored), "/index"):
        assert found.layout.offset_of((1 << found.layout.lg_blocks) - 1) >= found.layout.offsets[-1]


@_target(CorruptError)
def step_summary(data: bytes) -> None:
    written = RowSummary.from_bytes(data).to_bytes()
    assert RowSummary.from_bytes(written).to_bytes() == written


# --- Avro and ORC -------------------------------------------------------------------------------------------------


@_target(CorruptDataFileError, UnsupportedTableError, kilobytes=8)
def avro_data_file(data: bytes) -> None:
    """The first byte is how many rows the manifest says there are; the loop finds the same, compiled or not."""
    results: list[Any] = []
    for ready in (load_kernels(), False):
        with _kernels_ready(ready):
            try:
                results.append(_avro_rows(data[1:], int.from_bytes(data[:1], "little")))
            except (CorruptDataFileError, UnsupportedTableError) as exc:
                results.append(exc)
    compiled, plain = results
    if isinstance(compiled, Exception):
        assert str(compiled) == str(plain)
        raise compiled
    assert compiled == plain


def _avro_rows(data: bytes, count: int) -> list[str]:
    """The batches in a form in which NaN equals itself."""
    stored = ContentFile(
        content=DATA,
        file_path=_WHERE,
        file_format=AVRO,
        spec_id=0,
        partition={},
        record_count=count,
        file_size_in_bytes=len(data),
    )
    with open_data_file(stored, lambda _: HeldFiles({_WHERE: data})) as file:
        batches = list(file.batches(_leaves(file.schema)))
    for batch in batches:
        batch.validate()  # and no more: a string need not be UTF-8
    return [repr([column.cast(_as_bytes(column.type)).to_pylist() for column in batch.columns]) for batch in batches]


def _as_bytes(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_as_bytes(field.type)) for field in type_])
    if pa.types.is_temporal(type_):  # of which Python has not all
        return pa.int32() if pa.types.is_date32(type_) else pa.int64()
    return pa.large_binary() if pa.types.is_string(type_) or pa.types.is_large_string(type_) else type_


def _leaves(fields: Iterable[pa.Field]) -> Iterator[tuple[str, ...]]:
    """What leads to columns; a list has none."""
    for field in fields:
        inside = _leaves(field.type) if pa.types.is_struct(field.type) else () if pa.types.is_list(field.type) else [()]
        yield from ((field.name, *names) for names in inside)


@contextlib.contextmanager
def _kernels_ready(ready: bool) -> Iterator[None]:
    was, kernels._is_ready = kernels._is_ready, ready
    try:
        yield
    finally:
        kernels._is_ready = was


@_target(ValueError, NotImplementedError, OSError, *ORC_MALFORMED)
def orc_timestamps(data: bytes) -> None:
    """Of every column that says it has any, whether nanoseconds would do or not."""
    source = pa.BufferReader(data)
    is_encrypted(source)
    footer = read_footer(source)
    for name, (_, kind) in footer.columns.items():
        if kind in (TIMESTAMP, TIMESTAMP_INSTANT):
            for stripe, values in zip(footer.stripes, read_timestamps(source, footer, name), strict=True):
                assert len(values) == stripe.rows


@_target(ValueError, *ORC_MALFORMED)
def orc_integers(data: bytes) -> None:
    """The first two bytes are how many there are."""
    count = int.from_bytes(data[:2], "little")
    for signed in (False, True):
        assert len(read_integers(data[2:], count, signed=signed)) == count
    assert len(read_bits(data[2:], count)) == count


# --- Parquet ------------------------------------------------------------------------------------------------------


@_target(CorruptDataFileError)
def parquet_footer_thrift(data: bytes) -> None:
    for group in parquet_footer.parse_footer(data):
        for chunk in group:
            assert chunk is None or (chunk.dictionary_page_size, chunk.unencoded_byte_array_data_bytes) is not None


@_target(*MALFORMED)
def parquet_page_header(data: bytes) -> None:
    page = parse_page_header(data, 4, 1 << 20, 1)
    assert 4 < page.offset <= page.body_offset <= page.end <= 1 << 20


@_target(*MALFORMED)
def parquet_bloom_filter(data: bytes) -> None:
    bitset = parse_bloom_filter(data)
    found = lifted([bitset], 0.5)
    assert found is None or (found.false_positive_rate() <= 0.5 and len(found.to_bytes()) <= len(data))


_ARROW_TYPES = {INT32: pa.int32(), INT64: pa.int64(), DOUBLE: pa.float64(), BYTE_ARRAY: pa.string()}
_CODECS = (0, 1, 2, 4, 6, 7)


def _chunk(data: bytes) -> tuple[ColumnChunk, pa.BufferReader]:
    """A column chunk as two bytes choose, whose pages are the others: how long its dictionary page is, and the rest."""
    choice, size = (*data[:2], 0, 0)[:2]
    pages = data[2:]
    dictionary = min(size, len(pages))
    return ColumnChunk(
        leaf=Leaf(
            path=("a",),
            schema_element=bytes((0x15, list(_ARROW_TYPES)[choice & 3] << 1, 0x25, 0x02, 0x18, 1, 97, 0)),
            physical_type=list(_ARROW_TYPES)[choice & 3],
            type_length=0,
            repetition_type=1,
            max_definition_level=choice >> 2 & 1,
            max_repetition_level=0,
        ),
        physical_type=list(_ARROW_TYPES)[choice & 3],
        codec=_CODECS[(choice >> 3) % len(_CODECS)],
        encodings=frozenset((0, 3, 8)),
        num_values=40,
        total_uncompressed_size=1 << 20,
        total_compressed_size=len(pages),
        data_page_offset=4 + dictionary,
        dictionary_page_offset=4 if dictionary else None,
        encoding_stats=(),
    ), pa.BufferReader(b"PAR1" + pages)


@_target()
def parquet_dictionary_page(data: bytes) -> None:
    chunk, source = _chunk(data)
    if has_readable_dictionary(chunk):
        values = read_dictionary_page(source, chunk, _ARROW_TYPES[chunk.physical_type])
        assert values is None or values.null_count == 0


@_target()
def parquet_levels(data: bytes) -> None:
    """The kernel, which looks at memory unchecked, and numpy count the same or refuse both."""
    if not load_kernels():
        return
    width, count, limit = struct.unpack_from("<BHB", data.ljust(4, b"\0"))
    compiled, by_runs = HybridCounts(limit), HybridCounts(limit)
    refusals = []
    for add in (compiled._add_compiled, by_runs._add_run_by_run):
        try:
            add(data[4:], count, width % (MAX_BIT_WIDTH + 1))
        except ValueError:
            refusals.append(add)
    assert len(refusals) != 1
    assert refusals or (compiled.totals() == by_runs.totals()).all()


@_target(CorruptDataFileError)
def parquet_page_values(data: bytes) -> None:
    load_kernels()
    chunk, source = _chunk(data)
    rows = 300 if data[:1] >= b"\x40" else chunk.num_values
    chunk = replace(chunk, encodings=chunk.encodings | ENCODINGS[chunk.physical_type], num_values=rows)
    arrow_type = _ARROW_TYPES[chunk.physical_type]
    if has_readable_values(chunk, arrow_type):
        for values in read_page_values(source, [chunk], arrow_type) or ():
            strings = pa.types.is_large_string(values.array.type)  # of any bytes, as pyarrow's are
            (values.array.view(pa.large_binary()) if strings else values.array).validate(full=True)
            assert values.rows is None or (values.rows > 0).all()


@_target(ValueError, IndexError, pa.ArrowException, OSError)
def parquet_page_rows(data: bytes) -> None:
    """As many values as are counted, whatever pages say, and a null for each other row."""
    load_kernels()
    chunk, source = _chunk(data)
    chunk = replace(chunk, encodings=chunk.encodings | ENCODINGS[chunk.physical_type])
    arrow_type = _ARROW_TYPES[chunk.physical_type]
    if has_readable_rows(chunk, arrow_type):
        arrays = list(read_page_rows(source, chunk, arrow_type))
        for array in arrays:
            (array.view(pa.large_binary()) if pa.types.is_large_string(array.type) else array).validate(full=True)
        assert sum(map(len, arrays)) == chunk.num_values
        found = list(read_page_values(source, [chunk], arrow_type) or ())
        counted = sum(len(values.array) if values.rows is None else int(values.rows.sum()) for values in found)
        assert not found or counted == sum(len(array) - array.null_count for array in arrays)


@_target(CorruptDataFileError, pa.ArrowException, OSError)
def parquet_long_strings(data: bytes) -> None:
    chunk, source = _chunk(data)
    if has_readable_pages(chunk):
        for strings, rows in read_long_strings(source, chunk):
            strings.validate(full=True)
            assert len(strings) == len(rows)
