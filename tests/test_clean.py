"""Cleanup of Iceberg tables: what goes, what stays and why; the statistics files are real."""

from __future__ import annotations

import datetime
import gzip
import hashlib
import io
import json
import os
import shutil
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin.clean import clean
from puffin.errors import CommitUnknownError, ConflictError, CorruptMetadataError, UnsupportedTableError, UsageError
from puffin.format import CREATED_BY, PuffinWriter
from puffin.iceberg.table import IcebergSnapshot
from puffin.load import load_table
from puffin.storage import LocalStore
from puffin.tables.commit import commit_statistics
from puffin.tables.leftovers import SAFETY_AGE
from tests.table_directory import publish

UUID = uuid.UUID("6e3dd8b0-0000-4000-8000-000000000001")
DAY = datetime.timedelta(days=1)
NOW = datetime.timedelta()


class Made:
    """
    A table in a directory or a SQL catalog.

    Attributes:
        document: Reads the current metadata.
        replace: Makes a document the next version.
    """

    def __init__(self, root: Path, name: str, catalog: SqlCatalog | None) -> None:
        self.root = root
        self.metadata = root / "metadata"
        self._name = name
        self._catalog = catalog

    def open(self):
        if self._catalog is None:
            return load_table(self._name)
        properties = dict(self._catalog.properties)
        return load_table(self._name, catalog="prod", catalog_properties=properties)

    def clean(self, older_than=NOW, **options):
        return clean(self.open(), older_than=older_than, sleep=lambda _: None, **options)

    def document(self) -> dict:
        return dict(self.open().open().state.document)

    def replace(self, **fields) -> None:
        """Commit another writer's next version."""
        state = self.open().open().state
        log = [*state.document["metadata-log"], {"timestamp-ms": 1, "metadata-file": state.metadata_location}]
        document = {**state.document, "metadata-log": log, **fields}
        if self._catalog is None:
            publish(self.root, document)
            return
        path = self.metadata / f"{len(log):05d}-{uuid.uuid4()}.metadata.json"
        path.write_text(json.dumps(document))
        with self._catalog.engine.begin() as connection:
            connection.exec_driver_sql("UPDATE iceberg_tables SET metadata_location = ?", (path.as_uri(),))

    def names(self) -> set[str]:
        return {path.name for path in self.metadata.iterdir()}


@pytest.fixture(params=["directory", "sql"])
def made(request, table_document, tmp_path) -> Made:
    """A table with snapshots 10 and 20 that never expires snapshots by itself."""
    root = tmp_path / "t"
    (root / "metadata").mkdir(parents=True)
    location = str(root) if request.param == "directory" else root.as_uri()
    path = root / "metadata" / "v1.metadata.json"
    path.write_text(json.dumps(table_document(location, snapshots=(10, 20))))
    if request.param == "directory":
        return Made(root, str(root), None)
    catalog = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    catalog.register_table("db.t", path.as_uri())
    return Made(root, "db.t", catalog)


@pytest.fixture
def orphan(made, draft_of):
    """Writes the statistics file of a job killed before its commit, and returns its path."""

    def write(snapshot_id: int = 20, table: Made = made) -> Path:
        opened = table.open()
        entry = draft_of(opened, {"a": [1]}, snapshot_id).write(opened.open(), [])
        return local(entry.statistics_path)

    return write


@pytest.fixture
def commit(made, draft_of):
    """Commits the statistics of a snapshot, and returns the path of the file."""

    def run(snapshot_id: int = 20) -> Path:
        table = made.open()
        return local(commit_statistics(table, draft_of(table, {"a": [1]}, snapshot_id)).entry.statistics_path)

    return run


def local(uri: str) -> Path:
    return Path(urlsplit(uri).path)


def paths(leftovers) -> set[str]:
    """The leftover statistics files; other tests cover private state."""
    return {leftover.file.name for leftover in leftovers.files if "/_puffin_sidecar/" not in leftover.file.uri}


def kept(cleaning) -> dict[str, str]:
    return {local(each.path).name: each.reason for each in cleaning.kept}


def puffin_file(created_by: str | None) -> bytes:
    sink = io.BytesIO()
    PuffinWriter(sink, properties={CREATED_BY: created_by} if created_by else {}).finish()
    return sink.getvalue()


def age(path: Path, by: datetime.timedelta) -> None:
    then = (datetime.datetime.now() - by).timestamp()
    os.utime(path, (then, then), follow_symlinks=False)


def tree_hash(root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        digest.update(f"{path} {status.st_mtime_ns} {status.st_ino}\0".encode())
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


# --- what goes ----------------------------------------------------------------------------------------------------


def test_unreferenced_file_is_listed_and_then_removed(made, orphan, commit, tmp_path):
    named, lost = commit(), orphan()
    before = tree_hash(tmp_path)
    listed = made.clean()
    assert tree_hash(tmp_path) == before
    assert (paths(listed), listed.kept, listed.removed) == ({lost.name}, (), False)
    removed = made.clean(remove=True)
    assert (paths(removed), removed.removed) == ({lost.name}, True)
    assert named.exists()
    assert not lost.exists()
    assert made.clean().files == ()


@pytest.mark.parametrize("name", ["t", "other/../t", "link/t"])
def test_file_is_listed_and_removed_once_however_the_table_is_named(made, orphan, tmp_path, monkeypatch, name):
    """Metadata has an absolute location, and a caller may name the table by a relative path or over a link."""
    lost = orphan()
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    for remove in (False, True):
        found = clean(load_table(name), older_than=NOW, remove=remove)
        assert [local(each.file.uri).name for each in found.files if "_puffin_sidecar" not in each.file.uri] == [
            lost.name
        ]
        assert lost.exists() is not remove


def test_temporary_file_is_removed_whatever_its_content(made):
    """A job was killed while it wrote statistics or metadata."""
    name = f".puffin-sidecar-{uuid.uuid4().hex}.tmp"
    (made.metadata / name).write_bytes(b"PFA1 cut sho")
    assert paths(made.clean(remove=True)) == {name}
    assert name not in made.names()


def test_temporary_name_of_a_committed_file_is_removed_alone(made, commit):
    """A job was killed between linking the file's name and removing the temporary one."""
    named = commit()
    temporary = made.metadata / f".puffin-sidecar-{uuid.uuid4().hex}.tmp"
    os.link(named, temporary)
    assert paths(made.clean(remove=True)) == {temporary.name}
    assert named.exists()
    assert made.open().open().state.statistics[20]


def test_only_our_partition_statistics_are_removed(made):
    """Files that do not name their writer stay."""
    names = {who: f"partition-stats-20-{uuid.uuid4()}.parquet" for who in ("puffin-sidecar", "another", "")}
    rows = pa.table({"spec_id": pa.array([0], pa.int32())})
    for who, name in names.items():
        with pq.ParquetWriter(made.metadata / name, rows.schema) as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata({CREATED_BY: who} if who else {})
    broken = f"partition-stats-20-{uuid.uuid4()}.parquet"
    (made.metadata / broken).write_bytes(b"PAR1")
    cleaning = made.clean(remove=True)
    assert paths(cleaning) == {names["puffin-sidecar"]}
    assert set(kept(cleaning)) == {names["another"], names[""], broken}


def test_clean_table_has_no_leftovers(made, commit):
    commit(10)
    commit(20)
    cleaning = made.clean(remove=True)
    assert (cleaning.files, cleaning.entries, cleaning.kept) == ((), (), ())


# --- what stays ---------------------------------------------------------------------------------------------------


def test_file_younger_than_the_safety_age_is_kept(made, orphan):
    """A running job may be about to commit it."""
    young, old = orphan(), orphan()
    age(young, SAFETY_AGE - DAY)
    age(old, SAFETY_AGE + DAY)
    cleaning = made.clean(SAFETY_AGE, remove=True)
    assert paths(cleaning) == {old.name}
    assert "a job may be about to refer to it" in kept(cleaning)[young.name]


def test_file_of_unknown_age_is_kept(made, orphan, monkeypatch):
    lost = orphan()
    list_ = LocalStore.list
    monkeypatch.setattr(LocalStore, "list", lambda *args: [file._replace(mtime=None) for file in list_(*args)])
    assert kept(made.clean()) == {lost.name: "the store gives no time of its last change"}


def test_file_time_in_the_future_is_no_age(made, orphan):
    """A store with a fast clock makes its files neither old, nor young if no age is asked for."""
    lost = orphan()
    age(lost, -DAY)
    assert paths(made.clean(datetime.timedelta(seconds=1))) == set()
    assert paths(made.clean()) == {lost.name}


def test_file_of_an_earlier_metadata_version_is_kept(made, commit):
    """Readers of that version, and rollbacks to it, need it."""
    first = commit()
    before = Path(urlsplit(made.open().open().state.metadata_location).path).name
    commit()
    second = made.open().open().state.statistics[20].statistics_path
    assert local(second) != first
    cleaning = made.clean(remove=True)
    assert cleaning.files == ()
    assert kept(cleaning)[first.name].endswith(before)


def test_file_is_removed_with_the_last_metadata_that_names_it(made, commit):
    first = commit()
    before = local(made.open().open().state.metadata_location)
    commit()
    before.unlink()
    assert paths(made.clean(remove=True)) == {first.name}


def test_logged_metadata_counts_in_any_directory(made, orphan, tmp_path):
    """For example after a change of `write.metadata.path`."""
    lost = orphan()
    elsewhere = tmp_path / "elsewhere" / "v0.metadata.json"
    elsewhere.parent.mkdir()
    entry = {"snapshot-id": 20, "statistics-path": f"s3a://other/spelling/{lost.name}"}
    elsewhere.write_text(json.dumps({**made.document(), "statistics": [entry]}))
    made.replace(**{"metadata-log": [{"timestamp-ms": 1, "metadata-file": str(elsewhere)}]})
    assert kept(made.clean(remove=True)) == {lost.name: f"named by {elsewhere}"}
    elsewhere.unlink()
    assert paths(made.clean(remove=True)) == {lost.name}


@pytest.mark.parametrize("name", ["00009-x.metadata.json", "x.gz.metadata.json", "00008-y.metadata.json.gz"])
@pytest.mark.parametrize("key", ["statistics", "partition-statistics"])
def test_unlogged_metadata_counts_too(made, orphan, name, key):
    """It may be the next version, or another catalog's of the same table."""
    lost = orphan()
    entry = {"snapshot-id": 20, "statistics-path": str(lost)}
    data = json.dumps({**made.document(), "statistics": [], key: [entry]}).encode()
    (made.metadata / name).write_bytes(gzip.compress(data) if "gz" in name else data)
    cleaning = made.clean(remove=True)
    assert cleaning.files == ()
    assert kept(cleaning)[lost.name].endswith(f"/{name}")
    assert lost.exists()


@pytest.mark.parametrize("data", [b"{", b"\x1f\x8b cut", b'{"statistics": [{}]}', b'{"statistics": 1}'])
def test_unreadable_metadata_keeps_every_file(made, orphan, data):
    """Nobody knows what it names."""
    lost = orphan()
    (made.metadata / "00009-x.metadata.json").write_bytes(data)
    assert "cannot be read" in kept(made.clean(remove=True))[lost.name]


@pytest.mark.parametrize("created_by", ["Apache Iceberg 1.10.0", "puffin-sidecars 1", "Trino", None])
def test_other_writers_file_is_kept(made, created_by):
    name = f"20-{uuid.uuid4()}.stats"
    (made.metadata / name).write_bytes(puffin_file(created_by))
    assert f"created by {created_by!r}" in kept(made.clean(remove=True))[name]


def test_invalid_puffin_file_is_kept(made, orphan):
    """Its writer is unknown; our own files are always complete."""
    sound = orphan()
    data = sound.read_bytes()
    for broken in (b"", data[:-1], b"XXXX" + data[4:], data[:-5] + b"\xff" + data[-4:]):
        (made.metadata / f"20-{uuid.uuid4()}.stats").write_bytes(broken)
    cleaning = made.clean(remove=True)
    assert paths(cleaning) == {sound.name}
    assert len(cleaning.kept) == 4
    assert all("not a Puffin file that can be read" in kept.reason for kept in cleaning.kept)


@pytest.mark.parametrize(
    "name",
    [
        f"20-{UUID}.stats.bak",
        f"20-{UUID}.stats\n",
        f"..%2f20-{UUID}.stats",
        f"٢٠-{UUID}.stats",
        f"20-{UUID.hex}.stats",
        f"-{UUID}.stats",
        ".puffin-sidecar-.tmp",
        f".puffin-sidecar-{UUID.hex}.tmp.crc",
        f"{UUID}.puffin",
    ],
)
def test_file_with_another_kind_of_name_is_not_opened(made, name):
    (made.metadata / name).write_bytes(puffin_file("puffin-sidecar 1.0"))
    before = made.names()
    cleaning = made.clean(remove=True)
    assert (cleaning.files, cleaning.kept, made.names()) == ((), (), before)


@pytest.mark.parametrize("name", [f"20-{UUID}.stats", f".puffin-sidecar-{UUID.hex}.tmp"])
def test_links_are_not_followed(made, orphan, tmp_path, name):
    """Neither the link nor its target is removed."""
    target = orphan().rename(tmp_path / "precious")
    link = made.metadata / name
    link.symlink_to(target)
    assert "is a link" in kept(made.clean(remove=True))[name]
    assert link.is_symlink()
    assert target.exists()


def test_directory_with_a_files_name_is_kept(made):
    (made.metadata / f"20-{uuid.uuid4()}.stats" / "inside").mkdir(parents=True)
    assert made.clean(remove=True).files == ()


def test_file_committed_between_the_two_looks_is_kept(made, orphan, monkeypatch):
    """Another job commits just before the deletion."""
    lost = orphan()
    table = made.open()
    open_, opens = table.open, []

    def open_and_commit(*args):
        opens.append(1)
        if len(opens) == 3:  # after the first look, and after the look for entries
            made.replace(statistics=[entry_of(lost)])
        return open_(*args)

    monkeypatch.setattr(table, "open", open_and_commit)
    assert clean(table, older_than=NOW, remove=True).files == ()
    assert len(opens) == 3
    assert lost.exists()


def entry_of(path: Path, snapshot_id: int = 20) -> dict:
    sizes = {"file-size-in-bytes": 1, "file-footer-size-in-bytes": 1}
    return {"snapshot-id": snapshot_id, "statistics-path": str(path), **sizes, "blob-metadata": []}


def test_file_overwritten_between_the_two_looks_is_kept(made, orphan, monkeypatch):
    lost = orphan()
    table = made.open()
    find, looks = IcebergSnapshot.leftovers, []

    def find_and_touch(*args):
        looks.append(find(*args))
        age(lost, DAY)
        return looks[-1]

    monkeypatch.setattr(IcebergSnapshot, "leftovers", find_and_touch)
    assert clean(table, older_than=NOW, remove=True).files == ()


# --- directories --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", [True, False])
def test_current_and_former_metadata_paths_are_searched(made, orphan, tmp_path, inside):
    """Outside the table's directory only files of its own snapshots count: other tables may share the place."""
    before = orphan()
    elsewhere = (made.root if inside else tmp_path) / "elsewhere"
    made.replace(properties={"write.metadata.path": str(elsewhere)})
    after = orphan()
    assert after.parent == elsewhere
    stranger = elsewhere / f"30-{uuid.uuid4()}.stats"
    shutil.copy(after, stranger)
    cleaning = made.clean(remove=True)
    assert paths(cleaning) == {before.name, after.name} | ({stranger.name} if inside else set())
    assert stranger.exists() != inside
    assert set(kept(cleaning)) == (set() if inside else {stranger.name})


def test_copy_of_a_table_is_not_cleaned_up(made, orphan, tmp_path):
    """Its metadata names the original's directory."""
    lost = orphan()
    shutil.copytree(made.root, tmp_path / "copy")
    with pytest.raises(UnsupportedTableError, match="expected this table's metadata"):
        clean(load_table(str(tmp_path / "copy")), older_than=NOW, remove=True)
    assert lost.exists()


def test_other_catalogs_files_of_the_same_table_are_kept(made, draft_of, tmp_path):
    """Its metadata is in the same directory, but in no log of ours."""
    state = made.open().open().state
    other = SqlCatalog("other", uri=f"sqlite:///{tmp_path}/other.db", warehouse=f"file://{tmp_path}/warehouse")
    other.create_namespace("db")
    other.register_table("db.t", local(state.metadata_location).as_uri())
    table = load_table("db.t", catalog="other", catalog_properties=dict(other.properties))
    entry = commit_statistics(table, draft_of(table, {"a": [1]})).entry
    made.replace(properties={"x": "y"})
    assert "named by" in kept(made.clean(remove=True))[local(entry.statistics_path).name]
    assert table.open().state.statistics[20] == entry
    assert local(entry.statistics_path).exists()


@pytest.mark.parametrize("location", ["", "file:relative"])
def test_invalid_path_in_the_log_keeps_every_file(made, orphan, location):
    lost = orphan()
    made.replace(**{"metadata-log": [{"timestamp-ms": 1, "metadata-file": location}]})
    assert "cannot be read" in kept(made.clean(remove=True))[lost.name]


@pytest.mark.parametrize("log", [[{}], [1], [{"metadata-file": 1}]])
def test_broken_metadata_log_is_reported(made, log):
    made.replace(**{"metadata-log": log})
    with pytest.raises(CorruptMetadataError, match="metadata log"):
        made.clean()


def test_metadata_file_cannot_be_cleaned_up(made, orphan):
    """It is one version, and does not know which is the newest."""
    orphan()
    location = made.open().open().state.metadata_location
    with pytest.raises(UsageError, match="name the table"):
        clean(load_table(location), older_than=NOW)


def test_catalog_table_cannot_be_cleaned_up_by_directory(tmp_path, table_document):
    """Only the catalog knows which version is current."""
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "00001-x.metadata.json").write_text(json.dumps(table_document(tmp_path)))
    with pytest.raises(UnsupportedTableError, match="--catalog"):
        clean(load_table(str(tmp_path)))


# --- entries ------------------------------------------------------------------------------------------------------


def test_empty_folders_of_our_files_are_removed(made):
    """Jobs and cleanings that were killed leave them; the others hold something, or are not of one file."""
    private = made.root / "_puffin_sidecar"
    name = "00000000-0000-4000-8000-000000000000"
    for empty in (f"parts/{name}", f"progress/{name}", f"index/segments/{name}", f"index/{7:020d}", "parts/other"):
        (private / empty).mkdir(parents=True)
    held = private / "index" / f"{8:020d}" / "version-hint.text"
    held.parent.mkdir()
    held.write_bytes(b"")
    before = tree_hash(made.root)
    made.clean()
    assert tree_hash(made.root) == before
    made.clean(remove=True)
    left = {str(path.relative_to(private)) for path in private.rglob("*") if not any(path.glob("*"))}
    assert left == {"parts/other", "progress", "index/segments", str(held.relative_to(private))}


def expire(made: Made, snapshot_id: int = 10) -> None:
    """Expire a snapshot without touching statistics, as some writers do."""
    snapshots = [each for each in made.document()["snapshots"] if each["snapshot-id"] != snapshot_id]
    made.replace(snapshots=snapshots)


def entries(made: Made, key: str = "statistics") -> list[int]:
    return [entry["snapshot-id"] for entry in made.document().get(key, ())]


def test_entries_of_missing_snapshots_are_listed_and_then_removed(made, commit, tmp_path):
    gone, alive = commit(10), commit(20)
    unknown = {"deep": [2**70, None]}
    made.replace(unknown=unknown)
    expire(made)
    before = tree_hash(tmp_path)
    listed = made.clean()
    assert tree_hash(tmp_path) == before
    assert [(e.snapshot_id, local(e.statistics_path)) for e in listed.entries] == [(10, gone)]
    removed = made.clean(remove=True)
    assert removed.entries == listed.entries
    assert entries(made) == [20]
    assert made.document()["unknown"] == unknown
    assert alive.exists()
    assert made.clean().entries == ()


def test_file_of_a_removed_entry_goes_with_the_last_metadata_that_names_it(made, commit):
    gone = commit(10)
    expire(made)
    cleaning = made.clean(remove=True)
    assert (cleaning.files, set(kept(cleaning))) == ((), {gone.name})
    current = local(made.open().open().state.metadata_location)
    for path in made.metadata.glob("*.metadata.json"):
        if path != current:
            path.unlink()
    assert paths(made.clean(remove=True)) == {gone.name}


def test_partition_statistics_entries_of_any_writer_are_removed_too(made, orphan):
    """All entries of the missing snapshot, and none of an existing one."""
    foreign = [{"snapshot-id": s, "statistics-path": f"p-{s}", "file-size-in-bytes": 1} for s in (10, 20, 30, 30)]
    made.replace(**{"partition-statistics": foreign, "statistics": [entry_of(Path("s"), 30)]})
    expire(made)
    cleaning = made.clean(remove=True)
    assert [entry.statistics_path for entry in cleaning.entries] == ["s", "p-10", "p-30"]
    assert (entries(made), entries(made, "partition-statistics")) == ([], [20])


def test_entry_removal_retries_after_a_lost_race(made, commit, monkeypatch):
    commit(10)
    expire(made)
    table = made.open()
    remove, attempts = table.remove_entries, []

    def lose_once(base, dead):
        attempts.append(dead)
        if len(attempts) == 1:
            made.replace(properties={"x": "y"})
        remove(base, dead)

    monkeypatch.setattr(table, "remove_entries", lose_once)
    clean(table, older_than=NOW, remove=True, sleep=lambda _: None)
    assert len(attempts) == 2
    assert entries(made) == []
    assert made.document()["properties"] == {"x": "y"}


@pytest.mark.parametrize("error", [ConflictError("another writer"), CommitUnknownError("no clear answer"), None])
def test_entry_removal_that_never_succeeds_fails(made, commit, monkeypatch, error):
    """It reports no removal that did not happen."""
    commit(10)
    expire(made)
    table = made.open()
    attempts = []

    def refuse(base, dead):
        attempts.append(dead)
        if error is not None:
            raise error

    monkeypatch.setattr(table, "remove_entries", refuse)
    with pytest.raises(type(error or CommitUnknownError("")), match=str(error) if error else "still has them"):
        clean(table, older_than=NOW, remove=True, sleep=lambda _: None)
    assert len(attempts) == 5
    assert entries(made) == [10]


def test_unclear_outcome_is_checked(made, commit, monkeypatch):
    """Here the entries are gone."""
    commit(10)
    expire(made)
    table = made.open()
    remove = table.remove_entries

    def remove_and_fail(base, dead):
        remove(base, dead)
        raise CommitUnknownError("no clear answer")

    monkeypatch.setattr(table, "remove_entries", remove_and_fail)
    assert len(clean(table, older_than=NOW, remove=True, sleep=lambda _: None).entries) == 1


def test_broken_entry_is_reported(made):
    """Nobody can tell whether its snapshot is gone."""
    made.replace(**{"partition-statistics": [{"snapshot-id": 10}]})
    with pytest.raises(CorruptMetadataError, match="statistics entries"):
        made.clean()
