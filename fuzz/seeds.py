"""
Where mutation starts: sound bytes of each target's format, by the engines in ``fixtures/`` and by our own writers.

Beside them stands the corpus, ``fixtures/fuzz-corpus``: an archive per target of what coverage-guided runs have come
upon, and of each input that was once answered wrongly.
"""

from __future__ import annotations

import functools
import gzip
import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from puffin.errors import CorruptPuffinError
from puffin.files.parquet.parquet_footer import read_footer
from puffin.format import LZ4, ROW_COUNTS_V1, ZSTD, Blob, PuffinReader, PuffinWriter, compression
from puffin.format.deletion_vector import DeletionVector
from puffin.index import manifest as index_manifests
from puffin.index.segment import SegmentColumn, SegmentEntry
from puffin.sketches.counted_hashes import hash_rows
from puffin.sketches.distribution_builder import DistributionBuilder
from puffin.sketches.partition_sketches import PartitionSketchesBuilder
from puffin.sketches.row_counts import RowCountsBuilder
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.kinds.joint import JointKind
from puffin.statistics.private_state.manifest import BlobKey, Manifest, Part, StoredKey, encode
from puffin.tables.base import Column

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures"
CORPUS = FIXTURES / "fuzz-corpus"
_TABLES = FIXTURES / "tables-spark-3.5-iceberg-1.10" / "iceberg-spark.tar.gz"

_PREAMBLE_SIZE = 8  # of a deletion vector: length and magic
_CRC_SIZE = 4


def seeds(target: str) -> list[bytes]:
    """What a run of a target starts with: the sound bytes, and then its corpus."""
    return [*sound_bytes(target), *corpus(target).values()]


def sound_bytes(target: str) -> list[bytes]:
    """Files of the target's format, or what stands in its place, as others and we write them."""
    return list(_SOUND[target]())


def corpus(target: str) -> dict[str, bytes]:
    """The inputs that are kept of a target, by name; none if it has none yet."""
    path = CORPUS / f"{target}.zip"
    if not path.exists():
        return {}
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in sorted(archive.namelist())}


def keep(target: str, inputs: Mapping[str, bytes]) -> None:
    """Make these the corpus of a target; the archive depends on nothing else."""
    CORPUS.mkdir(exist_ok=True)
    with zipfile.ZipFile(CORPUS / f"{target}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(inputs):
            archive.writestr(zipfile.ZipInfo(name), inputs[name], zipfile.ZIP_DEFLATED)


# --- sound bytes --------------------------------------------------------------------------------------------------


def _fixture(*patterns: str) -> list[bytes]:
    return [path.read_bytes() for pattern in patterns for path in sorted(FIXTURES.glob(pattern))]


@functools.cache
def _spark_files(suffix: str) -> tuple[bytes, ...]:
    """The files of the tables that Spark wrote whose names end so, the smallest first."""
    with tarfile.open(_TABLES) as archive:
        members = [member for member in archive if member.isfile() and member.name.endswith(suffix)]
        return tuple(sorted((_extracted(archive, member) for member in members), key=len))


def _extracted(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None
    return file.read()


def _puffin_files() -> list[bytes]:
    return [*_fixture("puffin-java/*.bin", "puffin-recipe/*.bin"), _own_file(None), _own_file(LZ4), _own_file(ZSTD)]


def _own_file(codec: str | None) -> bytes:
    sink = io.BytesIO()
    writer = PuffinWriter(sink, properties={"created-by": "seeds"})
    for type_, payload in (("apache-datasketches-theta-v1", _sketch(5).to_bytes()), (ROW_COUNTS_V1, _row_counts(5))):
        writer.add(
            Blob(
                type=type_,
                fields=(1,),
                snapshot_id=10,
                sequence_number=1,
                payload=payload,
                compression_codec=codec,
                properties={"ndv": "5"} if "theta" in type_ else {},
            )
        )
    writer.finish()
    return sink.getvalue()


def _footer_payloads() -> Iterator[bytes]:
    for file in _puffin_files():
        try:
            reader = PuffinReader(file)
            if not reader.footer_compressed:
                yield file[-reader.footer_size + 4 : -12]
        except CorruptPuffinError:
            continue


def _stored_blobs() -> list[bytes]:
    payloads = (b"", b"a", b"ab" * 300, _sketch(20).to_bytes())
    codecs = (None, LZ4, ZSTD)
    return [bytes([i]) + compression.compress(codec, p) for i, codec in enumerate(codecs) for p in payloads]


def _sketch(count: int) -> ThetaSketch:
    return ThetaSketch.from_arrow(pa.array(range(count), pa.int64()), "long", lg_k=5)


def _row_counts(count: int) -> bytes:
    builder = RowCountsBuilder(64)
    for hashes, rows, _ in hash_rows(pa.array([i // 2 for i in range(2 * count)], pa.int64()), "long"):
        builder.update_hashes(hashes, rows)
    return builder.compact().to_bytes()


def _partition_sketches() -> Iterator[bytes]:
    for partitions in (0, 1, 3):
        builder = PartitionSketchesBuilder(4)
        for partition in range(partitions):
            sketch = _sketch(4 + 20 * partition)
            builder.add((0, json.dumps({"1000": partition}, separators=(",", ":"))), sketch.theta, sketch.hashes)
        yield builder.compact().to_bytes()


def _distributions() -> Iterator[bytes]:
    for texts in ([], ["a", "b", "b"], [str(i % 9) * (i % 70) for i in range(40)]):
        builder = DistributionBuilder(8)
        for hashed in hash_rows(pa.array(texts, pa.string()), "string"):
            builder.update_hashed(*hashed)
        found = builder.compact().cut()
        yield found.to_bytes()
        yield found.without_values().to_bytes()


def _joint_sketches() -> Iterator[bytes]:
    columns = [Column(i, f"c{i}", "long", (i,), (None,)) for i in (1, 2, 7)]
    for sets in ((), (columns[:2],), (columns[:2], columns)):
        builder = JointKind(5, tuple(map(tuple, sets))).start()
        builder.update_rows({i: pa.array([i, None, 3, 3], pa.int64()) for i in (1, 2, 7)})  # type: ignore[attr-defined]
        yield builder.compact().to_bytes()


def _deletion_vectors() -> list[bytes]:
    ours: tuple[Sequence[int], ...] = ([], [0], [1, 5, 70000], range(5000), [1 << 33, (1 << 40) + 3])
    return [
        *_fixture("deletion-vectors-java/*.bin"),
        *(DeletionVector.from_positions(rows).to_bytes() for rows in ours),
    ]


def _metadata_documents() -> list[bytes]:
    spark = [json.dumps(json.loads(document), separators=(",", ":")).encode() for document in _spark_files(".json")[:4]]
    return [*spark, gzip.compress(spark[0], mtime=0), *_fixture("table-metadata-java/*.json")]


def _manifests(*, lists: bool) -> list[bytes]:
    files = [file for file in _spark_files(".avro") if (b"manifest_path" in file) == lists]
    return [*files[:2], *files[-2:]]


def _log_entries() -> Iterator[bytes]:
    fields = [{"name": "a", "type": "long", "nullable": True, "metadata": {}}]
    vector = {"storageType": "u", "pathOrInlineDv": "0" * 20, "offset": 1, "sizeInBytes": 40, "cardinality": 2}
    add = {"path": "a.parquet", "partitionValues": {"p": "1"}, "size": 10, "dataChange": True}
    actions: list[Mapping[str, object]] = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}},
        {
            "metaData": {
                "id": "6e3dd8b0",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": ["p"],
                "configuration": {"delta.columnMapping.mode": "none"},
            }
        },
        {"add": {**add, "stats": '{"numRecords":3}', "deletionVector": vector}},
        {"remove": {**add, "deletionTimestamp": 1}},
        {"commitInfo": {"inCommitTimestamp": 5}},
        {"sidecar": {"path": "b.parquet", "sizeInBytes": 1}},
    ]
    yield from (json.dumps(action).encode() for action in actions)
    yield "\n".join(map(json.dumps, actions)).encode()


def _checkpoints() -> list[bytes]:
    rows = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "1", "schemaString": "{}", "partitionColumns": ["p"], "configuration": [("a", "b")]}},
        {"add": {"path": "a.parquet", "size": 10, "dataChange": False, "stats": '{"numRecords":3}'}},
    ]
    schema = pa.schema(
        {
            "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
            "metaData": pa.struct(
                {
                    "id": pa.string(),
                    "schemaString": pa.string(),
                    "partitionColumns": pa.list_(pa.string()),
                    "configuration": pa.map_(pa.string(), pa.string()),
                }
            ),
            "add": pa.struct(
                {"path": pa.string(), "size": pa.int64(), "dataChange": pa.bool_(), "stats": pa.string()},
            ),
        }
    )
    return [_parquet(pa.Table.from_pylist(rows, schema), compression=codec) for codec in ("none", "zstd")]


def _parquet(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def _manifests_of_private_state() -> Iterator[bytes]:
    part = Part("9b1d0f3e-0000-4000-8000-00000000000a", 4096, 300)
    stored = StoredKey(part, 9), StoredKey(part, 9, (StoredKey(part, 11), StoredKey(part, 12)))
    for blobs in ({}, *({BlobKey(ROW_COUNTS_V1, field_id, 12): each for field_id in (1, 2)} for each in stored)):
        yield encode(Manifest("f8e1", "12-5f0c.stats", 8123, blobs))


def _index_manifests() -> Iterator[bytes]:
    """Without their checksums."""
    segment = SegmentEntry(
        id="9b1d0f3e-0000-4000-8000-00000000000a",
        column=SegmentColumn(1, "1", "long", "5f0c", 0.01),
        files=2,
        file_size=4096,
        directory_offset=3000,
        directory_length=800,
        directory_crc=5,
    )
    for columns, segments in (({}, ()), ({"1": 0.01}, (segment,))):
        yield index_manifests.encode(index_manifests.IndexManifest(7, "f8e1", columns, segments)).splitlines()[0]


def _index_directories() -> Iterator[bytes]:
    """Without their compression."""
    of_size = {"lg-blocks": 3, "rows-per-chunk": 4, "offsets": [4, 264], "files": ["a.parquet", "b.parquet"]}
    for classes in ([], [of_size], [of_size, {**of_size, "lg-blocks": 2, "offsets": [524]}]):
        yield json.dumps({"column": "1", "type": "long", "name-mapping": None, "classes": classes}).encode()


def _statistics_entries() -> Iterator[bytes]:
    blob = {"type": "x", "snapshot-id": 3, "sequence-number": 3, "fields": [1], "properties": {"ndv": "5"}}
    statistics = {
        "snapshot-id": 3,
        "statistics-path": "3-0.stats",
        "file-size-in-bytes": 100,
        "file-footer-size-in-bytes": 50,
        "blob-metadata": [blob],
    }
    entry = {"format-version": 1, "table-id": "1", "version": 3, "generation": 0, "statistics": statistics}
    yield json.dumps({**entry, "columns": [{"id": 1, "path": ["a", "b"]}]}).encode()


def _parquet_footers() -> list[bytes]:
    files = [*_fixture("parquet-writers/*.parquet"), *_spark_files(".parquet")[:2], *_checkpoints()]
    return [file[-8 - struct.unpack("<I", file[-8:-4])[0] : -8] for file in files]


def _parquet_pages() -> Iterator[bytes]:
    """Chunks as the targets take them: the choice of type, levels and codec, the dictionary's size, the pages."""
    columns = (pa.int32(), pa.int64(), pa.float64(), pa.string())
    for number, (codec, version) in enumerate((("none", "1.0"), ("snappy", "2.0"), ("gzip", "1.0"), ("zstd", "2.0"))):
        for place, type_ in enumerate(columns):
            values = pa.array([None, 1, 1, 2, 3] * 8, pa.int32()).cast(type_)
            for dictionary in (True, False):
                table, options = pa.table({"a": values}), {"compression": codec, "data_page_version": version}
                file = _parquet(table, use_dictionary=dictionary, **options)
                chunk = pq.read_metadata(io.BytesIO(file)).row_group(0).column(0)
                size = chunk.data_page_offset - chunk.dictionary_page_offset if dictionary else 0
                pages = file[4 : 4 + chunk.total_compressed_size]
                yield bytes([place | 4 | (0, 1, 2, 4)[number] << 3, min(size, 255)]) + pages


def _parquet_pages_of_every_encoding() -> Iterator[bytes]:
    """The same, and those of other encodings: enough values for blocks of differences, which are 128 long."""
    yield from _parquet_pages()
    columns = (pa.int32(), pa.int64(), pa.float64(), pa.string())
    encodings = ("DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")
    for place, encoding in ((0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (3, 2), (3, 3)):
        for step in (0, 1, 1 << 20):
            values = pa.array([None, *(step * (i * i % 251) for i in range(299))], pa.int64()).cast(columns[place])
            options = {"column_encoding": {"a": encodings[encoding]}, "compression": "none"}
            file = _parquet(pa.table({"a": values}), use_dictionary=False, **options)
            chunk = pq.read_metadata(io.BytesIO(file)).row_group(0).column(0)
            yield bytes([place | 4 | 12 << 3, 0]) + file[4 : 4 + chunk.total_compressed_size]


def _bloom_filters() -> Iterator[bytes]:
    """Headers with their bitsets."""
    for count in (1, 20, 300):
        options = {"a": {"ndv": count, "fpp": 0.01}}
        file = _parquet(pa.table({"a": list(range(count))}), use_dictionary=False, bloom_filter_options=options)
        chunk = read_footer(pq.read_metadata(io.BytesIO(file)))[0][0]
        assert chunk is not None
        yield file[chunk.bloom_filter_offset :][: chunk.bloom_filter_length]


def _page_headers() -> list[bytes]:
    return [pages[start : start + 60] for pages in _parquet_pages() for start in (2, 2 + pages[1])]


def _avro_data_files() -> Iterator[bytes]:
    """As the target takes them: how many rows, and the file."""
    types = {"i": "int", "l": "long", "d": "double", "f": "float", "s": "string", "b": "boolean", "y": "bytes"}
    fixed = {"type": "fixed", "name": "x", "size": 3}
    decimal = {"type": "fixed", "name": "c", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}
    inside = {"type": "record", "name": "st", "fields": [{"name": "a", "type": ["null", "long"], "field-id": 21}]}
    nested = {"x": fixed, "c": decimal, "st": inside, "m": {"type": "map", "values": "int"}}
    named = [*types.items(), *nested.items(), ("li", {"type": "array", "items": ["null", "string"]})]
    fields = [{"name": name, "type": ["null", type_], "field-id": i} for i, (name, type_) in enumerate(named, 1)]
    row = {
        "i": 1,
        "l": -(2**40),
        "d": 1.5,
        "f": 2.5,
        "s": "ab",
        "b": True,
        "y": b"c",
        "x": b"xyz",
        "c": Decimal("1.25"),
    }
    rows = [
        {**row, "st": {"a": 7}, "m": {"k": 1}, "li": ["q", None]},
        {"st": None},
        {"l": 2**63 - 1, "st": {"a": None}},
    ]
    for codec in ("null", "deflate", "bzip2"):
        sink = io.BytesIO()
        fastavro.writer(sink, {"type": "record", "name": "r", "fields": fields}, rows, codec=codec)
        yield bytes([len(rows)]) + sink.getvalue()


def _orc_files() -> Iterator[bytes]:
    moments = [None, 0, -1, 1, 10**12, -(10**15) - 7, *range(40), *[5] * 20]
    table = pa.table(
        {"t": pa.array(moments, pa.timestamp("us")), "u": pa.array([7] * len(moments), pa.timestamp("us"))}
    )
    for codec in ("uncompressed", "zlib", "snappy", "lz4", "zstd"):
        sink = io.BytesIO()
        orc.write_table(table, sink, compression=codec)
        yield sink.getvalue()
    yield from _fixture("orc-java/*.orc")


def _orc_streams() -> Iterator[bytes]:
    """As the target takes them: how many values, and a stream; of each encoding the specification's example."""
    patched_base = "8e132b2107d01e00147028323c46505a646e78828c96a0aab4befce8"
    for run in ("0a2710", "5e035ca1ab1edeadbeef", patched_base, "c609020222424246", "6100", "fe4445"):
        for count in (1, 4, 5, 10):
            yield count.to_bytes(2, "little") + bytes.fromhex(run)


def _scan_requests() -> Iterator[bytes]:
    """As Spark and pyiceberg write them, and in the form that the spec prefers."""
    reference = {"type": "reference", "name": "c3"}
    filters: list[object] = [
        True,
        {
            "type": "and",
            "left": {"type": "not-null", "term": "c1"},
            "right": {"type": "eq", "term": "c1", "value": 5},
        },
        {"type": "or", "left": {"type": "is-nan", "term": "c2"}, "right": {"type": "lt", "term": "c2", "value": -0.5}},
        {"type": "not", "child": {"type": "starts-with", "term": "c3", "value": "ab"}},
        {"type": "in", "term": "c4", "values": [19000, "2024-01-03"]},
        {"type": "gt-eq", "term": "c5", "value": "2024-01-03T00:00:00+00:00"},
        {"type": "not-in", "term": "c6", "values": ["12.50", "1.25"]},
        {"type": "eq", "term": {"type": "transform", "transform": "bucket[16]", "term": "c1"}, "value": 3},
        {"type": "eq", "left": reference, "right": {"type": "literal", "value": "x", "data-type": "string"}},
        {"type": "in", "child": reference, "values": {"type": "literals", "values": ["a", "b"]}},
    ]
    for filter_ in filters:
        yield json.dumps({"snapshot-id": 1, "select": ["c1"], "filter": filter_, "case-sensitive": False}).encode()


_SOUND: Mapping[str, Callable[[], Iterable[bytes]]] = {
    "puffin-file": _puffin_files,
    "puffin-footer-json": _footer_payloads,
    "puffin-blob": _stored_blobs,
    "puffin-verdict": _puffin_files,
    "theta-image": lambda: [
        *_fixture("theta-java/images/empty.bin", "theta-java/images/[ns]*.bin"),
        *(_sketch(count).to_bytes() for count in (0, 1, 5, 40)),
    ],
    "deletion-vector": _deletion_vectors,
    "deletion-vector-bitmaps": lambda: [vector[_PREAMBLE_SIZE:-_CRC_SIZE] for vector in _deletion_vectors()],
    "row-counts-image": lambda: [_row_counts(count) for count in (0, 1, 5)],
    "partition-sketches-image": _partition_sketches,
    "distribution-image": _distributions,
    "joint-sketches-image": _joint_sketches,
    "column-summary": lambda: [b'[3,1,null,16,"a","b"]', b"[3,0,0,24,-1.5,1e300]"],
    "table-metadata": _metadata_documents,
    "scan-request": _scan_requests,
    "manifest-list": lambda: _manifests(lists=True),
    "manifest": lambda: [kind + file for kind in (b"a", b"D") for file in _manifests(lists=False)],
    "delta-log-entry": _log_entries,
    "delta-checkpoint": _checkpoints,
    "delta-last-checkpoint": lambda: [b'{"version":0,"size":3}'],
    "delta-statistics-entry": _statistics_entries,
    "delta-field-ids": _statistics_entries,
    "private-state-manifest": _manifests_of_private_state,
    "index-manifest": _index_manifests,
    "index-directory": _index_directories,
    "step-summary": lambda: [
        b'[3,1,0,16,["same",1],["same",9],false]',
        b'[3,null,0,24,["float","-0x1.8p+0"],["float","inf"],true]',
        b'[0,0,0,0,["missing","NO_VALUE"],["bytes","00ff"],false]',
    ],
    "avro-data-file": _avro_data_files,
    "orc-timestamps": _orc_files,
    "orc-integers": _orc_streams,
    "parquet-footer-thrift": _parquet_footers,
    "parquet-bloom-filter": _bloom_filters,
    "parquet-page-header": _page_headers,
    "parquet-dictionary-page": _parquet_pages,
    "parquet-levels": lambda: [b"\1\x28\0\2\x50\1", b"\2\x10\0\4\5\xe4\xe4\xe4\xe4", b"\x09\x08\0\xff\3" + bytes(9)],
    "parquet-page-values": _parquet_pages_of_every_encoding,
    "parquet-page-rows": _parquet_pages_of_every_encoding,
    "parquet-long-strings": _parquet_pages,
}
