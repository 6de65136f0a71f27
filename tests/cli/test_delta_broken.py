"""
``puffin analyze`` and ``puffin ndv`` over Delta tables that are broken or beyond us: one line, an exit code, no more.

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
    """What is in a directory: each file's bytes, and the directories that have none."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        for path in directory.rglob("*")
    }


@pytest.fixture
def fails(puffin):
    """Runs a command on a table, and checks that it fails as commands should; returns the line that it says."""

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
    """The NDV of each column as a command tells it."""

    def ask(command, table, *options):
        ran = puffin(*command, table.path, "--json", *options)
        assert (ran.code, ran.stderr) == (0, "")
        return {column["column"]: column["ndv"] for column in ran.document["columns"]}

    return ask


LIVE = {"a": 13, "b": 2}


def test_the_table_is_sound_before_it_is_broken(table, ndv_of):
    """Else the tests below would prove nothing."""
    assert ndv_of(ANALYZE, table) == LIVE
    assert ndv_of(NDV, table) == LIVE


# --- the log ----------------------------------------------------------------------------------------------------------


def cut(path, by=9):
    path.write_bytes(path.read_bytes()[:-by])


@pytest.mark.parametrize("command", [ANALYZE, NDV])
@pytest.mark.parametrize("version", [0, 2])
def test_a_log_entry_that_was_cut_short(table, fails, command, version):
    cut(table.entry(version))
    said = fails(table, command)
    assert f"/_delta_log/{version:020d}.json: line " in said
    assert "expected a JSON object" in said


@pytest.mark.parametrize("command", [ANALYZE, NDV])
def test_a_log_entry_that_lacks_what_the_protocol_requires(table, fails, command):
    table.commit({"add": {"path": "x.parquet", "partitionValues": {}, "dataChange": True}})
    assert f"{3:020d}.json: line 1: add.size: expected int, found nothing" in fails(table, command)


@pytest.mark.parametrize("command", [ANALYZE, NDV])
def test_a_version_that_is_missing(table, fails, command):
    table.entry(1).unlink()
    assert f"/_delta_log/{1:020d}.json: expected this log entry, or a complete checkpoint" in fails(table, command)


@pytest.mark.parametrize("command", [ANALYZE, NDV])
def test_a_log_without_metadata(delta_table, fails, command):
    table = delta_table()
    table.entry(0).write_text(json.dumps(table.protocol()))
    assert "/_delta_log: expected a protocol and a metaData action up to version 0, found no metaData" in fails(
        table, command
    )


@pytest.mark.parametrize("command", [ANALYZE, NDV])
def test_an_empty_log(delta_table, fails, command):
    assert "/_delta_log: expected a Delta log, found no log entry and no complete checkpoint" in fails(
        delta_table(), command
    )


@pytest.mark.parametrize("command", [ANALYZE, NDV])
@pytest.mark.parametrize("schema", ["", "[]", '{"type": "struct", "fields": [{"name": "a"}]}'])
def test_a_schema_that_cannot_be_understood(table, fails, command, schema):
    table.commit(table.metadata(schemaString=schema))
    assert f"puffin: {table.path}: schemaString: " in fails(table, command)


# --- checkpoints ------------------------------------------------------------------------------------------------------


def checkpoint(table, version, parts=1, sidecar=None):
    """Write the checkpoint of a version, and clean up the log up to it; returns its files."""
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
def test_a_sound_checkpoint(table, ndv_of, parts, sidecar):
    """It stands for the log before it."""
    checkpoint(table, 1, parts, sidecar)
    assert ndv_of(ANALYZE, table) == LIVE


@pytest.mark.parametrize("command", [ANALYZE, NDV])
def test_a_part_of_a_checkpoint_that_is_missing(table, fails, command):
    checkpoint(table, 1, parts=3)[1].unlink()
    assert f"/_delta_log/{1:020d}.json: expected this log entry, or a complete checkpoint" in fails(table, command)


def test_a_sidecar_that_is_missing(table, fails, ndv_of):
    """It names the data files, which only the job asks for."""
    (sidecar,) = checkpoint(table, 1, sidecar="s.parquet")
    sidecar.unlink()
    said = fails(table, ANALYZE)
    assert f".checkpoint.{CHECKPOINT_UUID}.json: a sidecar of the checkpoint is missing" in said
    assert str(sidecar) in said
    assert ndv_of(NDV, table) == {"a": None, "b": None}


@pytest.mark.parametrize("command", [ANALYZE, NDV])
@pytest.mark.parametrize("broken", [b"", b"PAR1", None])
def test_a_checkpoint_that_cannot_be_read(table, fails, command, broken):
    (file,) = checkpoint(table, 1)
    if broken is None:
        cut(file)
    else:
        file.write_bytes(broken)
    assert f"/_delta_log/{1:020d}.checkpoint.parquet: expected a readable checkpoint" in fails(table, command)


@pytest.mark.parametrize(
    "hint", [b"", b"{", b"[]", b"\xff", b'{"version": 999, "size": 1}', b'{"version": 1, "size": 1, "parts": 7}']
)
def test_a_hint_at_the_last_checkpoint_makes_no_difference(table, ndv_of, hint):
    (table.log / "_last_checkpoint").write_bytes(hint)
    assert ndv_of(ANALYZE, table) == LIVE
    assert ndv_of(NDV, table) == LIVE
    checkpoint(table, 1)
    assert ndv_of(ANALYZE, table, "--mode", "full") == LIVE


# --- data files and deletion vectors ----------------------------------------------------------------------------------


def vector_file(table):
    (found,) = table.path.glob("deletion_vector_*.bin")
    return found


def test_a_data_file_that_is_missing(table, fails):
    (table.path / "part-2.parquet").unlink()
    said = fails(table, ANALYZE)
    assert f"{table.path}/part-2.parquet" in said


@pytest.mark.parametrize("broken", [b"", b"PAR1 and no more"])
def test_a_data_file_that_cannot_be_read(table, fails, broken):
    (table.path / "part-2.parquet").write_bytes(broken)
    assert f"{table.path}/part-2.parquet: " in fails(table, ANALYZE)


def test_a_deletion_vector_that_is_missing(table, fails):
    file = vector_file(table)
    file.unlink()
    assert str(file) in fails(table, ANALYZE)


@pytest.mark.parametrize("position", [1, 5, 9, 30, -1])
def test_a_deletion_vector_with_a_byte_changed(table, fails, position):
    """Its size, its magic, its bitmap or its checksum."""
    damaged = bytearray(vector_file(table).read_bytes())
    damaged[position] ^= 0xFF
    vector_file(table).write_bytes(damaged)
    assert str(vector_file(table)) in fails(table, ANALYZE)


def test_a_deletion_vector_that_was_cut_short(table, fails):
    cut(vector_file(table), by=1)
    assert str(vector_file(table)) in fails(table, ANALYZE)


def with_vector(table, **fields):
    """Change the last version's descriptor of the deletion vector."""
    remove, added = (json.loads(line) for line in table.entry(2).read_text().splitlines())
    added["add"]["deletionVector"] |= fields
    table.entry(2).write_text(f"{json.dumps(remove)}\n{json.dumps(added)}\n")


def test_a_deletion_vector_that_deletes_other_than_it_says(table, fails):
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
def test_a_deletion_vector_that_is_nowhere(table, fails, fields):
    with_vector(table, **fields)
    assert f"puffin: {table.path}: deletion vector " in fails(table, ANALYZE)


def test_a_partition_value_that_is_not_of_its_type(delta_table, fails):
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
def test_what_cannot_be_read_right_is_not_read_at_all(table, fails, command, reader, features, says):
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
def test_what_cannot_be_committed_to_can_be_read(table, fails, ndv_of, puffin, protocol, configuration, says):
    """``analyze`` refuses before it reads, and points to ``--no-commit``, which writes the file."""
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
def test_files_other_than_parquet(table, fails, command):
    table.commit(table.metadata(format={"provider": "csv"}))
    assert f"{3:020d}.json: line 1: metaData.format: expected provider parquet, found 'csv'" in fails(table, command)


# --- our own files ----------------------------------------------------------------------------------------------------


@pytest.fixture
def analyzed(table, ndv_of):
    """The table with statistics of version 1, a file more of which column a has other values, and statistics again."""
    ndv_of(ANALYZE, table)
    table.commit(table.add({"a": range(200, 203), "b": [3] * 3}))
    assert ndv_of(ANALYZE, table) == {"a": 16, "b": 3}
    return table


def ours(table, pattern):
    (found,) = (table.log / "_puffin_sidecar").glob(pattern)
    return found


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"{"), cut])
def test_an_entry_of_ours_that_is_broken(analyzed, ndv_of, puffin, damage):
    """The lookup goes on to older ones, and says missing if there are none; the job makes it anew."""
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
def test_a_statistics_file_of_ours_that_is_broken(analyzed, ndv_of, puffin, damage):
    """Lookups do not open it; the next job cannot build on it, and builds on an older one or reads all."""
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
def test_field_ids_of_ours_that_are_broken(analyzed, ndv_of, damage):
    """They are given anew; what has been said under the same ids counts still."""
    damage(ours(analyzed, "field-ids-0.json"))
    assert ndv_of(NDV, analyzed) == {"a": 16, "b": 3}
    analyzed.commit(analyzed.add({"a": [300], "b": [4]}))
    assert ndv_of(ANALYZE, analyzed) == {"a": 17, "b": 4}
    assert ndv_of(NDV, analyzed) == {"a": 17, "b": 4}


def test_all_of_ours_that_is_gone(analyzed, ndv_of):
    shutil.rmtree(analyzed.log / "_puffin_sidecar")
    assert ndv_of(NDV, analyzed) == {"a": None, "b": None}
    assert ndv_of(ANALYZE, analyzed) == {"a": 16, "b": 3}


@pytest.mark.parametrize("command", [ANALYZE, NDV])
def test_an_entry_of_a_later_release_is_left_alone(analyzed, puffin, command):
    """A job that would replace it says so, and a lookup goes on to what it can read."""
    newest = ours(analyzed, "4-0.json")
    newest.write_text(json.dumps({**json.loads(newest.read_text()), "format-version": 2}))
    before = newest.read_bytes()
    ran = puffin(*command, analyzed.path)
    assert ran.code == (1 if command == ANALYZE else 0)
    assert ("4-0.json: expected format-version 1, found 2" in ran.stderr) == (command == ANALYZE)
    assert len(ran.stderr.splitlines()) <= 1
    assert newest.read_bytes() == before
