"""One log entry: which lines count, which are ignored, and what is reported as corrupt and where."""

import contextlib
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from puffin.delta.log.actions import (
    AddFile,
    Commit,
    DeletionVectorDescriptor,
    Metadata,
    Protocol,
    RemoveFile,
    Sidecar,
    num_records,
    parse_commit,
    read_actions,
    read_file_statistics,
)
from puffin.errors import CorruptMetadataError, UnsupportedTableError

WHERE = "/t/_delta_log/00000000000000000003.json"
ADD = {"path": "p=a%20b/f.parquet", "partitionValues": {"p": "a b"}, "size": 10, "dataChange": True}
METADATA = {
    "id": "t",
    "format": {"provider": "parquet"},
    "schemaString": "{}",
    "partitionColumns": [],
    "configuration": {},
}
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH", "offset": 4, "sizeInBytes": 40, "cardinality": 6}


def lines(*actions) -> bytes:
    return "\n".join(map(json.dumps, actions)).encode()


def parse(*actions) -> Commit:
    return parse_commit(lines(*actions), 3, WHERE)


def test_add_and_remove_keep_the_fields_of_the_log() -> None:
    """The path stays percent-encoded, and a removal needs only its path."""
    commit = parse(
        {"add": {**ADD, "stats": '{"numRecords":7,"minValues":{}}', "deletionVector": VECTOR}},
        {"remove": {"path": "g.parquet", "dataChange": False, "deletionTimestamp": 1}},
        {"remove": {"path": "h.parquet", "partitionValues": {"p": None}, "size": 5, "stats": '{"numRecords":2}'}},
    )
    vector = DeletionVectorDescriptor("u", "ab^-aqEH", 4, 40, 6)
    assert commit.version == 3
    assert commit.adds == (AddFile("p=a%20b/f.parquet", {"p": "a b"}, 10, True, 7, vector),)
    assert commit.removes == (
        RemoveFile("g.parquet", None, None, False, None, None),
        RemoveFile("h.parquet", {"p": None}, 5, True, 2, None),
    )


def test_file_is_identified_by_path_and_deletion_vector() -> None:
    """The id of a deletion vector is its storage type, its path and its offset, if it has one."""
    plain, at_offset, inline = parse(
        {"add": ADD},
        {"add": {**ADD, "deletionVector": VECTOR}},
        {"add": {**ADD, "deletionVector": {**VECTOR, "storageType": "i", "offset": None}}},
    ).adds
    assert plain.key == ("p=a%20b/f.parquet", None)
    assert at_offset.key == ("p=a%20b/f.parquet", "uab^-aqEH@4")
    assert inline.key == ("p=a%20b/f.parquet", "iab^-aqEH")


def test_metadata_and_protocol_are_parsed() -> None:
    """Features are None if only the versions count, and null settings are unset."""
    commit = parse(
        {"metaData": {**METADATA, "partitionColumns": ["p"], "configuration": {"a": "b", "c": None}, "new": 1}},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["x"], "writerFeatures": []}},
    )
    assert commit.metadata == Metadata("t", "{}", ("p",), {"a": "b"})
    assert commit.protocol == Protocol(3, 7, frozenset({"x"}), frozenset())
    assert parse({"protocol": PROTOCOL}).protocol == Protocol(1, 2, None, None)


@pytest.mark.parametrize("missing", ["format", "partitionColumns", "configuration"])
def test_metadata_may_omit_fields_with_defaults(missing: str) -> None:
    fields = {key: value for key, value in METADATA.items() if key != missing}
    assert parse({"metaData": fields}).metadata == Metadata("t", "{}", (), {})


def test_tables_of_other_formats_are_refused() -> None:
    """Only Parquet files are supported."""
    with pytest.raises(UnsupportedTableError, match=r"3\.json: line 2: .*expected provider parquet, found 'csv'"):
        parse({"commitInfo": {}}, {"metaData": {**METADATA, "format": {"provider": "csv"}}})


def test_commit_time_comes_from_the_in_commit_timestamp() -> None:
    """It is in milliseconds; all else in a commitInfo is ignored."""
    assert parse({"protocol": PROTOCOL}, {"commitInfo": {"inCommitTimestamp": 17}}).in_commit_timestamp_ms == 17
    for info in ({}, "text", [1], {"inCommitTimestamp": "17"}, {"inCommitTimestamp": -1}, {"inCommitTimestamp": 2**63}):
        assert parse({"commitInfo": info}).in_commit_timestamp_ms is None


@pytest.mark.parametrize(
    ("actions", "is_note", "keeps_rows"),
    [
        ([], True, True),
        ([{"commitInfo": {}}, {"txn": {"appId": "a", "version": 1}}, {"domainMetadata": {"domain": "d"}}], True, True),
        ([{"metaData": METADATA}], False, True),
        ([{"protocol": PROTOCOL}], False, True),
        ([{"add": {**ADD, "dataChange": False}}, {"remove": {"path": "g", "dataChange": False}}], False, True),
        ([{"add": {**ADD, "dataChange": False}}, {"remove": {"path": "g", "dataChange": True}}], False, False),
        ([{"add": ADD}], False, False),
        ([{"remove": {"path": "g"}}], False, False),
    ],
)
def test_commit_tells_whether_it_changed_rows(actions: list, is_note: bool, keeps_rows: bool) -> None:
    """A note changes nothing; file actions change rows unless they say otherwise."""
    commit = parse(*actions)
    assert (commit.is_note, commit.keeps_rows) == (is_note, keeps_rows)


def test_unknown_and_null_actions_are_ignored() -> None:
    """Newer protocols may add actions and fields; null equals absent."""
    commit = parse({"add": None, "remove": None, "newAction": 5}, {"add": {**ADD, "newField": {"a": 1}, "stats": None}})
    assert [file.path for file in commit.adds] == [ADD["path"]]


def test_empty_lines_and_windows_line_ends_are_accepted() -> None:
    """Lines end with a line feed; a string may hold any other separator."""
    data = b"\r\n" + lines({"add": {**ADD, "path": "a\u2028b"}}).replace(rb"\u2028", "\u2028".encode()) + b"\r\n\n \n"
    assert [file.path for file in parse_commit(data, 0, WHERE).adds] == ["a\u2028b"]
    assert parse_commit(b"", 0, WHERE).is_note


def test_unusual_json_outside_known_fields_is_accepted() -> None:
    """Duplicate keys, half surrogates, numbers of any size and deep nesting."""
    data = b"\n".join(
        [
            b'{"add":{"path":"first","path":"\\ud800","partitionValues":{},"size":1,"dataChange":true}}',
            b'{"new":' + b"[" * 200 + b"]" * 200 + b"}",
            b'{"commitInfo":{"n":' + b"9" * 4000 + b',"x":NaN}}',
        ]
    )
    assert [file.path for file in parse_commit(data, 0, WHERE).adds] == ["\ud800"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'{"add":{"path":"cut sh', "Unterminated string starting at (column 16)"),
        (b"not JSON", "expected a JSON object: Expecting value (column 1)"),
        (b"\xff\xfe", "expected a JSON object: 'utf-8' codec can't decode"),
        (b"[]", "expected a JSON object, found list"),
        (b"{} {}", "expected a JSON object: Extra data (column 4)"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"add":{"size":' + b"9" * 5000 + b"}}", "expected a JSON object: Exceeds the limit"),
        (b'{"add":5}', "add: expected a JSON object, found int"),
        (b'{"remove":[]}', "remove: expected a JSON object, found list"),
        (b'{"add":{"size":1}}', "add.path: expected str, found nothing"),
        (b'{"add":{"path":1}}', "add.path: expected str, found int"),
        (b'{"add":{"path":"f"}}', "add.size: expected int, found nothing"),
        (b'{"add":{"path":"f","size":"1"}}', "add.size: expected int, found str"),
        (b'{"add":{"path":"f","size":1.0}}', "add.size: expected int, found float"),
        (b'{"add":{"path":"f","size":true}}', "add.size: expected a number from 0 to"),
        (b'{"add":{"path":"f","size":-1}}', "add.size: expected a number from 0 to"),
        (b'{"add":{"path":"f","size":9223372036854775808}}', "add.size: expected a number from 0 to"),
        (b'{"add":{"path":"f","size":1,"dataChange":"yes"}}', "add.dataChange: expected bool, found str"),
        (b'{"add":{"path":"f","size":1,"partitionValues":[]}}', "add.partitionValues: expected dict, found list"),
        (
            b'{"add":{"path":"f","size":1,"partitionValues":{"p":1}}}',
            "add.partitionValues: expected strings, found int",
        ),
        (b'{"add":{"path":"f","size":1,"deletionVector":{}}}', "add.deletionVector.storageType: expected str"),
        (b'{"remove":{"dataChange":true}}', "remove.path: expected str, found nothing"),
        (b'{"remove":{"path":"f","size":"1"}}', "remove.size: expected int, found str"),
        (b'{"metaData":{"schemaString":"{}"}}', "metaData.id: expected str, found nothing"),
        (b'{"metaData":{"format":{"provider":[]}}}', "metaData.format.provider: expected str, found list"),
        (b'{"metaData":{"id":"t"}}', "metaData.schemaString: expected str, found nothing"),
        (b'{"metaData":{"id":"t","schemaString":"","partitionColumns":[1]}}', "partitionColumns: expected strings"),
        (b'{"metaData":{"id":"t","schemaString":"","configuration":{"a":1}}}', "configuration: expected strings"),
        (b'{"protocol":{"minReaderVersion":1}}', "protocol.minWriterVersion: expected int, found nothing"),
        (
            b'{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":"x"}}',
            "readerFeatures: expected list",
        ),
        (b'{"sidecar":{}}', "sidecar.path: expected str, found nothing"),
    ],
)
def test_corrupt_line_is_named(line: bytes, found: str) -> None:
    """The message has the file, the line, what was expected and what was found."""
    data = lines({"commitInfo": {}}) + b"\n\n" + line
    with pytest.raises(CorruptMetadataError) as caught:
        parse_commit(data, 3, WHERE)
    message = str(caught.value)
    assert message.startswith(f"{WHERE}: line 3: ")
    assert found in message
    assert "\n" not in message


def test_corrupt_line_has_the_same_number_where_only_statistics_are_read() -> None:
    for read in (read_actions, read_file_statistics):
        with pytest.raises(CorruptMetadataError, match="line 3: expected a JSON object"):
            list(read(b"\n\n{bad", WHERE))


@pytest.mark.parametrize(
    ("stats", "count"),
    [
        ('{"numRecords":10,"minValues":{"a":1}}', 10),
        (' { "numRecords" : 0 }', 0),
        ('{"minValues":{"numRecords":3},"numRecords":4}', 4),
        ('{"minValues":{"numRecords":3}}', None),
        ('{"numRecords":1234567890123456789}', 1234567890123456789),
        ('{"numRecords":1e3}', None),
        ('{"numRecords":-1}', None),
        ('{"numRecords":9223372036854775808}', None),
        ('{"numRecords":"1"}', None),
        ("{", None),
        ("[1]", None),
        ("[" * 100_000, None),
        ("\ud800", None),
        (None, None),
        ({"numRecords": 1}, None),
    ],
)
def test_row_count_comes_from_the_statistics(stats: object, count: int | None) -> None:
    """Wherever it stands; unreadable statistics give none."""
    assert num_records(stats) == count


def test_json_checkpoint_names_its_sidecars() -> None:
    """It is written like a log entry, with its own actions."""
    assert list(read_actions(lines({"checkpointMetadata": {"version": 1}}, {"sidecar": {"path": "s"}}), WHERE)) == [
        Sidecar("s")
    ]


NAMES = ["add", "remove", "metaData", "protocol", "commitInfo", "sidecar", "path", "size", "id", "schemaString"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=150)
@given(st.binary(max_size=40) | VALUES.map(lambda value: json.dumps(value).encode()))
@example(b'{"metaData":{"format":{"provider":{}},"id":"","schemaString":""}}')
def test_any_document_raises_only_our_errors(data: bytes) -> None:
    with contextlib.suppress(CorruptMetadataError, UnsupportedTableError):
        assert parse_commit(data, 0, WHERE).version == 0
