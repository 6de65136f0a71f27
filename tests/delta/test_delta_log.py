"""Replay of the log: which versions exist, what they hold, and when they were made."""

import datetime
import json
import os
import threading
from pathlib import Path
from urllib.parse import unquote

import pytest

from puffin.delta.log import log_entries
from puffin.delta.log.replay import DeltaLog
from puffin.errors import (
    CorruptMetadataError,
    FileNotFound,
    SnapshotNotFound,
    StorageError,
    TableNotFound,
    UnsupportedError,
)
from puffin.storage import FileInfo, LocalStore
from tests.delta.live_files import live_files

METADATA = {"metaData": {"id": "t", "schemaString": "{}", "partitionColumns": [], "configuration": {}}}
PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


class CountingStore(LocalStore):
    """A store that records the names of the files it reads."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def read(self, uri: str) -> bytes:
        self.opened.append(uri.rpartition("/")[2])
        return super().read(uri)


class TimelessStore(LocalStore):
    """A store that does not say when files were written."""

    def list(self, directory_uri: str) -> list[FileInfo]:
        found = super().list(directory_uri)
        return [FileInfo(uri=file.uri, name=file.name, size=file.size, mtime=None) for file in found]


class FailingStore(LocalStore):
    """A store that fails to read checkpoints."""

    def read(self, uri: str) -> bytes:
        if "checkpoint" in uri:
            raise StorageError(f"{uri}: no answer")
        return super().read(uri)


class Log:
    """The log of a table in a directory, written line by line."""

    def __init__(self, table: Path) -> None:
        self.table = table
        self.directory = table / "_delta_log"
        self.directory.mkdir(parents=True)

    def put(self, version: int, *actions: dict, at_ms: int | None = None) -> None:
        """Write a log entry; version 0 gets protocol and metadata by default."""
        path = self.entry(version)
        path.write_text("\n".join(map(json.dumps, actions or ([PROTOCOL, METADATA] if version == 0 else []))))
        if at_ms is not None:
            os.utime(path, ns=(0, at_ms * 1_000_000))

    def checkpoint(self, version: int, *actions: dict, described: tuple = (PROTOCOL, METADATA)) -> Path:
        path = self.directory / f"{version:020d}.checkpoint.{UUID}.json"
        path.write_text("\n".join(map(json.dumps, [*described, *actions])))
        return path

    def entry(self, version: int) -> Path:
        return self.directory / f"{version:020d}.json"

    def segment(self, version: int | None = None, store: LocalStore | None = None):
        return DeltaLog(str(self.table), store or LocalStore()).segment(version)

    def paths(self, version: int | None = None) -> list[str]:
        return [file.path for file in live_files(self.segment(version))]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "table")


def add(path: str, vector: int | None = None, **fields) -> dict:
    return {"add": {"path": path, "partitionValues": {}, "size": 1, "deletionVector": _vector(vector), **fields}}


def remove(path: str, vector: int | None = None, **fields) -> dict:
    return {"remove": {"path": path, "deletionVector": _vector(vector), **fields}}


def settings(**configuration: str) -> dict:
    return {"metaData": {**METADATA["metaData"], "configuration": configuration}}


def _vector(number: int | None) -> dict | None:
    fields = {"storageType": "u", "pathOrInlineDv": "x", "offset": number, "sizeInBytes": 1, "cardinality": 1}
    return None if number is None else fields


# --- which versions there are -----------------------------------------------------------------------------------------


def test_complete_log_reconstructs_every_version(log: Log) -> None:
    """The newest one is the default."""
    for version in range(3):
        log.put(version)
    segment = log.segment()
    assert (segment.version, segment.newest_version, segment.oldest_version) == (2, 2, 0)
    assert segment.checkpoint_version is None
    older = log.segment(1)
    assert (older.version, older.newest_version, older.oldest_version) == (1, 2, 0)


def test_directory_without_a_log_is_no_table(tmp_path: Path) -> None:
    """A log needs one log entry, or one complete checkpoint."""
    with pytest.raises(TableNotFound, match="expected a Delta log"):
        DeltaLog(str(tmp_path), LocalStore()).segment()
    log = Log(tmp_path / "table")
    (log.directory / f"{1:020d}.checkpoint.0000000001.0000000002.parquet").touch()
    with pytest.raises(TableNotFound, match="expected a Delta log"):
        log.segment()


@pytest.mark.parametrize("version", [-1, 3])
def test_nonexistent_versions_are_not_found(log: Log, version: int) -> None:
    """Those after the newest, and negative ones."""
    for each in range(3):
        log.put(each)
    with pytest.raises(SnapshotNotFound, match=rf"no version {version}; the newest is 2"):
        log.segment(version)


def test_other_files_in_the_log_are_ignored(log: Log) -> None:
    """Checksums, compactions, staged commits and temporary files are no log entries."""
    log.put(0)
    log.put(1, add("a"))
    for name in (
        f"{1:020d}.crc",
        f"{0:020d}.{1:020d}.compacted.json",
        f"{2:020d}.json.tmp",
        f".{2:020d}.json.crc",
        f"{2:020d}.{UUID}.json",
        "2.json",
        f"{3:021d}.json",
        f"_{2:020d}.json",
        f"{2:020d}.checkpoint.parquet.tmp",
        f"{2:020d}.checkpoint.{UUID}.parquet.crc",
        "_last_checkpoint",
    ):
        (log.directory / name).write_text("not JSON")
    for directory in ("_staged_commits", "_commits", "_sidecars", "_puffin_sidecar"):
        (log.directory / directory).mkdir()
        (log.directory / directory / f"{2:020d}.json").write_text("not JSON")
    assert log.segment().version == 1
    assert log.paths() == ["a"]


def test_gap_names_the_missing_version(log: Log) -> None:
    """Versions before the gap can be reconstructed, later ones cannot."""
    for version in (0, 1, 2, 4, 5):
        log.put(version)
    for version in (None, 4):
        with pytest.raises(CorruptMetadataError, match=r"/0{19}3\.json: expected this log entry, or a complete checkp"):
            log.segment(version)
    assert log.segment(2).version == 2


def test_log_without_its_beginning_needs_a_checkpoint(log: Log) -> None:
    log.put(7)
    log.put(8)
    with pytest.raises(CorruptMetadataError, match=r"/0{19}6\.json: expected this log entry"):
        log.segment()


@pytest.mark.parametrize("checkpoint", [3, 4])
def test_checkpoint_bridges_a_gap_before_it(log: Log, checkpoint: int) -> None:
    """It replaces the log entry of its own version too."""
    for version in (0, 1, 4, 5):
        log.put(version, *([] if version == 0 else [add(str(version))]))
    log.checkpoint(checkpoint, add("c"))
    assert log.segment().checkpoint_version == checkpoint
    assert log.paths() == [["c", "4", "5"], ["c", "5"]][checkpoint - 3]
    assert log.segment(1).oldest_version == 0


def test_checkpoint_alone_is_a_table(log: Log) -> None:
    """All log entries may be gone; the version has no time then."""
    log.checkpoint(9, add("a"))
    segment = log.segment()
    assert (segment.version, segment.oldest_version, segment.checkpoint_version) == (9, 9, 9)
    assert [file.path for file in live_files(segment)] == ["a"]
    for ask in (segment.timestamp_ms, segment.commit, segment.version_at):
        with pytest.raises(SnapshotNotFound):
            ask(9)


def test_cleaned_up_versions_name_the_oldest_left(log: Log) -> None:
    """A version needs a checkpoint or all its log entries."""
    for version in (3, 4, 5, 6, 7):
        log.put(version, add(str(version)))
    log.checkpoint(5, add("c"))
    segment = log.segment()
    assert segment.oldest_version == 5
    assert [log.segment(version).version for version in (5, 6, 7)] == [5, 6, 7]
    for version in (0, 4):
        with pytest.raises(SnapshotNotFound, match=rf"version {version} can no longer be made.*the oldest.* is 5"):
            log.segment(version)
        with pytest.raises(SnapshotNotFound):
            segment.at(version)
    assert [commit.version for commit in segment.commits(2)] == [3, 4, 5, 6, 7]
    with pytest.raises(SnapshotNotFound, match="no log entry of version 2"):
        segment.commits(1)


def test_oldest_version_since_another_is_found(log: Log) -> None:
    """Itself, or the first checkpoint after it: log entries after a gap are useless alone."""
    for version in (0, 1, 4, 5, 8, 9):
        log.put(version)
    for version in (5, 9):
        log.checkpoint(version)
    segment = log.segment()
    assert [segment.first_since(version) for version in range(10)] == [0, 1, 5, 5, 5, 5, 9, 9, 9, 9]


def test_newest_checkpoint_up_to_the_version_is_used(log: Log) -> None:
    """Older versions use older checkpoints, all from one listing."""
    for version in range(8):
        log.put(version)
    log.checkpoint(2, add("two"))
    log.checkpoint(5, add("five"))
    segment = log.segment()
    assert [segment.at(version).checkpoint_version for version in (1, 2, 4, 5, 7)] == [None, 2, 2, 5, 5]
    assert [[file.path for file in live_files(segment.at(version))] for version in (1, 4, 7)] == [[], ["two"], ["five"]]


# --- what a version holds ---------------------------------------------------------------------------------------------


def test_newest_action_of_a_file_counts(log: Log) -> None:
    """A removal takes it away, an addition restores or replaces it with its statistics."""
    log.put(0, PROTOCOL, METADATA, add("a"), add("b"))
    log.put(1, remove("a"), add("c"))
    log.put(2, add("a", size=7), add("b", stats='{"numRecords":3}'))
    assert set(log.paths(0)) == {"a", "b"}
    assert set(log.paths(1)) == {"b", "c"}
    newest = {file.path: file for file in live_files(log.segment())}
    assert (newest["a"].size, newest["b"].num_records, len(newest)) == (7, 3, 3)


def test_deletion_vectors_distinguish_files(log: Log) -> None:
    """One commit removes a file with its old vector and adds it with the new, in any order."""
    log.put(0, PROTOCOL, METADATA, add("a"), add("b"))
    log.put(1, add("a", 1), remove("a"))
    log.put(2, remove("a", 1), add("a", 2))
    log.put(3, remove("b", 1))
    keys = [{file.key for file in live_files(log.segment(version))} for version in range(4)]
    assert keys[1] == {("a", "ux@1"), ("b", None)}
    assert keys[2] == keys[3] == {("a", "ux@2"), ("b", None)}


def test_paths_are_compared_without_decoding(log: Log) -> None:
    """Two spellings of a path are two files."""
    log.put(0, PROTOCOL, METADATA, add("a%20b"))
    log.put(1, remove("a b"))
    assert log.paths() == ["a%20b"]


def test_newest_protocol_and_metadata_count(log: Log) -> None:
    """Each separately, in commits after a checkpoint too."""
    log.put(0)
    log.put(1, settings(a="1"))
    log.put(2, {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}})
    log.put(3, settings(a="3"))
    log.checkpoint(2)

    def told(version: int) -> tuple:
        protocol, metadata = log.segment(version).protocol_and_metadata
        return protocol.min_reader_version, dict(metadata.configuration)

    assert [told(0), told(1)] == [(1, {}), (1, {"a": "1"})]
    assert told(3) == (1, {"a": "3"})
    log.checkpoint(2).unlink()
    assert [told(2), told(3)] == [(2, {"a": "1"}), (2, {"a": "3"})]


@pytest.mark.parametrize(("action", "missing"), [(METADATA, "protocol"), (PROTOCOL, "metaData")])
def test_log_needs_protocol_and_metadata(log: Log, action: dict, missing: str) -> None:
    log.put(0, action)
    with pytest.raises(CorruptMetadataError, match=f"up to version 0, found no {missing}"):
        _ = log.segment().protocol_and_metadata


def test_commits_are_in_order(log: Log) -> None:
    """Oldest first, however many are read at the same time."""
    log.put(0)
    for version in range(1, 40):
        log.put(version, add(str(version)))
    segment = log.segment(35)
    assert [(c.version, c.adds[0].path) for c in segment.commits(4)] == [(v, str(v)) for v in range(5, 36)]
    assert segment.commits(35) == []
    assert segment.commit(38).adds[0].path == "38"


def test_corrupt_commit_is_named_wherever_it_is_needed(log: Log) -> None:
    """Even among many that are read at the same time."""
    log.put(0)
    for version in range(1, 20):
        log.put(version)
    log.entry(13).write_text('{"commitInfo":{}}\n{"add":{"path":"cut')
    for ask in (lambda: live_files(log.segment()), lambda: log.segment().protocol_and_metadata):
        with pytest.raises(CorruptMetadataError, match=r"/0{18}13\.json: line 2: expected a JSON object"):
            ask()
    assert live_files(log.segment(12)) == []


def test_commit_deleted_after_the_listing_is_named(log: Log) -> None:
    """Log cleanup may come between."""
    log.put(0)
    segment = log.segment()
    log.entry(0).unlink()
    with pytest.raises(FileNotFound, match=r"0\.json"):
        live_files(segment)


def test_store_failure_is_no_reason_to_try_other_checkpoints(log: Log) -> None:
    """Only broken and missing ones are skipped."""
    log.put(0)
    log.checkpoint(0)
    with pytest.raises(StorageError, match="no answer"):
        live_files(log.segment(store=FailingStore()))


# --- what is read -----------------------------------------------------------------------------------------------------


def test_commits_are_read_once(log: Log) -> None:
    """Log entries never change."""
    for version in range(4):
        log.put(version)
    store = CountingStore()
    delta = DeltaLog(str(log.table), store)
    live_files(delta.segment(2))
    live_files(delta.segment())
    _ = delta.segment().protocol_and_metadata
    assert sorted(store.opened) == [f"{version:020d}.json" for version in range(4)]


def test_read_of_a_commit_that_hangs_does_not_keep_the_process_from_ending(log: Log) -> None:
    """Python waits for all threads that are no daemons."""
    for version in range(10):
        log.put(version)
    threads = []

    class Store(LocalStore):
        def read(self, uri: str) -> bytes:
            threads.append(threading.current_thread())
            return super().read(uri)

    live_files(log.segment(store=Store()))
    assert len(threads) == 10
    assert all(thread.daemon for thread in threads)


def test_recreated_table_is_read_again(log: Log) -> None:
    """Its log entries have the same names."""
    log.put(0, PROTOCOL, METADATA, add("old"), at_ms=1000)
    delta = DeltaLog(str(log.table), LocalStore())
    assert [file.path for file in live_files(delta.segment())] == ["old"]
    log.put(0, PROTOCOL, METADATA, add("new"), at_ms=2000)
    assert [file.path for file in live_files(delta.segment())] == ["new"]


def test_kept_commits_are_bounded(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones read are dropped first."""
    monkeypatch.setattr(log_entries, "_KEPT_ACTIONS", 4)
    log.put(0)
    for version in range(1, 4):
        log.put(version, add(str(version)))
    store = CountingStore()
    segment = log.segment(store=store)
    live_files(segment)
    store.opened.clear()
    live_files(segment)
    assert sorted(store.opened) == [f"{version:020d}.json" for version in range(2)]


def test_commits_before_a_checkpoint_are_not_read(log: Log) -> None:
    for version in range(4):
        log.put(version)
    checkpoint = log.checkpoint(2)
    store = CountingStore()
    segment = log.segment(store=store)
    _ = segment.protocol_and_metadata
    _ = segment.protocol_and_metadata
    assert sorted(store.opened) == [checkpoint.name, log.entry(3).name]


# --- when versions were made ------------------------------------------------------------------------------------------


def test_file_times_are_made_to_increase(log: Log) -> None:
    """Each version is at least a millisecond later than the previous one."""
    for version, at_ms in enumerate((5000, 4000, 5001, 9000)):
        log.put(version, at_ms=at_ms)
    segment = log.segment()
    assert [segment.timestamp_ms(version) for version in range(4)] == [5000, 5001, 5002, 9000]
    with pytest.raises(SnapshotNotFound, match="no log entry of version 4"):
        segment.timestamp_ms(4)


def test_times_are_exact_to_the_millisecond(log: Log) -> None:
    """As in Java: without microseconds, and without a float's error."""
    log.put(0)
    os.utime(log.entry(0), ns=(0, 1_795_256_006_290_999_000))
    assert log.segment().timestamp_ms(0) == 1_795_256_006_290


def test_version_of_a_time_is_the_newest_not_later(log: Log) -> None:
    """Later times give the last version; there is none before the first."""
    for version, at_ms in enumerate((1000, 2000, 3000)):
        log.put(version, at_ms=at_ms)
    segment = log.segment()
    assert [segment.version_at(at_ms) for at_ms in (1000, 1999, 2000, 3000, 10**15)] == [0, 0, 1, 2, 2]
    assert log.segment(1).version_at(3000) == 1
    with pytest.raises(SnapshotNotFound, match="no version is that old; the oldest left is 0"):
        segment.version_at(999)


def test_only_reconstructible_versions_are_found_by_time(log: Log) -> None:
    """Log entries before the oldest checkpoint have times but make no version."""
    for version in range(3, 8):
        log.put(version, at_ms=1000 * version)
    log.checkpoint(5)
    segment = log.segment()
    assert segment.timestamp_ms(3) == 3000
    assert [segment.version_at(at_ms) for at_ms in (5000, 6500)] == [5, 6]
    with pytest.raises(SnapshotNotFound, match="the oldest left is 5"):
        segment.version_at(4999)


def test_checkpoint_without_its_log_entry_has_no_time(log: Log) -> None:
    """Later versions have."""
    log.checkpoint(5)
    log.put(6, at_ms=6000)
    segment = log.segment()
    assert segment.oldest_version == 5
    assert segment.version_at(6000) == 6
    with pytest.raises(SnapshotNotFound, match="the oldest left is 6"):
        segment.version_at(5999)


def test_checkpoint_alone_is_of_no_known_time(log: Log) -> None:
    log.checkpoint(9)
    with pytest.raises(SnapshotNotFound, match="no log entry is left"):
        log.segment().version_at(10**15)


def test_versions_have_no_times_if_the_store_has_none(log: Log) -> None:
    """They only keep their order then."""
    for version in range(3):
        log.put(version)
    segment = log.segment(store=TimelessStore())
    assert [segment.timestamp_ms(version) for version in range(3)] == [0, 1, 2]
    with pytest.raises(UnsupportedError, match="the store does not say when files were written"):
        segment.version_at(5)


STATED = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}}
ENABLED = {"delta.enableInCommitTimestamps": "true"}


def stated(at_ms: int) -> dict:
    return {"commitInfo": {"inCommitTimestamp": at_ms}}


def test_in_commit_timestamps_count_from_the_first_version(log: Log) -> None:
    """Files may have been copied since, and the store need not know times."""
    log.put(0, stated(100), STATED, settings(**ENABLED))
    log.put(1, stated(200))
    log.put(2, stated(300))
    for store in (LocalStore(), TimelessStore()):
        segment = log.segment(store=store)
        assert [segment.timestamp_ms(version) for version in range(3)] == [100, 200, 300]
        assert [segment.version_at(at_ms) for at_ms in (100, 299, 300, 10**15)] == [0, 1, 2, 2]
        with pytest.raises(SnapshotNotFound, match="the oldest left is 0"):
            segment.version_at(99)


def test_in_commit_timestamps_count_from_their_first_version(log: Log) -> None:
    """Earlier versions have file times, and are found only by times before it."""
    log.put(0, PROTOCOL, METADATA, at_ms=100)
    log.put(1, at_ms=50_000)  # copied
    log.put(2, stated(300), STATED, settings(**ENABLED, **{"delta.inCommitTimestampEnablementVersion": "2"}))
    log.put(3, stated(400))
    segment = log.segment()
    assert [segment.timestamp_ms(version) for version in range(4)] == [100, 50_000, 300, 400]
    assert [segment.version_at(at_ms) for at_ms in (100, 299, 300, 399, 400, 60_000)] == [0, 0, 2, 2, 3, 3]
    with pytest.raises(SnapshotNotFound):
        segment.version_at(99)
    assert log.segment(1).version_at(50_000) == 1


def test_in_commit_timestamps_count_after_log_cleanup(log: Log) -> None:
    """All remaining versions have them then."""
    since = settings(**ENABLED, **{"delta.inCommitTimestampEnablementVersion": "2"})
    log.checkpoint(5, described=(STATED, since))
    for version in (5, 6):
        log.put(version, stated(100 * version))
    segment = log.segment(store=TimelessStore())
    assert [segment.version_at(at_ms) for at_ms in (500, 600)] == [5, 6]
    with pytest.raises(SnapshotNotFound, match="the oldest left is 5"):
        segment.version_at(499)


def test_commit_without_its_in_commit_timestamp_is_corrupt(log: Log) -> None:
    """The table property requires one in every commit."""
    log.put(0, STATED, settings(**ENABLED))
    with pytest.raises(CorruptMetadataError, match=r"0\.json: expected commitInfo\.inCommitTimestamp, found none"):
        log.segment().timestamp_ms(0)


def test_in_commit_timestamps_count_only_if_enabled(log: Log) -> None:
    """A writer may state times that the table does not promise."""
    log.put(0, stated(7), PROTOCOL, settings(**{"delta.enableInCommitTimestamps": "false"}), at_ms=1000)
    assert log.segment().timestamp_ms(0) == 1000


@pytest.mark.parametrize("since", ["", "-1", "two", "9" * 5000])
def test_enablement_version_must_be_a_bounded_number(log: Log, since: str) -> None:
    log.put(0, STATED, settings(**ENABLED, **{"delta.inCommitTimestampEnablementVersion": since}))
    with pytest.raises(CorruptMetadataError, match="EnablementVersion: expected a version, found"):
        log.segment().timestamp_ms(0)


# --- another writer's log ---------------------------------------------------------------------------------------------


def test_versions_equal_those_of_deltalake(tmp_path: Path) -> None:
    """Files and rows of each version, before and after its checkpoint."""
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    location = str(tmp_path / "table")
    for start in range(0, 40, 10):
        rows = pa.table({"id": range(start, start + 10), "p": ["a b", "x%y"] * 5})
        write_deltalake(location, rows, mode="append", partition_by=["p"])
    DeltaTable(location).delete("id = 13")
    DeltaTable(location).create_checkpoint()
    DeltaTable(location).optimize.compact()
    delta = DeltaLog(location, LocalStore())
    segment = delta.segment()
    assert (segment.version, segment.checkpoint_version) == (DeltaTable(location).version(), 4)
    for version in range(segment.version + 1):
        theirs = DeltaTable(location, version=version)
        files = live_files(segment.at(version))
        assert sorted(f"{location}/{unquote(file.path)}" for file in files) == sorted(theirs.file_uris())
        assert sum(file.num_records or 0 for file in files) == theirs.to_pyarrow_table().num_rows
        assert {file.partition_values["p"] for file in files} == {"a b", "x%y"}
    protocol, metadata = segment.protocol_and_metadata
    assert (metadata.id, metadata.partition_columns) == (str(DeltaTable(location).metadata().id), ("p",))
    assert protocol.min_reader_version == DeltaTable(location).protocol().min_reader_version
    assert [commit.keeps_rows for commit in segment.commits(3)] == [False, True]
    now_ms = datetime.datetime.now(datetime.timezone.utc).timestamp() * 1000
    assert now_ms - 600_000 < segment.timestamp_ms(0) < segment.timestamp_ms(5) < now_ms + 1000
