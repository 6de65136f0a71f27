"""Scan tasks survive the JSON of appendix C."""

import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.tables.base import Column
from puffin.tables.scan_task import ContentFile, FileScanTask, ScanBatch, ScanContext, decode_batch, encode_batch

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
    content=st.sampled_from(["DATA", "POSITION_DELETES"]),
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
TASKS = st.builds(FileScanTask, FILES, st.lists(FILES, max_size=2).map(tuple), COUNT, COUNT)
BATCHES = st.builds(
    ScanBatch,
    columns=st.lists(COLUMNS, max_size=3).map(tuple),
    tasks=st.lists(TASKS, max_size=3).map(tuple),
    context=st.builds(
        ScanContext,
        specs=st.dictionaries(st.integers(0, 9), FIELDS, max_size=2),
        name_mapping=st.none() | st.just([{"field-id": 1, "names": ["a", "b"], "fields": [{"names": []}]}]),
        io_properties=st.dictionaries(TEXT, TEXT, max_size=2),
        by_name=st.booleans(),
    ),
)


@settings(max_examples=100)
@given(BATCHES)
def test_batch_survives_json(batch):
    assert decode_batch(encode_batch(batch)) == batch


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
    assert json.loads(encode_batch(BATCH)) == {
        "columns": [{"field-id": 3, "name": "st.x", "type": "int", "path": [2, 3], "defaults": [None, 7]}],
        "specs": [{"spec-id": 1, "fields": [{"source-id": 3, "field-id": 1000, "name": "x", "transform": "identity"}]}],
        "name-mapping": None,
        "io-properties": {"s3.region": "r"},
        "tasks": [
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
        ],
    }


def test_json_is_one_line_of_text():
    assert "\n" not in encode_batch(BATCH)
    with pytest.raises((ValueError, KeyError)):
        decode_batch(pickle.dumps(BATCH).decode("latin-1"))
