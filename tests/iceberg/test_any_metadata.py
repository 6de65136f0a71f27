"""
Any value anywhere in a metadata document is understood or refused by name.

The document is that of a table with manifests on disk, so that all that reads it is asked: plans, changes, lookups,
partition statistics, commits.
"""

import copy
import dataclasses
import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.errors import CorruptMetadataError, FileNotFound, PuffinError
from puffin.iceberg.catalogs.file import IcebergMetadataFile
from puffin.iceberg.commit.patch import (
    next_metadata_location,
    partition_statistics_path,
    statistics_path,
    with_statistics,
)
from puffin.iceberg.metadata.document import decode_document, encode_document, parse_state
from puffin.iceberg.scan.manifest_lists import manifest_files
from puffin.lookup import Question
from puffin.lookup.planner import answer_from
from puffin.storage import store_for
from puffin.tables.base import BlobEntry, PartitionStatisticsEntry, SnapshotSelector, StatisticsEntry
from puffin.tables.commit import RetryPolicy
from tests.iceberg.partition_files import partition_statistics_entry

BLOB = {
    "type": "apache-datasketches-theta-v1",
    "snapshot-id": 1,
    "sequence-number": 1,
    "fields": [1],
    "properties": {"ndv": "9", "puffin-sidecar.type": "long", "puffin-sidecar.reading": "1"},
}
ENTRY = StatisticsEntry(
    *(2, "file:///nowhere/2.stats", 100, 50),
    (BlobEntry("apache-datasketches-theta-v1", 2, 2, (1,), {"ndv": "9"}),),
    PartitionStatisticsEntry(2, "file:///nowhere/2.parquet", 100),
)


def table_with_history(make_table, version):
    """Two schemas, two partition specs, two snapshots, a tag, statistics of both kinds, a log of each kind."""
    columns = [(1, "id", "long"), (2, "p", "string"), (3, "st", [(4, "d", "date", "2024-01-01")])]
    table = make_table(columns, version=version, spec=[(2, "identity"), (1, "bucket[4]")])
    table.document["partition-specs"].append({"spec-id": 1, "fields": []})
    table.evolve([*columns, (5, "late", "decimal(9, 2)")])
    first = table.data(table.root / "a.parquet", record_count=9, file_size_in_bytes=10, partition=("x", 3))
    second = table.data(table.root / "b.parquet", record_count=9, file_size_in_bytes=10, spec_id=1)
    deletes = {"content": 2, "equality_ids": [1], "sequence_number": 2, "file_path": str(table.root / "c.parquet")}
    table.snapshot(first)
    table.snapshot(first, second, *([second | deletes] if version > 1 else []))
    older, newer = table.document["snapshots"]
    older |= {"schema-id": 0}
    newer |= {"schema-id": 1, "parent-snapshot-id": 1}
    newer["summary"] |= {"total-records": "18", "added-records": "9"}
    if version == 1:
        older["manifests"] = [m.manifest_path for m in manifest_files(older.pop("manifest-list"), store_for)]
    statistics = {"snapshot-id": 1, "statistics-path": "file:///nowhere/1.stats", "blob-metadata": [BLOB]}
    table.document |= {
        "last-updated-ms": 2000,
        "refs": {"old": {"snapshot-id": 1, "type": "tag"}},
        "properties": {
            "schema.name-mapping.default": '[{"field-id": 1, "names": ["id"]}]',
            "commit.retry.num-retries": "2",
            "write.metadata.path": f"{table.root}/elsewhere",
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "1",
        },
        "metadata-log": [{"timestamp-ms": 1000, "metadata-file": f"{table.root}/v1.metadata.json"}],
        "statistics": [statistics | {"file-size-in-bytes": 100, "file-footer-size-in-bytes": 50}],
        "partition-statistics": [
            {"snapshot-id": 1, "statistics-path": "file:///nowhere/1.parquet", "file-size-in-bytes": 100}
        ],
        "unknown": {"of": ["another", 1.5, None]},
    }
    return table


def uses(state):
    """Everything that can be done with the state of a table, separately."""
    opened = IcebergMetadataFile(state.metadata_location)._bound(state, SnapshotSelector())
    selectors = [SnapshotSelector(snapshot_id=1), SnapshotSelector(ref="old"), SnapshotSelector(as_of_ms=1500)]
    for selector in (SnapshotSelector(), *selectors):
        for options in ({"max_staleness": 1}, {"manifests": True}):
            question = Question(opened.name, selector=selector, **options)
            yield lambda question=question: answer_from(opened.of(question.selector), question)
    yield lambda: answer_from(opened, Question(opened.name, ["id"], partitions=["p0=x"]))
    yield lambda: answer_from(opened, Question(opened.name, ["st.d"], where="id > 3 and p = 'x'"))
    for snapshot in state.snapshots.values():
        at = opened.of(SnapshotSelector(snapshot_id=snapshot.snapshot_id))
        yield lambda at=at: at.tasks
        yield at.partition_statistics_writer
        yield lambda snapshot=snapshot: opened.certain_values(snapshot, state.columns)
        yield lambda snapshot=snapshot: state.column_type_at(snapshot, 1)
        yield lambda at=at: at.changes_since(state.snapshot(1))
        yield lambda at=at: at.moved_since(state.snapshot(1))
    yield opened.keeps_partition_statistics
    yield lambda: opened.scan_context
    yield lambda: (statistics_path(state, 2), partition_statistics_path(state, 2))
    yield lambda: partition_statistics_entry(state.document, 1)
    yield lambda: (RetryPolicy.of(state).wait_seconds(5), RetryPolicy.of_status_checks(state))
    yield lambda: next_metadata_location(state, compress=False)
    yield lambda: check_next(with_statistics(state, ENTRY, 3000).document)


def check_next(document):
    """Check that a commit is valid JSON for any reader, and Iceberg metadata for us."""
    text = encode_document(document, compress=False).decode()
    json.loads(text, parse_constant=pytest.fail)
    following = parse_state(decode_document(text.encode(), "v3.metadata.json"), "v3.metadata.json")
    assert following.statistics[2] == dataclasses.replace(ENTRY, partitions=None)


def read_and_use(text, location):
    state = parse_state(decode_document(text.encode(), location), location)
    for use in uses(state):
        with suppress(PuffinError):
            use()


def places(value, path=()):
    """The path of every value inside of a JSON document."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*path, key))


def with_token(document, path, token):
    """The document as text with a JSON token in one place, or without the place if the token is None."""
    changed = copy.deepcopy(document)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    if token is None:
        holder.pop(path[-1])
        return json.dumps(changed)
    holder[path[-1]] = "@here@"
    return json.dumps(changed).replace('"@here@"', token)


TOKENS = [
    *("null", "true", "false", '""', '"x"', '"1"', '"-1"', '"\\ud800"', f'"{"9" * 30}"'),
    *("[]", "[[]]", "[null]", "[7]", "[{}]", "{}", '{"": {}}', '{"x": 7}', "[" * 300 + "]" * 300),
    *("0", "-0", "-1", "7", "1.5", "-0.0", "1e2", "1e-400"),
    *(str(2**31), str(2**63 - 1), str(2**63), str(-(2**63) - 1), "1" + "0" * 400),
]


@pytest.fixture(scope="module", params=[1, 2, 3], ids="v{}".format)
def table(request, hand_made_table):
    return table_with_history(hand_made_table, request.param)


def test_unchanged_table_is_read_planned_and_committed_to(table):
    """Otherwise the tests below would prove nothing."""
    location = f"{table.root}/v2.metadata.json"
    for use in uses(parse_state(decode_document(json.dumps(table.document).encode(), location), location)):
        with suppress(FileNotFound):  # the statistics files, and the delete file, of which there are only the entries
            use()


@settings(max_examples=50)
@given(data=st.data())
@pytest.mark.table_kind("Metadata that breaks the specification in one place")
def test_any_value_anywhere_raises_only_our_errors(table, data):
    path = data.draw(st.sampled_from(list(places(table.document))))
    text = with_token(table.document, path, data.draw(st.sampled_from([None, *TOKENS])))
    with suppress(PuffinError):
        read_and_use(text, f"{table.root}/v2.metadata.json")


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "[1, Infinity]", "9" * 5000])
@pytest.mark.table_kind("Metadata that breaks the specification in one place")
def test_invalid_number_is_corrupt_anywhere(table, token):
    for path in places(table.document):
        with pytest.raises(CorruptMetadataError, match=r"v2\.metadata\.json: expected Iceberg table metadata in JSON"):
            read_and_use(with_token(table.document, path, token), f"{table.root}/v2.metadata.json")


INTEGERS = [
    *(("current-snapshot-id",), ("snapshots", 0, "snapshot-id"), ("snapshots", 1, "parent-snapshot-id")),
    *(("snapshots", 0, "timestamp-ms"), ("snapshots", 1, "schema-id"), ("snapshot-log", 0, "timestamp-ms")),
    *(("refs", "old", "snapshot-id"), ("partition-statistics", 0, "snapshot-id"), ("statistics", 0, "snapshot-id")),
    *(("statistics", 0, key) for key in ("file-size-in-bytes", "file-footer-size-in-bytes")),
    *(("statistics", 0, "blob-metadata", 0, key) for key in ("snapshot-id", "sequence-number")),
    ("statistics", 0, "blob-metadata", 0, "fields", 0),
]


@pytest.mark.parametrize("path", INTEGERS, ids=lambda path: ".".join(map(str, path)))
@pytest.mark.parametrize("token", ["9223372036854775808", "1" + "0" * 400, "1.0", "true", '"1"'])
def test_only_longs_are_accepted_as_longs(table, path, token):
    with pytest.raises(CorruptMetadataError, match="expected a whole number of 64 bits, found") as caught:
        read_and_use(with_token(table.document, path, token), f"{table.root}/v2.metadata.json")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("token", ["9223372036854775808", "1.0", "null", '"1"'])
def test_invalid_last_update_time_is_not_used_in_commits(table, token):
    text = with_token(table.document, ("last-updated-ms",), token)
    state = parse_state(decode_document(text.encode(), "v2.metadata.json"), "v2.metadata.json")
    with pytest.raises(CorruptMetadataError, match=r"v2\.metadata\.json: .*last-updated-ms: expected a whole number"):
        with_statistics(state, ENTRY, 3000)
