"""Batches come out of documents as they went in, and documents stay small whatever the table."""

import dataclasses
import json
import random
import zlib
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.tables import scan_documents
from puffin.tables.base import Column
from puffin.tables.scan_documents import MOST_BYTES, BatchPacker, unpack_batch
from puffin.tables.scan_task import DATA, EQUALITY_DELETES, PARQUET, ContentFile, FileScanTask, ScanBatch, ScanContext

TEXT = st.text(max_size=20)
COUNT = st.integers(0, 2**62)
JSON_VALUES = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT | st.floats(allow_nan=False)
FIELD = st.fixed_dictionaries({"source-id": st.integers(1, 9), "field-id": st.integers(1000, 1009), "transform": TEXT})
FIELDS = st.lists(FIELD, max_size=3)
COLUMNS = st.builds(
    Column,
    field_id=st.integers(1, 2**31 - 1),
    name=TEXT,
    type=TEXT,
    path=st.lists(st.integers(1, 99), min_size=1, max_size=3).map(tuple),
    defaults=st.lists(JSON_VALUES | st.just({}), min_size=1, max_size=3).map(tuple),
)
FILES = st.builds(
    ContentFile,
    content=st.sampled_from(["DATA", "POSITION_DELETES", "EQUALITY_DELETES"]),
    file_path=TEXT,
    file_format=st.sampled_from(["PARQUET", "PUFFIN"]),
    spec_id=st.integers(0, 9),
    partition=st.dictionaries(st.integers(1000, 1009).map(str), JSON_VALUES, max_size=3),
    record_count=COUNT,
    file_size_in_bytes=COUNT,
    split_offsets=st.lists(COUNT, max_size=3).map(tuple),
    referenced_data_file=st.none() | TEXT,
    content_offset=st.none() | COUNT,
    content_size_in_bytes=st.none() | COUNT,
)
DELETES = st.builds(
    lambda file, columns: dataclasses.replace(
        file, equality_columns=columns if file.content == EQUALITY_DELETES else ()
    ),
    FILES,
    st.sets(st.integers(1, 3), max_size=2).map(
        lambda ids: tuple(Column(i, f"c{i}", "int", (i,), (None,)) for i in ids)
    ),
)
CONTEXTS = st.builds(
    ScanContext,
    specs=st.dictionaries(st.integers(0, 9), FIELDS, max_size=2),
    name_mapping=st.none() | st.just([{"field-id": 1, "names": ["a", "b"], "fields": [{"names": []}]}]),
    io_properties=st.dictionaries(TEXT, TEXT, max_size=2),
    by_name=st.booleans(),
    rebases_dates=st.booleans(),
)


@st.composite
def batches(draw):
    """Batches whose tasks share delete files, and the most bytes of a document."""
    pool = draw(st.lists(DELETES, max_size=20))
    some = st.builds(lambda first, end: tuple(pool[first:end]), *[st.integers(0, 20)] * 2)
    picked = st.lists(st.sampled_from(pool), max_size=12).map(tuple) if pool else st.just(())
    tasks = st.builds(FileScanTask, FILES, some | picked, COUNT, COUNT, st.none() | some | picked)
    return (
        draw(st.lists(st.tuples(st.lists(COLUMNS, max_size=3).map(tuple), st.lists(tasks, max_size=4)), max_size=3)),
        draw(CONTEXTS),
        draw(st.sampled_from([1, 300, MOST_BYTES])),
    )


@settings(max_examples=60)
@given(batches())
def test_batches_survive_the_way_in_documents(given):
    scans, context, most_bytes = given
    with mock.patch.object(scan_documents, "MOST_BYTES", most_bytes), mock.patch.object(scan_documents, "_CHUNK", 3):
        packer = BatchPacker(context, [columns for columns, _ in scans], [task for _, of in scans for task in of])
        for number, (columns, tasks) in enumerate(scans):
            documents = list(packer.documents(tasks))
            arrived = [unpack_batch(packer.shared, number, document) for document in documents]
            assert [task for batch in arrived for task in batch.tasks] == tasks
            assert all((batch.columns, batch.context) == (columns, context) for batch in arrived)
            assert all(len(b.tasks) <= 1 or len(d) <= most_bytes for b, d in zip(arrived, documents, strict=True))


BATCH = ScanBatch(
    columns=(Column(3, "st.x", "int", (2, 3), (None, 7)),),
    tasks=(
        FileScanTask(
            ContentFile(
                content="DATA",
                file_path="s3://b/d.parquet",
                file_format="PARQUET",
                spec_id=1,
                partition={"1000": None},
                record_count=0,
                file_size_in_bytes=1024,
                split_offsets=(4, 512),
            ),
            (
                ContentFile(
                    content="POSITION_DELETES",
                    file_path="s3://b/v.puffin",
                    file_format="PUFFIN",
                    spec_id=1,
                    partition={},
                    record_count=2,
                    file_size_in_bytes=99,
                    referenced_data_file="s3://b/d.parquet",
                    content_offset=4,
                    content_size_in_bytes=50,
                ),
            ),
            4,
            508,
        ),
    ),
    context=ScanContext(
        {1: [{"source-id": 3, "field-id": 1000, "name": "x", "transform": "identity"}]}, None, {"s3.region": "r"}
    ),
)


def test_keys_are_those_of_appendix_c():
    packer = BatchPacker(BATCH.context, [BATCH.columns], BATCH.tasks)
    parts = packer.shared.context, *packer.shared.columns, *packer.documents(BATCH.tasks)
    assert packer.shared.delete_files == ()  # a deletion vector goes with its data file
    context, columns, tasks = (json.loads(zlib.decompress(part)) for part in parts)
    assert context == {
        "specs": [{"spec-id": 1, "fields": [{"source-id": 3, "field-id": 1000, "name": "x", "transform": "identity"}]}],
        "name-mapping": None,
        "io-properties": {"s3.region": "r"},
    }
    assert columns == [{"field-id": 3, "name": "st.x", "type": "int", "path": [2, 3], "defaults": [None, 7]}]
    assert tasks == [
        {
            "data-file": {
                "content": "DATA",
                "file-path": "s3://b/d.parquet",
                "file-format": "PARQUET",
                "spec-id": 1,
                "partition": {"1000": None},
                "record-count": 0,
                "file-size-in-bytes": 1024,
                "split-offsets": [4, 512],
            },
            "delete-files": [
                {
                    "content": "POSITION_DELETES",
                    "file-path": "s3://b/v.puffin",
                    "file-format": "PUFFIN",
                    "spec-id": 1,
                    "partition": {},
                    "record-count": 2,
                    "file-size-in-bytes": 99,
                    "referenced-data-file": "s3://b/d.parquet",
                    "content-offset": 4,
                    "content-size-in-bytes": 50,
                }
            ],
            "start": 4,
            "length": 508,
        }
    ]


def wide_scan(columns, files, draw):
    """Columns, a context that names each of them, and a task for each data file with all younger delete files."""
    schema = tuple(Column(i, f"some_column_{i}", "string", (i,), (None,)) for i in range(1, columns + 1))
    mapping = [{"field-id": column.field_id, "names": [column.name]} for column in schema]

    def file(content, **fields):
        path = f"s3://bucket/db/table/data/{draw.getrandbits(128):032x}.parquet"
        place = {"file_format": PARQUET, "spec_id": 0, "partition": {"1000": draw.randrange(9)}}
        size = {"record_count": draw.randrange(10**6), "file_size_in_bytes": draw.randrange(10**9)}
        return ContentFile(content=content, file_path=path, **place, **size, **fields)

    deletes = [file(EQUALITY_DELETES, equality_columns=schema[:2]) for _ in range(files)]
    tasks = [FileScanTask(file(DATA, split_offsets=(4,)), tuple(deletes[first:]), 0, 9) for first in range(files)]
    return schema, ScanContext({}, mapping, {}), draw.sample(tasks, files)


def test_documents_of_wide_tables_with_many_deletes_are_small_and_grow_with_the_files():
    totals = []
    for files in (500, 2000):
        schema, context, tasks = wide_scan(2000, files, random.Random(files))
        packer = BatchPacker(context, [schema], tasks)
        documents = [*packer.documents(tasks[: files // 2]), *packer.documents(tasks[files // 2 :])]
        assert max(map(len, documents)) <= MOST_BYTES
        shared = packer.shared.context, *packer.shared.columns, *packer.shared.delete_files
        assert max(map(len, shared)) <= MOST_BYTES
        totals.append(sum(map(len, documents)) + sum(map(len, packer.shared.delete_files)))
        assert unpack_batch(packer.shared, 0, documents[0]).tasks[0] == tasks[0]
    assert totals[1] <= 4.2 * totals[0]
