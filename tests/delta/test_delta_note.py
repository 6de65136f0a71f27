"""Notes in a table's log: their content, how they get between other commits, and what engines do with them."""

from __future__ import annotations

import datetime
import json
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from puffin.delta.log.actions import parse_commit
from puffin.delta.log.note import append_note
from puffin.delta.log.replay import DeltaLog
from puffin.delta.statistics.entries import StatisticsDirectory
from puffin.errors import CommitUnknownError, ConflictError, StorageError, TableNotFound, UnsupportedTableError
from puffin.format import THETA_V1
from puffin.storage import LocalStore
from puffin.tables.base import BlobEntry, StatisticsEntry

TABLE_ID = "f8e13838-33ca-4f53-83df-c36289047bd5"
PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}
ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
FOREIGN = {"commitInfo": {"timestamp": 1, "operation": "WRITE"}}


def log_file(root: Path, version: int) -> Path:
    return root / "_delta_log" / f"{version:020d}.json"


def write_commit(root: Path, version: int, *actions: dict) -> None:
    path = log_file(root, version)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def read_commit(root: Path, version: int) -> list[dict]:
    return [json.loads(line) for line in log_file(root, version).read_text().splitlines()]


def metadata(table_id: str = TABLE_ID, **configuration: str) -> dict:
    return {
        "metaData": {
            "id": table_id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": '{"type":"struct","fields":[]}',
            "partitionColumns": [],
            "configuration": configuration,
        }
    }


def writer_features(*names: str) -> dict:
    return {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": list(names)}


def entry_of(root: Path, version: int = 0) -> StatisticsEntry:
    path = f"{root}/_delta_log/_puffin_sidecar/{version}-x.stats"
    return StatisticsEntry(version, path, 400, 100, (BlobEntry(THETA_V1, version, version, (1,), {"ndv": "3"}),))


def note(root: Path, version: int = 0, *, store=None, table_id=TABLE_ID, sleep=time.sleep) -> int:
    store = store or LocalStore()
    log = DeltaLog(str(root), store)
    return append_note(log, table_id, entry_of(root, version), sleep=sleep)


@pytest.fixture
def root(tmp_path):
    """A table of one version that consists of its log alone."""
    write_commit(tmp_path / "t", 0, {"protocol": PLAIN}, metadata())
    return tmp_path / "t"


@pytest.fixture
def table(tmp_path):
    """A table that deltalake wrote, with two versions: its directory and its id."""
    root = tmp_path / "dl"
    configuration = {"delta.logRetentionDuration": "interval 1 days", "delta.checkpointInterval": "50"}
    write_deltalake(str(root), ROWS, configuration=configuration)
    write_deltalake(str(root), ROWS, mode="append")
    return root, DeltaTable(str(root)).metadata().id


def test_note_names_the_statistics_of_a_version(root):
    before = time.time_ns() // 1_000_000
    assert note(root, 7) == 1
    commit_info, txn = read_commit(root, 1)
    information = commit_info["commitInfo"]
    said = {"version": 7, "statisticsFile": "_delta_log/_puffin_sidecar/7-x.stats"}
    assert information["puffinSidecar"] == said
    assert information["operation"] == "PUFFIN SIDECAR STATISTICS"
    assert information["operationParameters"] == {name: str(value) for name, value in said.items()}
    assert (information["readVersion"], information["isBlindAppend"]) == (0, True)
    assert re.fullmatch(r"puffin-sidecar/\d.*", information["engineInfo"])
    assert before <= information["timestamp"] <= time.time_ns() // 1_000_000
    assert txn == {"txn": {"appId": "puffin-sidecar", "version": 7, "lastUpdated": information["timestamp"]}}


def test_note_changes_neither_rows_nor_schema(root):
    note(root)
    assert parse_commit(log_file(root, 1).read_bytes(), 1, "1").is_note


def test_each_note_has_its_own_transaction_id(root):
    note(root)
    note(root)
    assert len({read_commit(root, version)[0]["commitInfo"]["txnId"] for version in (1, 2)}) == 2


def test_note_keeps_domain_metadata_on_tables_with_it(root):
    write_commit(root, 1, {"protocol": writer_features("domainMetadata")})
    note(root, 7)
    domain = read_commit(root, 2)[2]["domainMetadata"]
    configuration = json.loads(domain.pop("configuration"))
    assert domain == {"domain": "io.github.puffin-sidecar", "removed": False}
    assert configuration == {"version": 7, "statisticsFile": "_delta_log/_puffin_sidecar/7-x.stats"}


@pytest.mark.parametrize("ahead_ms", [-5000, 5000])
def test_in_commit_timestamps_come_first_and_increase(root, ahead_ms):
    """Even after a version from a clock ahead of ours."""
    start = time.time_ns() // 1_000_000
    last = start + ahead_ms
    write_commit(
        root,
        1,
        {"commitInfo": {"inCommitTimestamp": last}},
        {"protocol": writer_features("inCommitTimestamp")},
        metadata(
            **{
                "delta.enableInCommitTimestamps": "true",
                "delta.inCommitTimestampEnablementVersion": "1",
                "delta.inCommitTimestampEnablementTimestamp": str(last),
            }
        ),
    )
    note(root)
    note(root)
    first, second = (read_commit(root, version)[0]["commitInfo"] for version in (2, 3))
    assert next(iter(first)) == "inCommitTimestamp"
    assert first["inCommitTimestamp"] == first["timestamp"] >= max(start, last + 1)
    assert first["inCommitTimestamp"] < second["inCommitTimestamp"]
    assert ahead_ms < 0 or second["inCommitTimestamp"] == last + 2


def test_table_without_in_commit_timestamps_gets_none(root):
    write_commit(root, 1, {"protocol": writer_features("inCommitTimestamp")})
    note(root)
    assert "inCommitTimestamp" not in read_commit(root, 2)[0]["commitInfo"]


@pytest.mark.parametrize(
    ("interval", "without"),
    [("4", {3, 4, 7, 8, 11, 12}), (None, {9, 10}), ("0", {9, 10}), ("ten", {9, 10}), ("1", set(range(1, 13)))],
)
def test_versions_at_which_engines_write_checkpoints_get_no_note(root, interval, without):
    """Spark writes one with a version that is a multiple of the interval, deltalake with the one before."""
    if interval:
        write_commit(root, 0, {"protocol": PLAIN}, metadata(**{"delta.checkpointInterval": interval}))
    for version in range(1, 13):
        made = note(root)
        assert made == (None if version in without else version)
        if made is None:
            write_commit(root, version, FOREIGN)


def test_table_that_is_analyzed_after_each_write_gets_its_checkpoints(tmp_path):
    root = tmp_path / "t"
    write_deltalake(str(root), ROWS, configuration={"delta.checkpointInterval": "5"})
    table_id = DeltaTable(str(root)).metadata().id
    write_deltalake(str(root), ROWS, mode="append")
    while DeltaTable(str(root)).version() < 20:
        write_deltalake(str(root), ROWS, mode="append")
        note(root, table_id=table_id)
    checkpoints = sorted(int(path.name[:20]) for path in (root / "_delta_log").glob("*.checkpoint.parquet"))
    assert checkpoints == [4, 9, 14, 19]


class Overtaken(LocalStore):
    """A store in which others commit just before us."""

    def __init__(self, root: Path, *commits: list[dict]) -> None:
        self._root = root
        self._commits = list(commits)

    def put_if_absent(self, uri, data):
        if self._commits:
            write_commit(self._root, int(Path(uri).stem), *self._commits.pop(0))
        super().put_if_absent(uri, data)


def test_note_that_is_overtaken_up_to_a_checkpoint_is_left_out(root):
    assert note(root, store=Overtaken(root, *[[FOREIGN]] * 99), sleep=lambda _: None) is None
    assert not log_file(root, 9).exists()


def test_taken_version_is_skipped_for_the_next_one(root):
    waits = []
    store = Overtaken(root, [FOREIGN], [FOREIGN])
    assert note(root, store=store, sleep=waits.append) == 3
    assert read_commit(root, 1) == read_commit(root, 2) == [FOREIGN]
    assert read_commit(root, 3)[0]["commitInfo"]["readVersion"] == 2
    assert len(waits) == 2


def test_protocol_change_of_another_writer_is_obeyed(root):
    """The note was legal when we began."""
    store = Overtaken(root, [{"protocol": writer_features("somethingNew")}])
    with pytest.raises(UnsupportedTableError, match="somethingNew"):
        note(root, store=store, sleep=lambda _: None)
    assert not log_file(root, 2).exists()
    store = Overtaken(root, [{"protocol": writer_features("domainMetadata")}])
    log_file(root, 1).unlink()
    assert note(root, store=store, sleep=lambda _: None) == 2
    assert "domainMetadata" in read_commit(root, 2)[-1]


def test_replaced_table_gets_no_note(root):
    with pytest.raises(TableNotFound, match=f"expected table other, found {TABLE_ID}"):
        note(root, table_id="other")
    store = Overtaken(root, [metadata("other")])
    with pytest.raises(TableNotFound, match=f"expected table {TABLE_ID}, found other"):
        note(root, store=store, sleep=lambda _: None)
    assert not log_file(root, 2).exists()


def test_loser_of_every_race_waits_longer_and_gives_up(root):
    write_commit(root, 0, {"protocol": PLAIN}, metadata(**{"delta.checkpointInterval": "50"}))
    waits = []
    with pytest.raises(ConflictError, match="other writers were faster in each of 21 attempts"):
        note(root, store=Overtaken(root, *[[FOREIGN]] * 99), sleep=waits.append)
    assert len(waits) == 20
    assert all(0.01 * 2**i <= wait <= 0.02 * 2**i for i, wait in enumerate(waits[:6]))
    assert max(waits) <= 2


class Unclear(LocalStore):
    """A store that writes the first log entry and then reports a failure."""

    def __init__(self, *, readable: bool) -> None:
        self._readable = readable
        self._failed: set[str] = set()

    def put_if_absent(self, uri, data):
        super().put_if_absent(uri, data)
        if not self._failed:
            self._failed.add(uri)
            raise StorageError(f"{uri}: timeout")

    def read(self, uri):
        if uri in self._failed and not self._readable:
            raise StorageError(f"{uri}: no answer")
        return super().read(uri)


def test_note_found_after_an_unclear_outcome_is_not_repeated(root):
    assert note(root, store=Unclear(readable=True)) == 1
    assert not log_file(root, 2).exists()


def test_outcome_that_cannot_be_checked_is_unknown(root):
    with pytest.raises(CommitUnknownError, match="timeout; reading it back failed too"):
        note(root, store=Unclear(readable=False))


def test_concurrent_notes_and_appends_are_all_kept(table):
    """Earlier log entries are unchanged."""
    root, table_id = table
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    barrier = threading.Barrier(6)

    def job(index):
        barrier.wait()
        if index == 0:
            for _ in range(3):
                write_deltalake(str(root), ROWS, mode="append")
            return []
        return [note(root, 10 * index + i, table_id=table_id) for i in range(3)]

    with ThreadPoolExecutor(6) as pool:
        versions = [version for noted in pool.map(job, range(6)) for version in noted]
    entries = sorted(path for path in (root / "_delta_log").iterdir() if re.fullmatch(r"\d{20}\.json", path.name))
    assert [int(path.stem) for path in entries] == list(range(2 + 3 + 15))
    said = {version: read_commit(root, version)[0]["commitInfo"].get("puffinSidecar") for version in range(20)}
    assert sorted(version for version in said if said[version]) == sorted(versions)
    assert sorted(each["version"] for each in said.values() if each) == sorted(
        10 * index + i for index in range(1, 6) for i in range(3)
    )
    assert {path: path.read_bytes() for path in before} == before
    assert list((root / "_delta_log").glob(".*")) == []
    assert DeltaTable(str(root)).to_pyarrow_table().num_rows == 5 * 3


@pytest.fixture
def noted(table):
    """A table with statistics and a note of version 1, an older handle, and the statistics' files."""
    root, table_id = table
    stale = DeltaTable(str(root))
    directory = StatisticsDirectory(str(root), LocalStore())
    path = Path(directory.new_path(1))
    path.parent.mkdir()
    path.write_bytes(b"PFA1")
    entry = StatisticsEntry(1, str(path), 4, 4, (BlobEntry(THETA_V1, 1, 1, (1,), {"ndv": "3"}),))
    directory.put_field_ids({("a",): 1}, 0)
    directory.put(entry, table_id, {1: ("a",)}, 0, None)
    store = LocalStore()
    append_note(DeltaLog(str(root), store), table_id, entry)
    return root, stale, {file: file.read_bytes() for file in path.parent.iterdir()}


def test_deltalake_shows_the_note_and_continues_to_read(noted):
    root, _, _ = noted
    latest = DeltaTable(str(root))
    assert latest.version() == 2
    assert latest.to_pyarrow_table().num_rows == 6
    assert latest.history(1)[0]["operation"] == "PUFFIN SIDECAR STATISTICS"
    assert latest.transaction_version("puffin-sidecar") == 1


@pytest.mark.parametrize("write", ["append", "overwrite", "delete", "compact", "alter"])
def test_deltalake_handle_from_before_the_note_writes_after_it(noted, write):
    root, stale, _ = noted
    if write == "delete":
        stale.delete("a = 1")
    elif write == "compact":
        stale.optimize.compact()
    elif write == "alter":
        stale.alter.set_table_properties({"delta.appendOnly": "false"})
    else:
        write_deltalake(stale, ROWS, mode=write)
    latest = DeltaTable(str(root))
    assert latest.version() == 3
    rows = {"append": 9, "overwrite": 3, "delete": 4, "compact": 6, "alter": 6}
    assert latest.to_pyarrow_table().num_rows == rows[write]


def test_statistics_survive_deltalakes_maintenance(noted):
    """Checkpoints, log cleanup and VACUUM without retention; the note goes, its transaction stays."""
    root, _, files = noted
    write_deltalake(str(root), ROWS, mode="overwrite")
    write_deltalake(str(root), ROWS, mode="append")
    DeltaTable(str(root)).create_checkpoint()
    padded = root / "_delta_log" / "_puffin_sidecar" / f"field-ids-{0:020d}.json"
    padded.write_text("{}")  # what no file of ours is called
    long_ago = (datetime.datetime.now() - datetime.timedelta(days=90)).timestamp()
    for path in root.rglob("*"):
        os.utime(path, (long_ago, long_ago))
    latest = DeltaTable(str(root))
    latest.cleanup_metadata()
    assert not log_file(root, 2).exists()
    assert not padded.exists()
    removed = latest.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    assert len(removed) == 2
    assert {path: path.read_bytes() for path in files} == files
    latest = DeltaTable(str(root))
    assert latest.to_pyarrow_table().num_rows == 6
    assert latest.transaction_version("puffin-sidecar") == 1
    assert note(root, table_id=latest.metadata().id) == latest.version() + 1
