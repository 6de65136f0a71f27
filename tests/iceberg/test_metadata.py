"""Table metadata of versions 1 to 3 as a table state; snapshots by id, name and time."""

import gzip

import pytest

from puffin.errors import CorruptMetadataError, SnapshotNotFound, UnsupportedTableError
from puffin.iceberg.metadata.document import decode_document, encode_document, parse_state
from puffin.tables.base import SnapshotSelector
from puffin.tables.document import current_schema, partition_specs

BLOB = {
    "type": "apache-datasketches-theta-v1",
    "snapshot-id": 2,
    "sequence-number": 2,
    "fields": [1],
    "properties": {"ndv": "5"},
}
DOCUMENT = {
    "format-version": 2,
    "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    "location": "s3://bucket/t/",
    "last-sequence-number": 3,
    "current-schema-id": 1,
    "schemas": [
        {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": True, "type": "int"}]},
        {"type": "struct", "schema-id": 1, "fields": [{"id": 1, "name": "b", "required": True, "type": "long"}]},
    ],
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "properties": {"k": "v"},
    "current-snapshot-id": 3,
    "snapshots": [
        {
            "snapshot-id": 1,
            "timestamp-ms": 100,
            "sequence-number": 1,
            "manifest-list": "l1",
            "summary": {"operation": "append"},
        },
        {"snapshot-id": 2, "timestamp-ms": 200, "sequence-number": 2, "manifest-list": "l2", "parent-snapshot-id": 1},
        {"snapshot-id": 3, "timestamp-ms": 400, "sequence-number": 3, "manifest-list": "l3", "parent-snapshot-id": 1},
    ],
    "snapshot-log": [
        {"snapshot-id": 1, "timestamp-ms": 100},
        {"snapshot-id": 2, "timestamp-ms": 200},
        {"snapshot-id": 1, "timestamp-ms": 300},
        {"snapshot-id": 3, "timestamp-ms": 400},
    ],
    "refs": {
        "main": {"snapshot-id": 3, "type": "branch"},
        "old": {"snapshot-id": 1, "type": "tag"},
        "lost": {"snapshot-id": 9, "type": "tag"},
    },
    "statistics": [
        {
            "snapshot-id": 2,
            "statistics-path": "s3://bucket/t/x.stats",
            "file-size-in-bytes": 413,
            "file-footer-size-in-bytes": 42,
            "blob-metadata": [BLOB],
        },
        {
            "snapshot-id": 2,
            "statistics-path": "second",
            "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
        },
    ],
}


def changed(**changes):
    return {key: value for key, value in (DOCUMENT | changes).items() if value is not ...}


def parse(document):
    return parse_state(document, "v1.metadata.json")


def test_document_becomes_a_state():
    state = parse(DOCUMENT)
    assert (state.location, state.properties, state.current_snapshot_id) == ("s3://bucket/t", {"k": "v"}, 3)
    assert [(c.name, c.type) for c in state.columns] == [("b", "long")]
    assert state.snapshots[1].operation == "append"
    assert (state.snapshots[3].parent_id, state.snapshots[3].sequence_number) == (1, 3)
    assert [s.snapshot_id for s in state.ancestors(3)] == [3, 1]
    assert state.document is DOCUMENT


@pytest.mark.parametrize(
    ("selector", "snapshot_id"),
    [
        ({}, 3),
        ({"snapshot_id": 2}, 2),
        ({"ref": "main"}, 3),
        ({"ref": "old"}, 1),
        ({"as_of_ms": 100}, 1),
        ({"as_of_ms": 299}, 2),
        ({"as_of_ms": 300}, 1),
        ({"as_of_ms": 10**15}, 3),
    ],
    ids=str,
)
def test_snapshot_is_selected_by_id_branch_tag_or_time(selector, snapshot_id):
    assert parse(DOCUMENT).select_snapshot(SnapshotSelector(**selector)).snapshot_id == snapshot_id


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ({"snapshot_id": 7}, "no snapshot 7"),
        ({"ref": "nope"}, "no branch or tag 'nope'; it has lost, main, old"),
        ({"ref": "lost"}, "no snapshot 9"),
        ({"as_of_ms": 99}, "no snapshot as old as 1970-01-01"),
    ],
    ids=str,
)
def test_missing_snapshot_is_not_found(selector, message):
    with pytest.raises(SnapshotNotFound, match=f"s3://bucket/t: {message}"):
        parse(DOCUMENT).select_snapshot(SnapshotSelector(**selector))


@pytest.mark.parametrize("current", [-1, None, ...], ids=["minus one", "null", "absent"])
def test_table_without_a_current_snapshot_has_no_main_branch(current):
    """Version 1 writers say -1."""
    state = parse(changed(**{"current-snapshot-id": current, "snapshots": ..., "refs": ..., "snapshot-log": ...}))
    assert state.current_snapshot_id is None
    assert state.select_snapshot(SnapshotSelector()) is None
    assert state.refs == {}


def test_version_1_documents_have_one_schema_one_spec_and_no_sequence_numbers():
    document = changed(
        **{
            "format-version": 1,
            "table-uuid": ...,
            "schemas": ...,
            "current-schema-id": ...,
            "schema": {"type": "struct", "fields": [{"id": 5, "name": "c", "required": True, "type": "int"}]},
            "partition-specs": ...,
            "partition-spec": [{"name": "p", "transform": "identity", "source-id": 5}],
            "refs": ...,
            "snapshots": [{"snapshot-id": 3, "timestamp-ms": 1, "manifests": ["m"]}],
        }
    )
    state = parse(document)
    assert (state.uuid, [c.field_id for c in state.columns], state.refs) == (None, [5], {"main": 3})
    assert (state.snapshots[3].sequence_number, state.snapshots[3].manifest_list) == (0, None)
    assert partition_specs(document)[0] == [{"field-id": 1000, "source-id": 5, "name": "p", "transform": "identity"}]


def test_schema_list_wins_over_the_single_schema():
    assert current_schema(changed(schema={"schema-id": 1, "fields": []})) is DOCUMENT["schemas"][1]


def test_first_of_two_statistics_entries_of_a_snapshot_counts():
    entry = parse(DOCUMENT).statistics[2]
    assert (entry.statistics_path, entry.file_size_in_bytes, entry.file_footer_size_in_bytes) == (
        "s3://bucket/t/x.stats",
        413,
        42,
    )
    assert entry.sketches[1].properties == {"ndv": "5"}
    assert 2 not in entry.sketches


@pytest.mark.parametrize("compress", [True, False])
def test_document_survives_its_file(compress):
    document = changed(**{"unknown-field": {"ü": [1, None]}})
    data = encode_document(document, compress=compress)
    assert data.startswith(b"\x1f\x8b") == compress
    assert decode_document(data, "x") == document


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"\xff\xfe",
        b"[" * 100_000,
        gzip.compress(b"{}", mtime=0)[:-3],
        gzip.compress(b"{", mtime=0),
        b"\x1f\x8b",
        b"{}" + b"\0",
    ],
    ids=lambda data: repr(data[:12]),
)
def test_bytes_that_are_no_document_are_corrupt(data):
    with pytest.raises(CorruptMetadataError, match=r"^v1\.metadata\.json: expected") as caught:
        decode_document(data, "v1.metadata.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", [4, 99])
def test_newer_format_version_is_refused(version):
    with pytest.raises(UnsupportedTableError, match=f"expected format-version 1 to 3, found {version}"):
        parse(changed(**{"format-version": version}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("format-version", v) for v in (..., None, "2", 0, True)),
        *(("location", v) for v in (..., None, 5)),
        *(("schemas", v) for v in (..., [], [{}], 7, [7])),
        *(("properties", v) for v in ("x", [1], {"k": 1})),
        *(("snapshots", v) for v in (7, [7], [{}], {"a": 1}, [{"snapshot-id": "1", "timestamp-ms": 1}])),
        *(("refs", v) for v in ([1], {"main": 7}, {"main": {}}, {"main": {"snapshot-id": "3"}})),
        *(("snapshot-log", v) for v in (7, [7], [{}], [{"snapshot-id": 1, "timestamp-ms": "x"}])),
        *(("current-snapshot-id", v) for v in ("3", [3], {})),
        *(("statistics", v) for v in (7, [7], [{}], [DOCUMENT["statistics"][0] | {"blob-metadata": [7]}])),
        *(("statistics", [DOCUMENT["statistics"][0] | {k: None}]) for k in DOCUMENT["statistics"][0]),
        *(("statistics", [DOCUMENT["statistics"][0] | {"blob-metadata": [BLOB | {k: 1.5}]}]) for k in BLOB),
    ],
    ids=str,
)
def test_field_of_another_form_is_corrupt(key, value):
    with pytest.raises(CorruptMetadataError, match=r"^v1\.metadata\.json: ") as caught:
        parse(changed(**{key: value}))
    assert "Error(" not in str(caught.value)


def test_error_in_a_schema_names_the_file():
    with pytest.raises(CorruptMetadataError, match=r"^v1\.metadata\.json: schema: a field of the root has no id"):
        parse(changed(schemas=[{**DOCUMENT["schemas"][-1], "fields": [{"id": 1}]}]))
