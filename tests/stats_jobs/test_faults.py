"""
The job fails in each of its steps in turn: what it says, what it leaves behind, and that the next run succeeds.

Where a fault can be real it is: files that are gone, cut short or links in a circle, directories in the place of files,
a limit on the size of files. Where no file system does us the favour, a table or a store that fails stands between,
through the seams that other formats fill.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin.cli import main
from puffin.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptDataFileError,
    CorruptMetadataError,
    FileNotFound,
    PuffinError,
    StorageError,
)
from puffin.load import load_table
from puffin.lookup import ndv
from puffin.statistics.basis import READ_ADDED, READ_ALL
from puffin.storage import LocalStore, Sink, local_path
from puffin.tables.base import SnapshotSelector, StatisticsEntry
from puffin.tables.snapshot import CURRENT, TableSnapshot
from puffin.tables.state import TableState
from stats_jobs import Options, analyze

ROWS = pa.table({"a": pa.array(range(100), pa.int64()), "b": [str(i % 7) for i in range(100)]})
MORE_ROWS = pa.table({"a": pa.array(range(50, 150), pa.int64()), "b": [str(i % 9) for i in range(100)]})
NDVS = {"a": 150, "b": 9}
IMPATIENT = {"commit.retry.num-retries": "2", "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2"}
NO_LOOKS = {"commit.status-check.num-retries": "0"}


class Scene:
    """
    A table in a directory with two snapshots, the first with statistics to build on.

    Attributes:
        root: The table's directory.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._before = self._files()
        self._moved: list[tuple[Path, Path]] = []

    @property
    def name(self) -> str:
        return str(self.root)

    def newest(self, pattern: str) -> Path:
        """Return the newest file of a pattern."""
        return max(self.root.glob(pattern), key=lambda path: path.stat().st_mtime_ns)

    def current_metadata(self) -> Path:
        return Path(str(local_path(load_table(self.name).open().state.metadata_location)))

    def current_manifest_list(self) -> Path:
        state = load_table(self.name).open().state
        snapshot = state.select_snapshot(SnapshotSelector())
        return Path(str(local_path(snapshot.manifest_list)))

    def spoil(self, path: Path, how: Callable[[Path], object]) -> None:
        """Move a file aside until `heal`, and put something else in its place."""
        aside = self.root.parent / f"aside-{len(self._moved)}"
        path.rename(aside)
        self._moved.append((aside, path))
        shutil.copyfile(aside, path)
        how(path)

    def heal(self) -> None:
        for aside, path in self._moved:
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            aside.replace(path)
        self._moved.clear()

    def left_behind(self) -> set[str]:
        """Return the files that did not exist before."""
        return self._files() - self._before

    def check_nothing_dangles(self) -> None:
        """Check that every statistics file in the table's metadata exists and is complete."""
        for entry in load_table(self.name).open().state.statistics.values():
            path = Path(str(local_path(entry.statistics_path)))
            assert path.stat().st_size == entry.file_size_in_bytes

    def check_next_run(self) -> None:
        self.heal()
        analyze(self.name)
        assert {column.column.name: column.ndv for column in ndv(self.name).columns} == NDVS
        self.check_nothing_dangles()

    def _files(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if not path.is_dir()}


@pytest.fixture
def new_scene(tmp_path):
    def make(**properties: str) -> Scene:
        root = tmp_path / "t"
        catalog = SqlCatalog("faults", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
        catalog.create_namespace("db")
        table = catalog.create_table(
            "db.t", ROWS.schema, location=root.as_uri(), properties={**IMPATIENT, **NO_LOOKS, **properties}
        )
        table.append(ROWS)
        table.append(MORE_ROWS)
        last = Path(str(local_path(table.metadata_location)))
        for path in root.glob("metadata/*.metadata.json"):
            path.rename(path.with_name("v1.metadata.json")) if path == last else path.unlink()
        (root / "metadata" / "version-hint.text").write_text("1")
        first = table.metadata.snapshots[0].snapshot_id
        analyze(str(root), Options(selector=SnapshotSelector(snapshot_id=first)))
        return Scene(root)

    return make


@pytest.fixture
def scene(new_scene):
    return new_scene()


# --- reading ------------------------------------------------------------------------------------------------------


def gone(path: Path) -> None:
    path.unlink()


def circle(path: Path) -> None:
    """A file that exists but cannot be opened, even by root."""
    path.unlink()
    path.symlink_to(path.name)


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


METADATA = Scene.current_metadata
MANIFEST_LIST = Scene.current_manifest_list


def manifest(scene: Scene) -> Path:
    return scene.newest("metadata/*-m0.avro")


def data_file(scene: Scene) -> Path:
    return scene.newest("data/*.parquet")


READING = [
    ("metadata", METADATA, circle, StorageError),
    ("metadata", METADATA, cut_short, CorruptMetadataError),
    ("manifest list", MANIFEST_LIST, gone, FileNotFound),
    ("manifest list", MANIFEST_LIST, circle, StorageError),
    ("manifest list", MANIFEST_LIST, cut_short, CorruptMetadataError),
    ("manifest", manifest, gone, FileNotFound),
    ("manifest", manifest, circle, StorageError),
    ("manifest", manifest, cut_short, CorruptMetadataError),
    ("data file", data_file, gone, FileNotFound),
    ("data file", data_file, circle, StorageError),
    ("data file", data_file, cut_short, CorruptDataFileError),
]


@pytest.mark.parametrize(
    ("of", "how", "error"),
    [case[1:] for case in READING],
    ids=[f"{what} {how.__name__}" for what, _, how, _ in READING],
)
def test_unreadable_file_fails_the_job_in_one_line(scene, capsys, of, how, error):
    """The library raises the class, the command exits with 1, and nothing is written."""
    path = of(scene)
    scene.spoil(path, how)
    with pytest.raises(error) as caught:
        analyze(scene.name)
    # Of a directory with a link in a circle, it is the listing that fails.
    assert ("symbolic links" if how is circle else path.name) in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(SystemExit) as ended:
        main(["analyze", scene.name])
    assert ended.value.code == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert scene.left_behind() <= {str(path.relative_to(scene.root))}
    scene.check_next_run()


@pytest.mark.parametrize("how", [gone, cut_short])
def test_unreadable_base_sketch_causes_a_full_run(scene, how):
    """Earlier statistics only help: without them everything is read, and nothing fails."""
    scene.spoil(scene.newest("metadata/*.stats"), how)
    report = analyze(scene.name)
    assert {column.basis for column in report.columns} == {READ_ALL}
    scene.check_next_run()


@pytest.mark.parametrize("mode", ["auto", "incremental"])
def test_store_that_does_not_give_a_base_sketch_fails_the_job(scene, monkeypatch, mode):
    """Unlike a file that is gone, the next run can build on it."""
    open_source, statistics = LocalStore.open_source, scene.newest("metadata/*.stats").name

    def busy(store, uri):
        if uri.endswith(statistics):
            raise StorageError(f"{uri}: 503 Slow Down")
        return open_source(store, uri)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "open_source", busy)
        with pytest.raises(StorageError, match="503 Slow Down"):
            analyze(scene.name, Options(mode=mode))
    assert scene.left_behind() == set()
    assert {column.basis for column in analyze(scene.name).columns} == {READ_ADDED}


def test_readable_base_sketch_is_built_on(scene):
    assert {column.basis for column in analyze(scene.name).columns} == {READ_ADDED}


@pytest.mark.parametrize(
    ("how", "error"), [(gone, FileNotFound), (circle, StorageError), (cut_short, CorruptDataFileError)]
)
def test_unreadable_delete_file_fails_the_job(delta_table, how, error):
    writer = delta_table()
    added = writer.add({"a": [1, 2, 3], "b": [1, 1, 1]})
    writer.commit(added)
    writer.commit(*writer.delete_rows(added, [0]))
    (vector,) = writer.path.glob("deletion_vector_*.bin")
    aside = vector.read_bytes()
    how(vector)
    with pytest.raises(error) as caught:
        analyze(str(writer.path))
    assert vector.name in str(caught.value)
    assert list(writer.log.rglob("*.stats")) == []
    assert writer.version == 1
    vector.unlink(missing_ok=True)
    vector.write_bytes(aside)
    analyze(str(writer.path))
    assert [column.ndv for column in ndv(str(writer.path)).columns] == [2, 1]


# --- writing and committing ---------------------------------------------------------------------------------------


class Between:
    """A table some of whose attributes are replaced when it is opened."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._table = load_table(name)

    def open(self, selector: SnapshotSelector = CURRENT) -> TableSnapshot:
        opened = self._table.open(selector)
        opened.__dict__.update(self.instead(dataclasses.replace(opened)))
        return opened

    def instead(self, opened: TableSnapshot) -> dict[str, Any]:
        """The attributes to replace, given the table as it was opened."""
        return {"commit": functools.partial(self.commit, opened)}

    def commit(self, opened: TableSnapshot, entry: StatisticsEntry) -> TableState:
        return opened.commit(entry)


class FailingStore(LocalStore):
    """
    A store that fails while a file is created.

    Args:
        after: Bytes that are written first; None for the end, when all of them are.
    """

    def __init__(self, after: int | None) -> None:
        self._after = after

    @contextlib.contextmanager
    def create(self, uri: str) -> Iterator[Sink]:
        with super().create(uri) as sink:
            if self._after is None:
                yield sink
                raise StorageError(f"{uri}: {os.strerror(errno.EIO)}")
            yield Sink(uri, _FullFile(sink, self._after))


class _FullFile:
    def __init__(self, sink: Sink, left: int) -> None:
        self._sink = sink
        self._left = left

    def write(self, data: bytes) -> int:
        written = self._sink.write(data[: self._left])
        self._left -= written
        if written < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written


class FullDisk(Between):
    """A store on which only so many bytes of a statistics file fit, or all but the final flush."""

    def __init__(self, name: str, after: int | None) -> None:
        super().__init__(name)
        self._after = after

    def instead(self, opened):
        def store_for(uri):
            return FailingStore(self._after) if uri.endswith(".stats") else opened.store_for(uri)

        return {"store_for": store_for}


class TimedOut(Between):
    """A store whose writes time out."""

    def instead(self, opened):
        def new_statistics_file(_snapshot_id):
            raise StorageError(f"{opened.state.location}: timed out")

        return {"new_statistics_file": new_statistics_file}


class FailingCommit(Between):
    """
    A table whose commits fail.

    Args:
        error: What a commit raises.
        applied: Whether the commit happens all the same.
        times: How many commits fail.
    """

    def __init__(self, name: str, error: PuffinError, *, applied: bool = False, times: int = 1000) -> None:
        super().__init__(name)
        self._error = error
        self._applied = applied
        self._left = times

    def commit(self, opened, entry):
        if self._left == 0:
            return opened.commit(entry)
        self._left -= 1
        if self._applied:
            opened.commit(entry)
        raise self._error


class Unreadable(Between):
    """A table whose metadata cannot be read after a commit."""

    _done = False

    def open(self, selector=CURRENT):
        if self._done:
            raise StorageError("the metadata: connection reset")
        return super().open(selector)

    def commit(self, opened, entry):
        self._done = True
        return opened.commit(entry)


class TakenHint(Between):
    """A table whose version hint is replaced by a directory."""

    def commit(self, opened, entry):
        hint = Path(self._table.name) / "metadata" / "version-hint.text"
        hint.unlink()
        hint.mkdir()
        return opened.commit(entry)


class LyingCommit(Between):
    """A table that reports success and does nothing."""

    def commit(self, opened, entry):  # noqa: ARG002
        return opened.state


@dataclasses.dataclass(frozen=True)
class Fault:
    """
    A step that fails.

    Attributes:
        error: What the job raises; None if it succeeds all the same.
        keeps_file: Whether the statistics file stays, since a reference to it may have been committed.
        commits: Whether the table has the new entry in the end.
    """

    of: Callable[[str], Between]
    error: type[PuffinError] | None
    says: str = ""
    keeps_file: bool = False
    commits: bool = False


CERTAIN, UNKNOWN = StorageError("the catalog: 503"), CommitUnknownError("the catalog: timed out")
WRITING = {
    "no place for the statistics file": Fault(TimedOut, StorageError, "timed out"),
    **{
        f"the disk is full after {after} bytes": Fault(
            lambda name, after=after: FullDisk(name, after), StorageError, "No space left on device"
        )
        for after in (0, 1, 4, 1000)
    },
    "the file is not brought to the disk": Fault(lambda name: FullDisk(name, None), StorageError, "Input/output error"),
    "the commit fails": Fault(lambda name: FailingCommit(name, CERTAIN), StorageError, "503"),
    "every commit loses its race": Fault(
        lambda name: FailingCommit(name, ConflictError("another writer was faster")), ConflictError, "faster"
    ),
    "a commit loses its race": Fault(
        lambda name: FailingCommit(name, ConflictError("another writer was faster"), times=1), None, commits=True
    ),
    "the outcome is unknown, and it was done": Fault(
        lambda name: FailingCommit(name, UNKNOWN, applied=True), None, commits=True
    ),
    "the outcome is unknown, and it was not done": Fault(
        lambda name: FailingCommit(name, UNKNOWN), CommitUnknownError, "is kept", keeps_file=True
    ),
    "the version hint cannot be written": Fault(TakenHint, None, commits=True),
    "it cannot be read back": Fault(Unreadable, CommitUnknownError, "connection reset", keeps_file=True, commits=True),
    "it says done and does nothing": Fault(LyingCommit, CommitUnknownError, "does not have it", keeps_file=True),
}


@pytest.mark.parametrize("fault", WRITING.values(), ids=WRITING)
def test_failed_write_leaves_nothing_or_complete_files(scene, fault):
    """A file that stays is complete, and metadata may refer to it."""
    before = scene.current_metadata().read_bytes()
    if fault.error is None:
        assert analyze(fault.of(scene.name)).committed
    else:
        with pytest.raises(fault.error, match=fault.says) as caught:
            analyze(fault.of(scene.name))
        assert "\n" not in str(caught.value)
    left = scene.left_behind()
    statistics = {path for path in left if path.startswith("metadata/") and path.endswith(".stats")}
    private = {path for path in left if path.startswith("_puffin_sidecar/")}
    assert len(statistics) == (fault.keeps_file or fault.commits)
    assert {Path(path).name for path in left - statistics - private} == (
        {"v3.metadata.json"} if fault.commits else set()
    )
    parts = {path for path in private if path.endswith("/version-hint.text")}
    assert {Path(path).name for path in private - parts} == {Path(path).name for path in statistics}
    assert len(parts) == 2 * len(statistics)  # blobs with values are in a part of their own
    assert (scene.current_metadata().read_bytes() == before) == (not fault.commits)
    scene.check_nothing_dangles()
    scene.check_next_run()


def test_unwritable_statistics_directory_fails_the_job(new_scene):
    """A file has the directory's name."""
    scene = new_scene()
    document = json.loads(scene.current_metadata().read_text())
    (scene.root / "taken").write_text("")
    document["properties"]["write.metadata.path"] = str(scene.root / "taken" / "metadata")
    scene.spoil(scene.current_metadata(), lambda path: path.write_text(json.dumps(document)))
    with pytest.raises(StorageError, match="taken"):
        analyze(scene.name)
    assert scene.left_behind() == {"taken"}
    scene.check_next_run()


# --- what only Delta tables have -----------------------------------------------------------------------------------


@pytest.fixture
def delta(delta_table):
    """A Delta table of two versions, the first with statistics."""
    writer = delta_table()
    writer.commit(writer.add({"a": [1, 2, 3], "b": [1, 1, 1]}))
    analyze(str(writer.path))
    writer.commit(writer.add({"a": [3, 4], "b": [1, 1]}))
    return writer


def delta_ndvs(writer) -> list[int | None]:
    return [column.ndv for column in ndv(str(writer.path)).columns]


@pytest.mark.parametrize(("how", "error"), [(circle, StorageError), (cut_short, CorruptMetadataError)])
def test_unreadable_log_entry_fails_the_job(delta, tmp_path, how, error):
    entry = delta.entry(delta.version)
    shutil.copyfile(entry, tmp_path / "aside")
    files = set(delta.path.rglob("*"))
    how(entry)
    with pytest.raises(error):
        analyze(str(delta.path))
    assert set(delta.path.rglob("*")) == files
    (tmp_path / "aside").replace(entry)
    analyze(str(delta.path))
    assert delta_ndvs(delta) == [4, 1]


def test_unwritable_delta_statistics_directory_fails_the_job(delta):
    """A file has its name: nothing is written, not even the log."""
    directory, aside = delta.log / "_puffin_sidecar", delta.log / "_aside"
    directory.rename(aside)
    directory.write_text("")
    version = delta.version
    with pytest.raises(StorageError, match="_puffin_sidecar"):
        analyze(str(delta.path))
    assert delta.version == version
    directory.unlink()
    aside.rename(directory)
    analyze(str(delta.path))
    assert delta_ndvs(delta) == [4, 1]


# --- a disk that is really full -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "properties", "what"),
    [(300, {}, ".stats"), (30_000, {"long": "x" * 40_000}, ".metadata.json")],
    ids=["the statistics file", "the metadata file"],
)
def test_file_size_limit_fails_the_command_and_names_the_file(new_scene, limit, properties, what):
    """The table stays as it was."""
    scene = new_scene(**properties)
    before = scene.current_metadata().read_bytes()
    ran = subprocess.run(
        [sys.executable, "-m", "puffin", "analyze", scene.name],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (1, "", 1), ran.stderr
    assert what in ran.stderr
    assert os.strerror(errno.EFBIG) in ran.stderr
    assert scene.left_behind() == set()
    assert scene.current_metadata().read_bytes() == before
    scene.check_next_run()
