"""
``puffin analyze`` and ``puffin ndv`` of broken or unsupported Delta tables print one line and exit with a code.

Whatever the state of a table, a failure leaves its directory as it was, to the last byte.
"""

import hashlib
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ANALYZE, NDV = ("analyze",), ("ndv",)
CHECKPOINT_UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


@pytest.fixture
def table(delta_table):
    """Three versions: two files with ten and five rows, two rows of the first deleted."""
    writer = delta_table()
    first = writer.add({"a": range(10), "b": [1] * 10})
    writer.commit(first)
    writer.commit(writer.add({"a": range(100, 105), "b": [2] * 5}))
    writer.commit(*writer.delete_rows(first, [0, 1]))
    return writer


def content(directory):
    """Return the bytes of each file in a directory, and the empty directories."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        for path in directory.rglob("*")
    }


@pytest.fixture
def fails(puffin):
    """Run a command on a table, check that it fails cleanly, and return the line it prints."""

    def run(table, command, *options):
        before = content(table.path)
        ran = puffin(*command, table.path, *options)
        assert (ran.code, ran.stdout) == (1, b"")
        assert ran.stderr.startswith("puffin: ")
        assert ran.stderr.count("\n") == 1
        assert "internal error" not in ran.stderr
        assert content(table.path) == before
        return ran.stderr

    return run


@pytest.fixture
def ndv_of(puffin):
    """Return the NDV of each column that a command prints."""

    def ask(command, table, *options):
        ran = puffin(*command, table.path, "--json", *options)
        assert (ran.code, ran.stderr) == (0, "")
        return {column["column"]: column["ndv"] for column in ran.document["columns"]}

    return ask


LIVE = {"a": 13, "b": 2}


def test_fixture_table_is_valid_before_it_is_broken(table, ndv_of):
    """Otherwise the tests below would prove nothing."""
    assert ndv_of(ANALYZE, table) == LIVE
    assert ndv_of(NDV, table) == LIVE


# --- the log ----------------------------------------------------------------------------------------------------------


def cut(path, by=9):
    path.write_bytes(path.read_bytes()[:-by])


@pytest.mark.parametrize("command", [ANALYZE, NDV])
@pytest.mark.parametrize("version", [0, 2])
def test_truncated_log_entry_is_one_line(table, fails, command, version):
    cut(table.entry(version))
    said = fails(table, command)
    assert f"/_delta_log/{version:020d}.json: line " in said
    assert "expected a JSON object" in said


@pytest.mark.parametrize("command", [ANALYZE, NDV])
def test_log_entry_without_required_fields_is_one_line(table, fails, command):
    table.commit({"add": {"path": "x.parquet", "partitionValues": {}, "dataChange": True}})
    assert f"{3:020d}.json: line 1: add.size: expected int, found nothing" in fails(table, command)


@pytest.mark.parametrize("command", [ANALYZE, NDV])
def test_missing_version_is_one_line(table, fails, command):
    table.entry(1).unlink()
    assert f"/_delta_log/{1:020d}.json: expected this log entry, or a complete checkpoint" in fails(table, command)


@pytest.mark.parametrize("command", [ANALYZE, NDV])
def test_log_without_metadata_is_one_line(delta_table, fails, command):
    table = delta_table()
    table.entry(0).write_text(json.dumps(table.protocol()))
    assert "/_delta_log: expected a protocol and a metaData action up to version 0, found no metaData" in fails(
        table, command
    )


@pytest.mark.parametrize("command", [ANALYZE, NDV])
def test_empty_log_is_one_line(delta_table, fails, command):
    assert "/_delta_log: expected a Delta log, found no log entry and no complete checkpoint" in fails(
        delta_table(), command
    )


@pytest.mark.parametrize("command", [ANALYZE, NDV])
@pytest.mark.parametrize("schema", ["", "[]", '{"type": "struct", "fields": [{"name": "a"}]}'])
def test_invalid_schema_is_one_line(table, fails, command, schema):
    table.commit(table.metadata(schemaString=schema))
    assert f"puffin: {table.path}: schemaString: " in fails(table, command)


# --- checkpoints ------------------------------------------------------------------------------------------------------


def checkpoint(table, version, parts=1, sidecar=None):
    """Write the checkpoint of a version, delete the log up to it, and return its files."""
    actions = [json.loads(line) for v in range(version + 1) for line in table.entry(v).read_text().splitlines()]
    adds = {add["path"]: add for add in (action.get("add") for action in actions) if add}
    metadata = next(action["metaData"] for action in actions if "metaData" in action)
    rows = [
        table.protocol(),
        {"metaData": {"id": metadata["id"], "schemaString": metadata["schemaString"]}},
        *({"add": {name: add[name] for name in ("path", "size", "dataChange")}} for add in adds.values()),
    ]
    for v in range(version + 1):
        table.entry(v).unlink()
    if sidecar:
        top = table.log / f"{version:020d}.checkpoint.{CHECKPOINT_UUID}.json"
        top.write_text("\n".join(map(json.dumps, [*rows[:2], {"sidecar": {"path": sidecar, "sizeInBytes": 1}}])))
        (table.log / "_sidecars").mkdir()
        pq.write_table(pa.Table.from_pylist(rows[2:]), table.log / "_sidecars" / sidecar)
        return [table.log / "_sidecars" / sidecar]
    middle = "" if parts == 1 else ".{:010d}.{:010d}"
    names = [f"{version:020d}.checkpoint{middle.format(part, parts)}.parquet" for part in range(1, parts + 1)]
    schema = pa.Table.from_pylist([{name: value for row in rows for name, value in row.items()}]).schema
    for part, name in enumerate(names):
        pq.write_table(pa.Table.from_pylist(rows[part::parts], schema), table.log / name)
    return [table.log / name for name in names]


@pytest.mark.parametrize(("parts", "sidecar"), [(1, None), (2, None), (1, "s.parquet")])
def test_valid_checkpoint_replaces_the_log_before_it(table, ndv_of, parts, sidecar):
    checkpoint(table, 1, parts, sidecar)
    assert ndv_of(ANALYZE, table) == LIVE


@pytest.mark.parametrize("command", [ANALYZE, NDV])
def test_missing_checkpoint_part_is_one_line(table, fails, command):
    checkpoint(table, 1, parts=3)[1].unlink()
    assert f"/_delta_log/{1:020d}.json: expected this log entry, or a complete checkpoint" in fails(table, command)


def test_missing_sidecar_fails_only_the_job(table, fails, ndv_of):
    """The sidecar lists the data files, which lookups do not need."""
    (sidecar,) = checkpoint(table, 1, sidecar="s.parquet")
    sidecar.unlink()
    said = fails(table, ANALYZE)
    assert f".checkpoint.{CHECKPOINT_UUID}.json: a sidecar of the checkpoint is missing" in said
    assert str(sidecar) in said
    assert ndv_of(NDV, table) == {"a": None, "b": None}


@pytest.mark.parametrize("command", [ANALYZE, NDV])
@pytest.mark.parametrize("broken", [b"", b"PAR1", None])
def test_unreadable_checkpoint_is_one_line(table, fails, command, broken):
    (file,) = checkpoint(table, 1)
    if broken is None:
        cut(file)
    else:
        file.write_bytes(broken)
    assert f"/_delta_log/{1:020d}.checkpoint.parquet: expected a readable checkpoint" in fails(table, command)


@pytest.mark.parametrize(
    "hint", [b"", b"{", b"[]", b"\xff", b'{"version": 999, "size": 1}', b'{"version": 1, "size": 1, "parts": 7}']
)
def test_last_checkpoint_hint_changes_nothing(table, ndv_of, hint):
    (table.log / "_last_checkpoint").write_bytes(hint)
    assert ndv_of(ANALYZE, table) == LIVE
    assert ndv_of(NDV, table) == LIVE
    checkpoint(table, 1)
    assert ndv_of(ANALYZE, table, "--mode", "full") == LIVE


# --- data files and deletion vectors ----------------------------------------------------------------------------------


def vector_file(table):
    (found,) = table.path.glob("deletion_vector_*.bin")
    return found


def test_missing_data_file_is_one_line(table, fails):
    (table.path / "part-2.parquet").unlink()
    said = fails(table, ANALYZE)
    assert f"{table.path}/part-2.parquet" in said


@pytest.mark.parametrize("broken", [b"", b"PAR1 and no more"])
def test_unreadable_data_file_is_one_line(table, fails, broken):
    (table.path / "part-2.parquet").write_bytes(broken)
    assert f"{table.path}/part-2.parquet: " in fails(table, ANALYZE)


def test_missing_deletion_vector_is_one_line(table, fails):
    file = vector_file(table)
    file.unlink()
    assert str(file) in fails(table, ANALYZE)


@pytest.mark.parametrize("position", [1, 5, 9, 30, -1])
def test_deletion_vector_with_a_changed_byte_is_one_line(table, fails, position):
    """The byte is in its size, magic, bitmap or checksum."""
    damaged = bytearray(vector_file(table).read_bytes())
    damaged[position] ^= 0xFF
    vector_file(table).write_bytes(damaged)
    assert str(vector_file(table)) in fails(table, ANALYZE)


def test_truncated_deletion_vector_is_one_line(table, fails):
    cut(vector_file(table), by=1)
    assert str(vector_file(table)) in fails(table, ANALYZE)


def with_vector(table, **fields):
    """Change the last version's descriptor of the deletion vector."""
    remove, added = (json.loads(line) for line in table.entry(2).read_text().splitlines())
    added["add"]["deletionVector"] |= fields
    table.entry(2).write_text(f"{json.dumps(remove)}\n{json.dumps(added)}\n")


def test_deletion_vector_with_wrong_cardinality_is_one_line(table, fails):
    with_vector(table, cardinality=3)
    said = fails(table, ANALYZE)
    assert str(vector_file(table)) in said
    assert "expected 3" in said


@pytest.mark.parametrize(
    "fields",
    [
        {"storageType": "x"},
        {"pathOrInlineDv": "0" * 19 + "~"},
        {"pathOrInlineDv": "#" * 20},
        {"storageType": "p", "pathOrInlineDv": "relative.bin"},
        {"storageType": "i", "pathOrInlineDv": "00000"},
    ],
)
def test_deletion_vector_with_invalid_location_is_one_line(table, fails, fields):
    with_vector(table, **fields)
    assert f"puffin: {table.path}: deletion vector " in fails(table, ANALYZE)


def test_partition_value_of_the_wrong_type_is_one_line(delta_table, fails):
    table = delta_table(partitioned_by=["b"])
    table.commit(table.add({"a": [1]}, partitionValues={"b": "one"}))
    said = fails(table, ANALYZE)
    assert "one" in said
    assert "part-1.parquet" in said


# --- what we cannot do ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [ANALYZE, NDV, (*ANALYZE, "--no-commit"), (*ANALYZE, "--dry-run")])
@pytest.mark.parametrize(
    ("reader", "features", "says"),
    [
        (4, {}, "expected a Delta reader version up to 3, found 4"),
        (3, {"readerFeatures": ["mindReading"], "writerFeatures": ["mindReading"]}, "Delta reader features that"),
    ],
)
def test_unsupported_tables_are_refused_before_reading(table, fails, command, reader, features, says):
    table.commit(table.protocol(reader, 7, **features))
    said = fails(table, command)
    assert says in said
    assert all(feature in said for feature in features.get("readerFeatures", ()))


@pytest.mark.parametrize(
    ("protocol", "configuration", "says"),
    [
        ((1, 8, {}), {}, "expected a Delta writer version up to 7, found 8"),
        ((1, 7, {"writerFeatures": ["mindReading"]}), {}, "Delta writer features that are not supported: mindReading"),
        (
            (3, 7, {"readerFeatures": ["catalogManaged"], "writerFeatures": ["catalogManaged"]}),
            {},
            "the table's catalog alone commits to it (Delta feature catalogManaged)",
        ),
        (
            (1, 7, {"writerFeatures": ["inCommitTimestamp"]}),
            {"delta.coordinatedCommits.commitCoordinator-preview": "somebody"},
            "a coordinator alone commits to the table",
        ),
    ],
)
def test_tables_that_cannot_be_committed_to_can_still_be_read(
    table, fails, ndv_of, puffin, protocol, configuration, says
):
    """``analyze`` refuses before it reads, and suggests ``--no-commit``, which writes the file."""
    reader, writer, features = protocol
    table.commit(table.protocol(reader, writer, **features), table.metadata(configuration=configuration))
    said = fails(table, ANALYZE)
    assert says in said
    assert "--no-commit" in said
    log = content(table.log)
    ran = puffin("analyze", table.path, "--no-commit", "--json")
    assert (ran.code, ran.document["committed"]) == (0, False)
    written = content(table.log).keys() - log.keys()
    statistics = ran.document["statistics-file"]["path"]
    assert {str(table.log / name) for name in written if name.endswith(".stats")} == {statistics}
    assert written == {"_puffin_sidecar", f"_puffin_sidecar/{statistics.rpartition('/')[2]}"}
    assert puffin("verify", statistics).code == 0
    assert {c["column"]: c["ndv"] for c in ran.document["columns"]} == LIVE
    assert ndv_of(NDV, table) == {"a": None, "b": None}


@pytest.mark.parametrize("command", [ANALYZE, NDV])
def test_data_files_other_than_parquet_are_refused(table, fails, command):
    table.commit(table.metadata(format={"provider": "csv"}))
    assert f"{3:020d}.json: line 1: metaData.format: expected provider parquet, found 'csv'" in fails(table, command)


# --- our own files ----------------------------------------------------------------------------------------------------


@pytest.fixture
def analyzed(table, ndv_of):
    """A table with statistics of version 1, one more file in which column a has other values, and statistics again."""
    ndv_of(ANALYZE, table)
    table.commit(table.add({"a": range(200, 203), "b": [3] * 3}))
    assert ndv_of(ANALYZE, table) == {"a": 16, "b": 3}
    return table


def ours(table, pattern):
    (found,) = (table.log / "_puffin_sidecar").glob(pattern)
    return found


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"{"), cut])
def test_broken_entry_falls_back_to_older_ones(analyzed, ndv_of, puffin, damage):
    """The lookup uses an older entry or reports missing; the job writes the entry again."""
    newest, oldest = ours(analyzed, "4-0.json"), ours(analyzed, "2-0.json")
    damage(newest)
    assert ndv_of(NDV, analyzed) == LIVE
    sources = [column["source"] for column in puffin("ndv", analyzed.path, "--json").document["columns"]]
    assert sources == ["ancestor"] * 2
    damage(oldest)
    assert ndv_of(NDV, analyzed) == {"a": None, "b": None}
    assert ndv_of(ANALYZE, analyzed) == {"a": 16, "b": 3}
    assert ndv_of(NDV, analyzed) == {"a": 16, "b": 3}


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"PFA1"), cut])
def test_broken_statistics_file_is_replaced_by_the_next_run(analyzed, ndv_of, puffin, damage):
    """Lookups do not open it; the next job builds on an older file or reads everything."""
    damage(ours(analyzed, "4-*.stats"))
    assert ndv_of(NDV, analyzed) == {"a": 16, "b": 3}
    analyzed.commit(analyzed.add({"a": [300], "b": [4]}))
    assert ndv_of(ANALYZE, analyzed) == {"a": 17, "b": 4}
    for path in (analyzed.log / "_puffin_sidecar").glob("*.stats"):
        damage(path)
    report = puffin("analyze", analyzed.path, "--mode", "full", "--json").document
    assert {column["column"]: column["ndv"] for column in report["columns"]} == {"a": 17, "b": 4}
    assert puffin("verify", report["statistics-file"]["path"]).code == 0


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"{"), cut])
def test_broken_field_ids_are_assigned_again(analyzed, ndv_of, damage):
    """Statistics under the same ids stay valid."""
    damage(ours(analyzed, "field-ids-0.json"))
    assert ndv_of(NDV, analyzed) == {"a": 16, "b": 3}
    analyzed.commit(analyzed.add({"a": [300], "b": [4]}))
    assert ndv_of(ANALYZE, analyzed) == {"a": 17, "b": 4}
    assert ndv_of(NDV, analyzed) == {"a": 17, "b": 4}


def test_table_works_after_all_our_files_are_deleted(analyzed, ndv_of):
    shutil.rmtree(analyzed.log / "_puffin_sidecar")
    assert ndv_of(NDV, analyzed) == {"a": None, "b": None}
    assert ndv_of(ANALYZE, analyzed) == {"a": 16, "b": 3}


@pytest.mark.parametrize("command", [ANALYZE, NDV])
def test_entry_of_a_later_release_is_left_alone(analyzed, puffin, command):
    """A job that would replace it says so; a lookup uses an entry that it can read."""
    newest = ours(analyzed, "4-0.json")
    newest.write_text(json.dumps({**json.loads(newest.read_text()), "format-version": 3}))
    before = newest.read_bytes()
    ran = puffin(*command, analyzed.path)
    assert ran.code == (1 if command == ANALYZE else 0)
    assert ("4-0.json: expected format-version 2 at most, found 3" in ran.stderr) == (command == ANALYZE)
    assert len(ran.stderr.splitlines()) <= 1
    assert newest.read_bytes() == before
