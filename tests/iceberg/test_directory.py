"""Tables that are directories: which version is current, and how the next one is written."""

from __future__ import annotations

import gzip
import json
import shutil
import time
from pathlib import Path

import pytest

from puffin.errors import ConflictError, CorruptMetadataError, TableNotFound, UnsupportedError, UnsupportedTableError
from puffin.iceberg.catalogs.directory import IcebergDirectory
from puffin.load import load_table
from puffin.storage.local import LocalStore
from puffin.tables.commit import commit_statistics

PLAIN, GZIP, OLD_GZIP = "metadata.json", "gz.metadata.json", "metadata.json.gz"


class Directory:
    """The metadata directory of a table, written by hand."""

    def __init__(self, root: Path, document: dict) -> None:
        self.root = root
        self.metadata = root / "metadata"
        self.metadata.mkdir(parents=True)
        self.document = document

    def put(self, name: str, **fields) -> None:
        data = json.dumps({**self.document, **fields}).encode()
        (self.metadata / name).write_bytes(gzip.compress(data) if "gz" in name else data)

    def hint(self, text: str) -> None:
        (self.metadata / "version-hint.text").write_text(text)

    def read(self, name: str) -> dict:
        data = (self.metadata / name).read_bytes()
        return json.loads(gzip.decompress(data) if "gz" in name else data)

    def names(self) -> set[str]:
        return {path.name for path in self.metadata.iterdir()}

    @property
    def table(self) -> IcebergDirectory:
        return IcebergDirectory(str(self.root))

    def current(self) -> str:
        return self.table.open().state.metadata_location.rpartition("/")[2]


@pytest.fixture
def directory(tmp_path, table_document):
    """A table without any versions yet."""
    return Directory(tmp_path / "t", table_document(tmp_path / "t"))


@pytest.fixture
def commit(draft_of):
    """Commit statistics of columns of a directory's table."""
    return lambda directory, **values: commit_statistics(
        directory.table, draft_of(directory.table, values or {"a": [1, 2]}), sleep=lambda _: None
    )


# --- which version is the current one -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hint",
    [
        "3",
        "3\n",
        "v3",
        "v3.metadata.json",
        "1",  # the writer of 2 and 3 died before it changed the hint
        "v1.metadata.json",
        "9",  # the versions after 3 were taken back
        "garbage",
        "../../v1",
        "",
        "9" * 5000,
        "٣",
        "-1",
        None,
    ],
)
def test_newest_version_is_found_whatever_the_hint_says(directory, hint):
    for version in (1, 2, 3):
        directory.put(f"v{version}.metadata.json")
    if hint is not None:
        directory.hint(hint)
    assert directory.current() == "v3.metadata.json"


def test_hint_that_is_not_text_is_ignored(directory):
    directory.put("v1.metadata.json")
    (directory.metadata / "version-hint.text").write_bytes(b"\xff\xfe3")
    assert directory.current() == "v1.metadata.json"


def test_hint_to_a_deleted_version_is_ignored(directory):
    """Tables may delete old versions, and the hint may be older still."""
    directory.put("v7.metadata.json")
    directory.hint("2")
    assert directory.current() == "v7.metadata.json"


@pytest.mark.parametrize("extension", [PLAIN, GZIP, OLD_GZIP])
def test_versions_are_followed_across_spellings(directory, extension):
    directory.put("v1.metadata.json")
    directory.put(f"v2.{extension}")
    directory.put("v3.gz.metadata.json")
    directory.hint("1")
    assert directory.current() == "v3.gz.metadata.json"


def test_tenth_version_is_newer_than_the_ninth(directory):
    for version in (8, 9, 10):
        directory.put(f"v{version}.metadata.json")
    assert directory.current() == "v10.metadata.json"


@pytest.mark.parametrize("hint", ["1730833887", "v1730833887.metadata.json", None])
def test_version_may_be_the_seconds_since_1970(directory, hint):
    """As large as that are versions that exporters number by the clock."""
    directory.put("v999999999.metadata.json")
    directory.put("v1730833887.metadata.json")
    if hint is not None:
        directory.hint(hint)
    assert directory.current() == "v1730833887.metadata.json"


def test_hint_may_name_a_catalogs_file(directory):
    """Exporters write such hints for readers without a catalog."""
    directory.put("00001-aaaa.metadata.json")
    directory.put("00002-bbbb.metadata.json")
    directory.hint("00001-aaaa.metadata.json")
    assert directory.current() == "00001-aaaa.metadata.json"
    directory.hint("00001-aaaa")
    assert directory.current() == "00001-aaaa.metadata.json"


def test_highest_version_of_a_catalog_is_read_without_a_hint(directory):
    directory.put("00002-aaaa.metadata.json")
    directory.put("00010-0bbb.gz.metadata.json")
    assert directory.current() == "00010-0bbb.gz.metadata.json"


def test_version_deleted_during_the_search_is_searched_again(directory, monkeypatch):
    directory.put("v1.metadata.json")
    table = directory.table
    find = table._current

    def find_and_lose():
        found = find()
        directory.put("v2.metadata.json")
        (directory.metadata / "v1.metadata.json").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(table, "_current", find_and_lose)
    assert table.open().state.metadata_location.endswith("v2.metadata.json")


def test_directory_with_a_hint_is_not_listed(directory, monkeypatch):
    """It may have very many files."""
    directory.put("v1.metadata.json")
    directory.hint("1")
    monkeypatch.setattr(LocalStore, "list", lambda *_: pytest.fail("the directory was listed"))
    table = load_table(str(directory.metadata.parent))
    assert table.open().state.metadata_location.endswith("v1.metadata.json")


def test_directory_without_metadata_is_no_table(directory):
    with pytest.raises(TableNotFound, match="no Iceberg metadata file"):
        directory.table.open()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\x1f\x8b broken", b"{}", b"\xff", b'{"format-version": 2}'])
def test_broken_metadata_is_reported_as_corrupt(directory, content):
    (directory.metadata / "v1.metadata.json").write_bytes(content)
    with pytest.raises(CorruptMetadataError, match=r"v1\.metadata\.json"):
        directory.table.open()


# --- the next version ---------------------------------------------------------------------------------------------


def test_view_is_not_called_broken_metadata(directory):
    """Catalogs write views into the same warehouse, under the same names."""
    view = {"view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385", "format-version": 1, "schemas": [], "versions": []}
    (directory.metadata / "00000-a.metadata.json").write_text(json.dumps(view))
    with pytest.raises(UnsupportedTableError, match=r"00000-a.metadata.json: expected a table, found a view"):
        directory.table.open()


@pytest.mark.parametrize("extension", [PLAIN, GZIP, OLD_GZIP])
def test_next_version_keeps_spelling_and_compression(directory, commit, extension):
    directory.put(f"v4.{extension}")
    directory.hint("4")
    entry = commit(directory).entry
    assert directory.read(f"v5.{extension}")["statistics"][0]["statistics-path"] == entry.statistics_path
    assert (directory.metadata / "version-hint.text").read_text() == "5"
    assert directory.names() == {
        f"v4.{extension}",
        f"v5.{extension}",
        "version-hint.text",
        entry.statistics_path.rpartition("/")[2],
    }


def test_checksum_of_the_old_hint_is_deleted(directory, commit):
    """Hadoop's local file system compares a file with it, and fails."""
    directory.put("v1.metadata.json")
    directory.hint("1")
    (directory.metadata / ".version-hint.text.crc").write_bytes(b"crc\0")
    commit(directory)
    assert ".version-hint.text.crc" not in directory.names()


def test_missing_hint_is_written(directory, commit):
    directory.put("v1.metadata.json")
    commit(directory)
    assert (directory.metadata / "version-hint.text").read_text() == "2"


def test_unwritable_hint_does_not_fail_the_commit(directory, commit):
    directory.put("v1.metadata.json")
    (directory.metadata / "version-hint.text").mkdir()
    commit(directory)
    assert directory.current() == "v2.metadata.json"


def test_log_names_the_last_version_as_the_table_does(directory, commit):
    directory.document["location"] = f"file:{directory.root}/"
    directory.put("v1.metadata.json", **{"last-updated-ms": 77})
    commit(directory)
    assert directory.read("v2.metadata.json")["metadata-log"] == [
        {"timestamp-ms": 77, "metadata-file": f"file:{directory.root}/metadata/v1.metadata.json"}
    ]


@pytest.mark.parametrize(("limit", "kept"), [("3", 3), ("1", 1), ("0", 1), (None, 100), ("many", 100)])
def test_log_is_trimmed_to_the_tables_limit(directory, commit, limit, kept):
    log = [{"timestamp-ms": i, "metadata-file": f"{directory.metadata}/v{i}.metadata.json"} for i in range(1, 150)]
    for version in (1, 149):
        directory.put(f"v{version}.metadata.json")
    directory.put(
        "v150.metadata.json",
        **{"metadata-log": log, "properties": {"write.metadata.previous-versions-max": limit} if limit else {}},
    )
    directory.hint("150")
    commit(directory)
    written = directory.read("v151.metadata.json")["metadata-log"]
    assert len(written) == kept
    assert written[-1]["metadata-file"] == f"{directory.metadata}/v150.metadata.json"
    assert written[:-1] == log[150 - kept :]
    assert "v1.metadata.json" in directory.names()


@pytest.mark.parametrize(("wanted", "deleted"), [("true", True), ("TRUE", True), ("false", False), ("yes", False)])
def test_superseded_versions_are_deleted_only_if_the_table_says_so(directory, commit, wanted, deleted):
    properties = {
        "write.metadata.previous-versions-max": "2",
        "write.metadata.delete-after-commit.enabled": wanted,
    }
    log = [{"timestamp-ms": i, "metadata-file": f"{directory.metadata}/v{i}.metadata.json"} for i in (1, 2, 3)]
    for version in (1, 2, 3):
        directory.put(f"v{version}.metadata.json")
    directory.put("v4.metadata.json", **{"metadata-log": log, "properties": properties})
    directory.hint("4")
    commit(directory)
    gone = {"v1.metadata.json", "v2.metadata.json"} - directory.names()
    assert gone == ({"v1.metadata.json", "v2.metadata.json"} if deleted else set())
    assert {"v3.metadata.json", "v4.metadata.json", "v5.metadata.json"} <= directory.names()


def test_undeletable_superseded_version_does_not_fail_the_commit(directory, commit):
    properties = {
        "write.metadata.previous-versions-max": "1",
        "write.metadata.delete-after-commit.enabled": "true",
    }
    log = [{"timestamp-ms": 1, "metadata-file": "nosuch://bucket/v1.metadata.json"}]
    directory.put("v2.metadata.json", **{"metadata-log": log, "properties": properties})
    entry = commit(directory).entry
    assert Path(entry.statistics_path).exists()


def test_version_listed_twice_in_the_log_is_kept_while_listed(directory, commit):
    properties = {
        "write.metadata.previous-versions-max": "2",
        "write.metadata.delete-after-commit.enabled": "true",
    }
    directory.put("v1.metadata.json")
    twice = [{"timestamp-ms": i, "metadata-file": f"{directory.metadata}/v1.metadata.json"} for i in (1, 2)]
    directory.put("v2.metadata.json", **{"metadata-log": twice, "properties": properties})
    commit(directory)
    assert "v1.metadata.json" in directory.names()


def test_last_updated_time_never_goes_back(directory, commit):
    """Another writer's clock may be ahead of ours."""
    ahead = (time.time_ns() // 1_000_000) + 3_600_000
    directory.put("v1.metadata.json", **{"last-updated-ms": ahead})
    commit(directory)
    assert directory.read("v2.metadata.json")["last-updated-ms"] == ahead


def test_last_updated_time_is_now(directory, commit):
    directory.put("v1.metadata.json")
    before = time.time_ns() // 1_000_000
    commit(directory)
    assert before <= directory.read("v2.metadata.json")["last-updated-ms"] <= time.time_ns() // 1_000_000


def test_unknown_fields_survive_a_commit(directory, commit):
    unknown = {"é": ["\ud800", 2**70, 1.5, -0.0, None, True, {"deep": []}]}
    snapshots = [{**directory.document["snapshots"][0], "new-in-v9": unknown}]
    foreign = {
        "snapshot-id": 5,
        "statistics-path": "s3://elsewhere/5.stats",
        "file-size-in-bytes": 413,
        "file-footer-size-in-bytes": 42,
        "key-metadata": "c2VjcmV0",
        "blob-metadata": [{"type": "hive", "snapshot-id": 5, "sequence-number": 1, "fields": [1], "x": unknown}],
    }
    directory.put("v1.metadata.json", statistics=[foreign, foreign], unknown=unknown, snapshots=snapshots)
    commit(directory)
    before, after = directory.read("v1.metadata.json"), directory.read("v2.metadata.json")
    changed = {"statistics", "metadata-log", "last-updated-ms"}
    assert after["statistics"][:2] == [foreign, foreign]
    assert {k: v for k, v in after.items() if k not in changed} == {k: v for k, v in before.items() if k not in changed}
    assert list(after) == list(before)


def test_entry_replaces_every_entry_of_its_snapshot(directory, commit):
    directory.put("v1.metadata.json")
    commit(directory)
    entry = directory.read("v2.metadata.json")["statistics"][0]
    directory.put("v3.metadata.json", statistics=[entry, entry])
    directory.hint("3")
    commit(directory, b=[1])
    (only,) = directory.read("v4.metadata.json")["statistics"]
    assert [blob["fields"] for blob in only["blob-metadata"]] == [[1], [2]]


@pytest.mark.parametrize("place", ["elsewhere", "elsewhere/"])
def test_statistics_files_follow_the_tables_metadata_path(directory, commit, tmp_path, place):
    directory.put("v1.metadata.json", properties={"write.metadata.path": f"{tmp_path}/{place}"})
    path = Path(commit(directory).entry.statistics_path)
    assert path.parent == tmp_path / "elsewhere"
    assert path.exists()


def test_statistics_files_are_named_like_icebergs(directory, commit):
    directory.put("v1.metadata.json")
    path = Path(commit(directory).entry.statistics_path)
    assert path.parent == directory.metadata
    snapshot_id, _, uuid = path.stem.partition("-")
    assert (snapshot_id, len(uuid), path.suffix) == ("10", 36, ".stats")


def test_two_runs_leave_one_entry_with_the_columns_of_both(directory, commit):
    directory.put("v1.metadata.json")
    commit(directory, b=[1])
    commit(directory, a=[1])
    (entry,) = directory.read("v3.metadata.json")["statistics"]
    assert [blob["fields"] for blob in entry["blob-metadata"]] == [[1], [2]]
    log = directory.read("v3.metadata.json")["metadata-log"]
    assert [e["metadata-file"].rpartition("/")[2] for e in log] == ["v1.metadata.json", "v2.metadata.json"]


# --- races and refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extension", [PLAIN, GZIP, OLD_GZIP])
def test_another_writers_version_is_never_overwritten(directory, draft_of, extension):
    """In any spelling: readers take either for that version."""
    directory.put("v1.metadata.json")
    table = directory.table
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    directory.put(f"v2.{extension}", winner=True)
    with pytest.raises(ConflictError):
        base.commit(entry)
    assert directory.read(f"v2.{extension}")["winner"] is True
    assert len([name for name in directory.names() if name.startswith("v")]) == 2


def test_concurrent_writers_version_is_not_overwritten(directory, draft_of, monkeypatch):
    directory.put("v1.metadata.json")
    table = directory.table
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    monkeypatch.setattr(table, "_existing", lambda _: None)
    directory.put("v2.metadata.json", winner=True)
    with pytest.raises(ConflictError):
        base.commit(entry)
    assert directory.read("v2.metadata.json")["winner"] is True


def test_name_of_a_deleted_version_is_not_taken_again(directory, draft_of):
    """Writers that keep a short log delete versions, and whoever takes such a name would undo all later ones."""
    directory.put("v1.metadata.json")
    opened = directory.table.open()
    entry = draft_of(directory.table, {"a": [1]}).write(opened, [])
    directory.put("v4.metadata.json", properties={"theirs": "1"})
    directory.hint("4")
    with pytest.raises(ConflictError, match="another writer committed after"):
        opened.commit(entry)
    assert directory.current() == "v4.metadata.json"


def test_catalogs_metadata_directory_is_not_committed_to(directory, commit):
    """Its catalog would not notice, and its next commit would undo ours."""
    directory.put("00003-8a7e.metadata.json")
    before = directory.names()
    with pytest.raises(UnsupportedTableError, match="--catalog"):
        commit(directory)
    assert directory.names() == before


def test_copy_of_a_table_is_not_committed_to(directory, commit, tmp_path):
    """Its metadata names the original's files; nothing is written in either place."""
    directory.put("v1.metadata.json")
    original = directory.names()
    shutil.copytree(directory.root, tmp_path / "copy")
    copied = Directory.__new__(Directory)
    copied.root, copied.metadata = tmp_path / "copy", tmp_path / "copy" / "metadata"
    with pytest.raises(UnsupportedTableError, match="expected this table's metadata"):
        commit(copied)
    shutil.rmtree(directory.root)
    with pytest.raises(UnsupportedTableError, match="expected this table's metadata"):
        commit(copied)
    assert copied.names() == original
    assert not directory.root.exists()


@pytest.mark.parametrize("spelling", ["{}", "{}/", "file:{}", "file://{}/", "file://localhost{}"])
def test_original_table_is_recognized_in_any_spelling_of_its_place(directory, draft_of, spelling):
    directory.document["location"] = f"file://{directory.root}/"
    directory.put("v1.metadata.json")
    table = load_table(spelling.format(directory.root))
    assert commit_statistics(table, draft_of(table, {"a": [1]})).attempts == 1


def test_original_table_is_recognized_behind_links_and_relative_paths(directory, draft_of, tmp_path, monkeypatch):
    directory.put("v1.metadata.json")
    (tmp_path / "link").symlink_to(directory.root)
    monkeypatch.chdir(tmp_path)
    for place in (tmp_path / "link", "t"):
        table = load_table(str(place))
        assert commit_statistics(table, draft_of(table, {"a": [1]})).attempts == 1


def test_object_store_without_conditional_put_is_refused_and_unchanged(table_document, draft_of):
    import fsspec

    memory = fsspec.filesystem("memory")
    root = "memory://test-directory/t"
    memory.pipe(f"{root}/metadata/v1.metadata.json", json.dumps(table_document(root)).encode())
    try:
        table = load_table(root)
        with pytest.raises(UnsupportedError, match="conditional puts"):
            commit_statistics(table, draft_of(table, {"a": [1]}))
        assert [path.rpartition("/")[2] for path in memory.find(root)] == ["v1.metadata.json"]
    finally:
        memory.rm(root, recursive=True)
