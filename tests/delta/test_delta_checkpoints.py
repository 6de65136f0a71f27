"""Checkpoints of every kind: what is read of them, and what happens if one cannot be read."""

import gc
import json
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.delta.log.actions import AddFile, DeletionVectorDescriptor, Metadata, Protocol
from puffin.delta.log.checkpoints import files_in
from puffin.delta.log.replay import DeltaLog, LogSegment
from puffin.errors import CorruptMetadataError, FileNotFound, PuffinError, UnsupportedTableError
from puffin.storage import LocalStore
from tests.delta.live_files import live_files

STRINGS = pa.map_(pa.string(), pa.string())
VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
        ("maxRowIndex", pa.int64()),
    ]
)
ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", STRINGS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", STRINGS),
        ("deletionVector", VECTOR),
        ("newField", pa.list_(pa.int32())),
    ]
)
REMOVE = pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64()), ("dataChange", pa.bool_())])
FORMAT = pa.struct([("provider", pa.string()), ("options", STRINGS)])
METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("format", FORMAT),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", STRINGS),
    ]
)
FEATURES = pa.list_(pa.string())
PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", FEATURES),
        ("writerFeatures", FEATURES),
    ]
)
CHECKPOINT = {
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64())]),
    "add": ADD,
    "remove": REMOVE,
    "metaData": METADATA,
    "protocol": PROTOCOL,
    "checkpointMetadata": pa.struct([("version", pa.int64())]),
    "sidecar": pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64())]),
    "newAction": pa.int64(),
}

THE_METADATA = {
    "metaData": {
        "id": "t",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": "{}",
        "partitionColumns": ["p"],
        "configuration": {"a": "b"},
    }
}
THE_PROTOCOL = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}}
DESCRIBED = [THE_PROTOCOL, THE_METADATA]
TOMBSTONE = {"remove": {"path": "gone", "deletionTimestamp": 1, "dataChange": False}}


def write_rows(path: Path, rows: Iterable[dict], columns: dict[str, pa.DataType] = CHECKPOINT) -> None:
    """Write actions in the form of log entries as rows of a Parquet file, a few to a row group."""
    table = pa.Table.from_pylist(list(rows), schema=pa.schema(columns.items()))
    pq.write_table(table, path, row_group_size=3)


def write_lines(path: Path, rows: Iterable[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def classic(log: Path, version: int, files: list[dict]) -> list[Path]:
    """One file."""
    path = log / f"{version:020d}.checkpoint.parquet"
    write_rows(path, [{"txn": {"appId": "a", "version": 1}}, *files, TOMBSTONE, *DESCRIBED])
    return [path]


def multi_part(log: Path, version: int, files: list[dict]) -> list[Path]:
    """Three parts, the last with protocol and metadata."""
    paths = [log / f"{version:020d}.checkpoint.{part:010d}.{3:010d}.parquet" for part in (1, 2, 3)]
    for path, rows in zip(paths, (files[::2], [TOMBSTONE, *files[1::2]], DESCRIBED), strict=True):
        write_rows(path, rows)
    return paths


def _with_sidecars(log: Path, path: Path, version: int, files: list[dict], write: Callable) -> list[Path]:
    (log / "_sidecars").mkdir(exist_ok=True)
    sidecars = [log / "_sidecars" / f"{uuid.uuid4()}.parquet" for _ in range(2)]
    for sidecar, rows in zip(sidecars, (files[:2], [*files[2:], TOMBSTONE]), strict=True):
        write_rows(sidecar, rows, {"add": ADD, "remove": REMOVE})
    listed = [{"sidecar": {"path": sidecar.name, "sizeInBytes": 1}} for sidecar in sidecars]
    write(path, [{"checkpointMetadata": {"version": version}}, *listed, *DESCRIBED])
    return [path, *sidecars]


def v2_json(log: Path, version: int, files: list[dict]) -> list[Path]:
    """The V2 spec in JSON, with sidecars."""
    return _with_sidecars(log, log / f"{version:020d}.checkpoint.{uuid.uuid4()}.json", version, files, write_lines)


def v2_parquet(log: Path, version: int, files: list[dict]) -> list[Path]:
    """The V2 spec in Parquet, with sidecars."""
    return _with_sidecars(log, log / f"{version:020d}.checkpoint.{uuid.uuid4()}.parquet", version, files, write_rows)


def v2_classic(log: Path, version: int, files: list[dict]) -> list[Path]:
    """The V2 spec under a classic name, with sidecars."""
    return _with_sidecars(log, log / f"{version:020d}.checkpoint.parquet", version, files, write_rows)


def v2_embedded(log: Path, version: int, files: list[dict]) -> list[Path]:
    """The V2 spec in JSON, with the files in it."""
    path = log / f"{version:020d}.checkpoint.{uuid.uuid4()}.json"
    write_lines(path, [{"checkpointMetadata": {"version": version}}, *DESCRIBED, *files, TOMBSTONE])
    return [path]


KINDS = [classic, multi_part, v2_json, v2_parquet, v2_classic, v2_embedded]
every_kind = pytest.mark.parametrize("write", KINDS, ids=[kind.__name__ for kind in KINDS])


def add(path: str, *, vector: int | None = None, **fields) -> dict:
    described = {"storageType": "u", "pathOrInlineDv": "x", "offset": vector, "sizeInBytes": 34, "cardinality": 2}
    return {
        "add": {
            "path": path,
            "partitionValues": {"p": path[:1]},
            "size": 10,
            "dataChange": False,
            **({} if vector is None else {"deletionVector": described}),
            **fields,
        }
    }


def put(log: Path, version: int, *actions: dict) -> None:
    write_lines(log / f"{version:020d}.json", [*(DESCRIBED if version == 0 else []), *actions])


def segment(log: Path, version: int | None = None) -> LogSegment:
    return DeltaLog(str(log.parent), LocalStore()).segment(version)


def paths(log: Path, version: int | None = None) -> list[str]:
    return sorted(file.path for file in live_files(segment(log, version)))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    directory = tmp_path / "a table" / "_delta_log"
    directory.mkdir(parents=True)
    return directory


@pytest.fixture
def whole_log(log: Path) -> Path:
    """Versions 0 to 4, each with one more file; a test's checkpoints repeat their content."""
    for version in range(5):
        put(log, version, add(str(version)))
    return log


# --- what is read -----------------------------------------------------------------------------------------------------


@every_kind
def test_checkpoint_has_everything_that_planning_needs(log: Path, write: Callable) -> None:
    """Files with all their fields, the table's description, and the later commits."""
    files = [
        add("a%20b", stats='{"numRecords":3,"minValues":{}}'),
        add("b", partitionValues={"p": None, "q": "2"}, size=2**40, vector=5, stats='{"numRecords":9}'),
        add("c", partitionValues={}),
        add("b", partitionValues={"p": "x"}, vector=7),
    ]
    write(log, 3, files)
    put(log, 4, {"remove": {"path": "c"}}, add("d", dataChange=True))
    found = segment(log)
    assert (found.checkpoint_version, found.oldest_version) == (3, 3)
    assert found.protocol_and_metadata == (
        Protocol(3, 7, frozenset({"deletionVectors"}), None),
        Metadata("t", "{}", ("p",), {"a": "b"}),
    )
    assert sorted(live_files(found), key=lambda file: file.key) == [
        AddFile("a%20b", {"p": "a"}, 10, False, 3, None),
        AddFile("b", {"p": None, "q": "2"}, 2**40, False, 9, DeletionVectorDescriptor("u", "x", 5, 34, 2)),
        AddFile("b", {"p": "x"}, 10, False, None, DeletionVectorDescriptor("u", "x", 7, 34, 2)),
        AddFile("d", {"p": "d"}, 10, True, None, None),
    ]


@every_kind
@pytest.mark.parametrize("most_rows", [1, 2, 100])
def test_outline_has_parts_with_each_file_once(log: Path, write: Callable, most_rows: int) -> None:
    files = [add(f"a{number}", vector=number if number % 2 else None, size=number) for number in range(9)]
    write(log, 3, files)
    put(log, 4, {"remove": {"path": "a2"}}, add("b", dataChange=True))
    found = segment(log)
    assert found.outline(most_rows, 1000, 0) is None
    outlined = found.outline(most_rows, 9, 0)
    if write is v2_embedded:
        assert outlined is None  # a file that is read in one piece anyway
        return
    outline, said = outlined
    parts = [list(files_in(part, LocalStore())) for part in outline.rows]
    assert max(map(len, parts)) <= most_rows
    assert {key: file and file.path for key, file in said.items()} == {("a2", None): None, ("b", None): "b"}
    read = [file for part in parts for file in part if file.key not in said]
    assert sorted([*read, *filter(None, said.values())], key=lambda file: file.key) == sorted(
        live_files(found), key=lambda file: file.key
    )
    assert (outline.bytes, len(set(outline.paths.tolist()))) == (sum(range(9)), 9)


@every_kind
def test_checkpoint_of_a_table_without_files_is_valid(log: Path, write: Callable) -> None:
    write(log, 2, [])
    assert live_files(segment(log)) == []


@pytest.mark.parametrize("missing", ["partitionValues", "dataChange", "stats", "tags", "deletionVector", "newField"])
def test_checkpoint_may_lack_fields(log: Path, missing: str) -> None:
    """Writers leave out what no file has."""
    fields = pa.struct([field for field in ADD if field.name != missing])
    files = [{"add": {k: v for k, v in add("a", stats='{"numRecords":3}')["add"].items() if k != missing}}]
    write_rows(log / f"{0:020d}.checkpoint.parquet", [*DESCRIBED, *files], {**CHECKPOINT, "add": fields})
    values, changes, count = {"p": "a"}, False, 3
    if missing == "partitionValues":
        values = {}
    if missing == "dataChange":
        changes = True
    if missing == "stats":
        count = None
    assert live_files(segment(log)) == [AddFile("a", values, 10, changes, count, None)]


@pytest.mark.parametrize("missing", ["txn", "add", "remove", "checkpointMetadata", "sidecar", "newAction"])
def test_checkpoint_may_lack_actions(log: Path, missing: str) -> None:
    """Older and newer writers have other columns."""
    columns = {name: column for name, column in CHECKPOINT.items() if name != missing}
    rows = [row for row in [*DESCRIBED, add("a")] if missing not in row]
    write_rows(log / f"{0:020d}.checkpoint.parquet", rows, columns)
    assert paths(log) == ([] if missing == "add" else ["a"])


def test_checkpoint_may_use_other_arrow_types(log: Path) -> None:
    """Large or dictionary-encoded text, and integers as narrow as their values."""
    text = pa.large_string()
    fields = {
        "path": text,
        "partitionValues": pa.map_(text, text),
        "size": pa.int32(),
        "stats": pa.dictionary(pa.int32(), text),
    }
    columns = {**CHECKPOINT, "add": pa.struct(fields.items())}
    write_rows(log / f"{0:020d}.checkpoint.parquet", [*DESCRIBED, add("a", stats='{"numRecords":3}')], columns)
    assert live_files(segment(log)) == [AddFile("a", {"p": "a"}, 10, True, 3, None)]


def test_row_counts_are_read_from_json_and_struct_statistics(log: Path) -> None:
    """From either or both; unreadable statistics give none."""
    parsed = pa.struct([("numRecords", pa.int64()), ("minValues", pa.struct([("numRecords", pa.int64())]))])
    columns = {**CHECKPOINT, "add": pa.struct([*ADD, pa.field("stats_parsed", parsed)])}
    stats = {
        "a": ('{"numRecords":1,"minValues":{}}', None),
        "b": ('{"minValues":{"numRecords":7},"numRecords":2}', None),
        "c": ('{"minValues":{"numRecords":7}}', {"numRecords": 3, "minValues": {"numRecords": 7}}),
        "d": (None, {"numRecords": 4}),
        "e": (None, {"numRecords": None, "minValues": {"numRecords": 7}}),
        "f": ("not JSON", None),
        "g": ("[" * 100_000, None),
        "h": (None, None),
    }
    files = [add(path, stats=text, stats_parsed=struct) for path, (text, struct) in stats.items()]
    path = log / f"{0:020d}.checkpoint.parquet"
    write_rows(path, [*DESCRIBED, *files], columns)
    counts = {file.path: file.num_records for file in live_files(segment(log))}
    assert counts == {"a": 1, "b": 2, "c": 3, "d": 4, "e": None, "f": None, "g": None, "h": None}
    without_text = pa.struct([field for field in columns["add"] if field.name != "stats"])
    write_rows(path, [*DESCRIBED, *files], {**columns, "add": without_text})
    counts = {file.path: file.num_records for file in live_files(segment(log))}
    assert counts == {"a": None, "b": None, "c": 3, "d": 4, "e": None, "f": None, "g": None, "h": None}


def test_files_of_several_batches_keep_their_order(log: Path) -> None:
    """Across row groups and batches."""
    rows = [*DESCRIBED, *(add(str(number), size=number, vector=number % 7 or None) for number in range(70_000))]
    table = pa.Table.from_pylist(rows, schema=pa.schema(CHECKPOINT.items()))
    pq.write_table(table, log / f"{0:020d}.checkpoint.parquet")
    files = live_files(segment(log))
    assert [file.size for file in files] == list(range(70_000))
    assert all((file.deletion_vector is None) == (file.size % 7 == 0) for file in files)


def test_description_needs_neither_files_nor_sidecars(log: Path) -> None:
    """Protocol and metadata are read without what takes long to read."""
    for sidecar in v2_json(log, 1, [add("a")])[1:]:
        sidecar.unlink()
    assert segment(log).protocol_and_metadata[1].id == "t"
    write_rows(log / f"{2:020d}.checkpoint.parquet", DESCRIBED, {**CHECKPOINT, "add": pa.int64()})
    assert segment(log).protocol_and_metadata[1].id == "t"
    with pytest.raises(CorruptMetadataError, match="expected add to be a struct, found int64"):
        live_files(segment(log))


@pytest.mark.parametrize("form", ["{}", "file:/elsewhere/_delta_log/_sidecars/{}", "_sidecars/{}", "..%2F..%2F{}"])
def test_sidecars_are_read_from_their_own_directory(log: Path, form: str) -> None:
    """Whatever directory their paths name: the table may have moved, or the log be hostile."""
    _, *sidecars = v2_json(log, 1, [add("a"), add("b"), add("c")])
    checkpoint = log / f"{1:020d}.checkpoint.{uuid.uuid4()}.json"
    names = [sidecar.rename(sidecar.with_name(f"s {sidecar.name}")).name for sidecar in sidecars]
    listed = [{"sidecar": {"path": form.format(name.replace(" ", "%20"))}} for name in names]
    for path in log.glob("*.checkpoint.*"):
        path.unlink()
    write_lines(checkpoint, [*DESCRIBED, *listed])
    assert paths(log) == ["a", "b", "c"]


# --- which checkpoint -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_incomplete_multi_part_checkpoint_is_ignored(whole_log: Path, missing: int) -> None:
    """A writer may have died between parts."""
    multi_part(whole_log, 3, [add("x")])[missing].unlink()
    assert segment(whole_log).checkpoint_version is None
    assert paths(whole_log) == ["0", "1", "2", "3", "4"]


def test_parts_of_different_checkpoints_are_not_combined(whole_log: Path) -> None:
    """Nor does a part with a number beyond the checkpoint's count."""
    first, second, third = multi_part(whole_log, 3, [add("x")])
    third.rename(whole_log / f"{3:020d}.checkpoint.{3:010d}.{4:010d}.parquet")
    assert segment(whole_log).checkpoint_version is None
    second.rename(whole_log / f"{3:020d}.checkpoint.{4:010d}.{2:010d}.parquet")
    first.rename(whole_log / f"{3:020d}.checkpoint.{0:010d}.{1:010d}.parquet")
    assert segment(whole_log).checkpoint_version is None


LAST_CHECKPOINTS = {
    "right": '{"version":3,"size":3}',
    "stale": '{"version":1,"size":3}',
    "ahead": '{"version":9,"size":3}',
    "of parts": '{"version":3,"size":3,"parts":2}',
    "corrupt": '{"version":',
    "empty": "",
    "missing": None,
}


@every_kind
@pytest.mark.parametrize("hint", LAST_CHECKPOINTS.values(), ids=LAST_CHECKPOINTS)
def test_last_checkpoint_file_changes_nothing(log: Path, write: Callable, hint: str | None) -> None:
    """The listing shows which checkpoints exist."""
    for version in range(5):
        put(log, version, add(str(version)))
    write(log, 1, [add("one")])
    write(log, 3, [add("three")])
    if hint is not None:
        (log / "_last_checkpoint").write_text(hint)
    assert segment(log).checkpoint_version == 3
    assert paths(log) == ["4", "three"]
    assert segment(log).protocol_and_metadata[1].id == "t"


# --- what cannot be read ----------------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def scramble(path: Path) -> None:
    """Keep the structure that finds the columns, and break their content."""
    data = path.read_bytes()
    body = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    path.write_bytes(data[:4] + b"\xff" * (body - 4) + data[body:])


def not_parquet(path: Path) -> None:
    path.write_text("{}")


DAMAGES = [cut, empty, scramble, not_parquet]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("write", [classic, multi_part, v2_parquet, v2_json, v2_classic])
def test_corrupt_file_is_named(log: Path, write: Callable, damage: Callable) -> None:
    """All log entries before the checkpoint are gone."""
    files = [path for path in write(log, 3, [add(name) for name in "abcd"]) if path.suffix == ".parquet"]
    assert files
    for damaged in files:
        sound = damaged.read_bytes()
        damage(damaged)
        with pytest.raises(CorruptMetadataError) as caught:
            live_files(segment(log))
        assert str(damaged) in str(caught.value)
        assert "\n" not in str(caught.value)
        damaged.write_bytes(sound)
    assert paths(log) == ["a", "b", "c", "d"]


def test_checkpoint_with_fewer_rows_than_its_footer_says_is_corrupt(log: Path) -> None:
    """pyarrow reads them without an error, also if rows are behind a page without values."""
    (path,) = classic(log, 3, [add(name) for name in "abcd"])
    content, num_rows = path.read_bytes(), b"\x16\x06\x26"  # of a row group of three rows; its offset follows
    assert content.count(num_rows) == 2
    path.write_bytes(content.replace(num_rows, b"\x16\x08\x26", 1))
    with pytest.raises(CorruptMetadataError, match="expected 4 rows in row group 0, found 3"):
        live_files(segment(log))


@every_kind
def test_missing_file_is_named(log: Path, write: Callable) -> None:
    """A sidecar is missing from the store, or another file disappears after the listing."""
    for missing in write(log, 3, [add(name) for name in "abcd"]):
        found = segment(log)
        sound = missing.read_bytes()
        missing.unlink()
        with pytest.raises(FileNotFound, match=missing.name):
            live_files(found)
        missing.write_bytes(sound)


@every_kind
def test_complete_log_needs_no_checkpoint(whole_log: Path, write: Callable) -> None:
    """Its entries replace the corrupt or incomplete checkpoint."""
    for damaged in write(whole_log, 3, [add(str(version)) for version in range(4)]):
        sound = damaged.read_bytes()
        damaged.write_bytes(b"PAR1")
        assert paths(whole_log) == ["0", "1", "2", "3", "4"]
        assert segment(whole_log).protocol_and_metadata[1].id == "t"
        found = segment(whole_log)
        damaged.unlink()
        assert len(live_files(found)) == 5
        damaged.write_bytes(sound)


@every_kind
def test_older_checkpoint_replaces_a_broken_one(whole_log: Path, write: Callable) -> None:
    """If all log entries after it exist."""
    write(whole_log, 1, [add("one")])
    put(whole_log, 0)
    (whole_log / f"{0:020d}.json").unlink()
    damaged = write(whole_log, 3, [add("three")])[-1]
    assert paths(whole_log) == ["4", "three"]
    damaged.write_bytes(b"")
    assert paths(whole_log) == ["2", "3", "4", "one"]
    (whole_log / f"{2:020d}.json").unlink()
    with pytest.raises(CorruptMetadataError, match=damaged.name):
        live_files(segment(whole_log))


def test_other_checkpoint_of_the_same_version_replaces_a_broken_one(log: Path) -> None:
    """Two writers may have written one at the same time."""
    classic(log, 3, [add("a")])[0].write_bytes(b"")
    v2_json(log, 3, [add("a")])
    assert paths(log) == ["a"]


@every_kind
def test_newest_of_several_corrupt_checkpoints_is_named(log: Path, write: Callable) -> None:
    """It is the one to repair."""
    for version in (2, 3):
        put(log, version)
        for damaged in write(log, version, [add("a")]):
            damaged.write_bytes(b"")
    with pytest.raises(CorruptMetadataError, match=rf"{3:020d}\.checkpoint"):
        live_files(segment(log))


def without(struct: pa.StructType, name: str) -> pa.StructType:
    return pa.struct([field for field in struct if field.name != name])


def of_type(struct: pa.StructType, name: str, kind: pa.DataType) -> pa.StructType:
    return pa.struct([(field.name, kind if field.name == name else field.type) for field in struct])


@pytest.mark.parametrize(
    ("rows", "columns", "found"),
    [
        ([THE_PROTOCOL], {}, "expected a checkpoint with a protocol and a metaData action"),
        ([THE_METADATA], {}, "expected a checkpoint with a protocol and a metaData action"),
        ([*DESCRIBED, {"add": {"size": 1}}], {}, "expected path in every row, found a null"),
        ([*DESCRIBED, {"add": {"path": "f"}}], {}, "expected size in every row, found a null"),
        ([*DESCRIBED, add("f", size=-1)], {}, "expected size not to be negative, found -1"),
        ([*DESCRIBED, add("f", deletionVector={"offset": 1})], {}, "expected storageType in every row, found a null"),
        (
            [*DESCRIBED, add("f", deletionVector={"storageType": "u", "pathOrInlineDv": "", "sizeInBytes": -1})],
            {},
            "-1",
        ),
        ([*DESCRIBED, {"add": {"size": 1}}], {"add": without(ADD, "path")}, "expected path in every row"),
        ([*DESCRIBED, {"add": "f"}], {"add": pa.string()}, "expected add to be a struct, found string"),
        ([*DESCRIBED, add("f", size="x")], {"add": of_type(ADD, "size", pa.string())}, "Failed to parse string"),
        (
            [*DESCRIBED, add("f", partitionValues=["x"])],
            {"add": of_type(ADD, "partitionValues", pa.list_(pa.string()))},
            "expected add.partitionValues to be a map, found list",
        ),
        (
            [*DESCRIBED, {"sidecar": {"sizeInBytes": 1}}],
            {"sidecar": without(CHECKPOINT["sidecar"], "path")},
            "sidecar.path: expected str, found nothing",
        ),
        (
            [*DESCRIBED, add("f", deletionVector="x")],
            {"add": of_type(ADD, "deletionVector", pa.string())},
            "expected a struct with storageType, found string",
        ),
        (
            [THE_PROTOCOL, {"metaData": {"id": "t"}}],
            {"metaData": METADATA},
            "metaData.schemaString: expected str, found nothing",
        ),
        ([THE_METADATA, {"protocol": {"minReaderVersion": 1}}], {}, "protocol.minWriterVersion: expected int"),
    ],
)
def test_invalid_checkpoint_is_named(log: Path, rows: list[dict], columns: dict, found: str) -> None:
    """With what was expected and what was found."""
    path = log / f"{3:020d}.checkpoint.parquet"
    write_rows(path, rows, {**CHECKPOINT, **columns})
    with pytest.raises(CorruptMetadataError) as caught:
        live_files(segment(log))
    assert str(caught.value).startswith(f"{path}: expected")
    assert found in str(caught.value)


def test_tables_of_other_formats_are_refused(whole_log: Path) -> None:
    """Other checkpoints are not tried."""
    metadata = {"metaData": {**THE_METADATA["metaData"], "format": {"provider": "orc"}}}
    path = whole_log / f"{3:020d}.checkpoint.parquet"
    write_rows(path, [THE_PROTOCOL, metadata])
    with pytest.raises(UnsupportedTableError, match=rf"{path.name}: .*found 'orc'"):
        _ = segment(whole_log).protocol_and_metadata


@settings(max_examples=30)
@given(st.data())
def test_damaged_checkpoint_raises_only_our_errors(data: st.DataObject) -> None:
    """Or it is read."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "_delta_log"
        log.mkdir()
        (path,) = classic(log, 0, [add("a", vector=1), add("b", stats='{"numRecords":1}')])
        damaged = bytearray(path.read_bytes())
        for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=8)):
            damaged[place] = data.draw(st.integers(0, 255))
        path.write_bytes(damaged)
        try:
            assert len(live_files(segment(log))) <= 4
        except PuffinError:
            return


# --- every history ----------------------------------------------------------------------------------------------------

Key = tuple[str, int | None]
KEYS = st.tuples(st.sampled_from("abcd"), st.none() | st.integers(0, 2))
# Of each commit what it adds, with a size that tells one addition from another, and what it removes.
COMMITS = st.lists(
    st.tuples(st.dictionaries(KEYS, st.integers(1, 9), max_size=4), st.sets(KEYS, max_size=4)), min_size=1
)


@settings(max_examples=60)
@given(COMMITS, st.data())
def test_replay_equals_a_naive_replay(commits: list[tuple[dict[Key, int], set[Key]]], data: st.DataObject) -> None:
    """With any kind of checkpoint at any version, with or without the log entries before it."""
    states: list[dict[Key, int]] = []
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "_delta_log"
        log.mkdir()
        for version, (added, removed) in enumerate(commits):
            before = states[-1] if states else {}
            # One version has at most one action for a file.
            states.append({key: size for key, size in before.items() if key not in removed - set(added)} | added)
            removals = ({"remove": _strip(add(path, vector=vector)["add"])} for path, vector in removed - set(added))
            put(log, version, *_adds(added), *removals)
        at = data.draw(st.integers(0, len(commits) - 1))
        data.draw(st.sampled_from(KINDS))(log, at, _adds(states[at]))
        kept_from = data.draw(st.integers(0, at + 1))
        for version in range(kept_from):
            (log / f"{version:020d}.json").unlink()
        newest = segment(log)
        assert newest.oldest_version == (at if kept_from > 0 else 0)
        for version in range(newest.oldest_version, len(commits)):
            files = live_files(newest.at(version))
            vectors = (file.deletion_vector for file in files)
            found = [(file.path, vector and vector.offset) for file, vector in zip(files, vectors, strict=True)]
            assert dict(zip(found, (file.size for file in files), strict=True)) == states[version]
            assert len(found) == len(states[version])
            texts = newest.at(version).fold_files(list, with_statistics=True)
            assert texts == [(file, _text(file.size)) for file in files]


def test_files_are_in_memory_a_few_at_a_time(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    multi_part(log, 0, [add(f"{number}.parquet") for number in range(300)])
    put(log, 1, add("last.parquet"), {"remove": {"path": "7.parquet", "dataChange": True}})
    monkeypatch.setattr("puffin.delta.log.checkpoints._LEAST_ROWS", 1)
    others = [each for each in gc.get_objects() if isinstance(each, AddFile)]  # caches have those of other tests
    most = 0

    def count(files: Iterator) -> int:
        nonlocal most
        for number, _ in enumerate(files, 1):
            if number % 50 == 0:
                most = max(most, sum(isinstance(each, AddFile) for each in gc.get_objects()) - len(others))
        return number

    assert segment(log).fold_files(count) == 300
    assert 0 < most < 10


def _adds(files: dict[Key, int]) -> list[dict]:
    return [add(path, vector=vector, size=size, stats=_text(size)) for (path, vector), size in files.items()]


def _text(size: int) -> str:
    return f'{{"numRecords":{size}}}'


def _strip(fields: dict) -> dict:
    return {key: fields[key] for key in ("path", "deletionVector") if key in fields}
