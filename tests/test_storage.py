"""Storage: files by path or URI, whole or not at all, and no error but ours."""

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from puffin.errors import (
    ConflictError,
    FileNotFound,
    MissingDependencyError,
    StorageError,
    UnsupportedError,
    UsageError,
)
from puffin.format.source import RangeSource
from puffin.storage import LocalStore, Store, is_same_place, is_temporary_name, join, local_path, open_source, store_for
from puffin.storage.arrow import ArrowStore
from puffin.storage.uri import filesystem_path


@pytest.fixture(params=["local", "arrow"])
def store(request: pytest.FixtureRequest) -> Store:
    """Each kind of store, over the same local directory."""
    return LocalStore() if request.param == "local" else ArrowStore(pafs.LocalFileSystem())


@pytest.fixture
def names(tmp_path: Path):
    """The names in the directory, hidden ones too, so that nothing left behind is overlooked."""
    return lambda: sorted(path.name for path in tmp_path.iterdir())


def no_space(*args: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# --- names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("a/b.puffin", "a/b.puffin"),
        ("/a/b.puffin", "/a/b.puffin"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("FILE:///a/b", "/a/b"),
        ("file://localhost/a/b", "/a/b"),
        ("file:/a%20b/c d?e=%2F", "/a%20b/c d?e=%2F"),
        ("c:/odd", "c:/odd"),
        ("day:one/b", "day:one/b"),
    ],
)
def test_local_path_is_taken_as_it_stands(uri: str, path: str) -> None:
    assert local_path(uri) == Path(path)


@pytest.mark.parametrize("uri", ["s3://bucket/key", "hdfs:/a", "memory://x"])
def test_other_schemes_have_no_local_path(uri: str) -> None:
    assert local_path(uri) is None


@pytest.mark.parametrize("uri", ["", "file:a", "file:", "file://host/a"])
def test_names_of_nothing_here_are_refused(uri: str) -> None:
    with pytest.raises(UsageError):
        local_path(uri)


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("s3://bucket/a%3Ab/c d", "bucket/a%3Ab/c d"),
        ("s3://bucket/a?region=x", "bucket/a"),
        ("gs://anonymous@bucket/a", "bucket/a"),
        ("hdfs://name:8020/a", "/a"),
        ("abfss://container@account.dfs.core.windows.net/a", "container/a"),
        ("/plain/path", "/plain/path"),
    ],
)
def test_filesystem_path_is_what_pyarrow_calls_a_uri(uri: str, path: str) -> None:
    assert filesystem_path(uri) == path


@pytest.mark.parametrize(
    ("base", "joined"),
    [
        ("s3://b/t", "s3://b/t/metadata/x.stats"),
        ("s3://b", "s3://b/metadata/x.stats"),
        ("file:/t/", "file:/t/metadata/x.stats"),
        ("file:///", "file:/metadata/x.stats"),
        ("/", "/metadata/x.stats"),
        ("t", "t/metadata/x.stats"),
    ],
)
def test_join_keeps_the_form_of_its_base(base: str, joined: str) -> None:
    assert join(base, "metadata/", "/x.stats") == joined


def test_join_refuses_an_empty_base() -> None:
    """It would otherwise name something in the root directory."""
    with pytest.raises(UsageError):
        join("", "x")


# --- reading --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_open_source_reads_ranges_of_local_files(tmp_path: Path, prefix: str) -> None:
    (tmp_path / "a%20b").write_bytes(b"0123456789")
    with open_source(f"{prefix}{tmp_path}/a%20b") as source:
        assert isinstance(source, RangeSource)
        assert source.size() == 10
        assert source.read_at(3, 4) == b"3456"
        assert source.read_at(8, 10**15) == b"89"
        assert source.read_at(11, 1) == b""


def test_source_refuses_use_after_close(store: Store, tmp_path: Path) -> None:
    """Otherwise it might read another file that got the same descriptor."""
    (tmp_path / "a").write_bytes(b"abc")
    with store.open_source(f"{tmp_path}/a") as source:
        assert source.read_at(0, 3) == b"abc"
    with pytest.raises(StorageError, match="a: "):
        source.read_at(0, 3)


def test_standard_input_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"0123456789")))
    with open_source("-") as source:
        assert (source.size(), source.read_at(8, 5)) == (10, b"89")


def test_pipe_is_read_whole() -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"abc")
    os.close(write_end)
    with open_source(f"/dev/fd/{read_end}") as source:
        assert source.read_at(1, 2) == b"bc"
    os.close(read_end)


def test_store_reads_lists_and_deletes(store: Store, tmp_path: Path) -> None:
    for name in ("b", "a", ".hidden"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "directory").mkdir()
    base = str(tmp_path)

    found = store.list(base + "/")
    assert [(file.name, file.uri, file.size) for file in found] == [
        (name, f"{base}/{name}", len(name)) for name in (".hidden", "a", "b")
    ]
    assert all(file.mtime is not None and file.mtime.tzinfo is not None for file in found)
    assert store.read(f"{base}/a") == b"a"
    assert store.size(f"{base}/.hidden") == 7
    assert store.exists(base)
    store.delete(f"{base}/a")
    store.delete(f"{base}/a")
    assert not store.exists(f"{base}/a")
    assert store.list(f"{base}/missing") == []


def test_missing_file_is_not_found(store: Store, tmp_path: Path) -> None:
    for call in (store.open_source, store.read, store.size):
        with pytest.raises(FileNotFound) as error:
            call(f"{tmp_path}/missing")
        assert str(error.value) == f"{tmp_path}/missing: no such file or directory"


def test_directory_is_not_a_file(store: Store, tmp_path: Path) -> None:
    with pytest.raises(FileNotFound, match="expected a file, found a directory"):
        store.size(str(tmp_path))
    with pytest.raises((FileNotFound, StorageError), match="directory"):
        store.read(str(tmp_path))
    with pytest.raises((FileNotFound, StorageError), match="directory"):
        store.delete(str(tmp_path))


def test_path_through_a_file_is_a_storage_error(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    below = f"{tmp_path}/file/below"
    assert not store.exists(below)
    for call in (store.read, lambda uri: store.replace(uri, b"x")):
        with pytest.raises(StorageError, match=f"^{below}: "):
            call(below)


# --- writing --------------------------------------------------------------------------------------------------


def test_create_makes_the_file_at_the_end_of_the_block(store: Store, tmp_path: Path, names) -> None:
    uri = f"{tmp_path}/new"
    with store.create(uri) as sink:
        assert sink.write(b"abc") == 3
        assert not Path(uri).exists()
        sink.write(b"def")
    assert store.read(uri) == b"abcdef"
    assert names() == ["new"]


def test_create_leaves_nothing_when_the_block_raises(store: Store, tmp_path: Path, names) -> None:
    def interrupted() -> None:
        with store.create(f"{tmp_path}/new") as sink:
            sink.write(b"abc")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names() == []


def test_create_leaves_an_existing_file_as_it_is(store: Store, tmp_path: Path, names) -> None:
    (tmp_path / "old").write_bytes(b"old")
    with pytest.raises(ConflictError, match=f"^{tmp_path}/old: "), store.create(f"{tmp_path}/old") as sink:
        sink.write(b"new")
    assert (tmp_path / "old").read_bytes() == b"old"
    assert names() == ["old"]


def test_create_makes_missing_directories(tmp_path: Path) -> None:
    with LocalStore().create(f"{tmp_path}/a/b/new") as sink:
        sink.write(b"abc")
    assert (tmp_path / "a/b/new").read_bytes() == b"abc"


def test_put_if_absent_writes_once(tmp_path: Path, names) -> None:
    uri = f"file:{tmp_path}/v2.metadata.json"
    LocalStore().put_if_absent(uri, b"first")
    with pytest.raises(ConflictError) as error:
        LocalStore().put_if_absent(uri, b"second")
    assert str(error.value) == f"{uri}: the file exists already"
    assert LocalStore().read(uri) == b"first"
    assert names() == ["v2.metadata.json"]


def test_put_if_absent_is_refused_where_it_cannot_be_promised(tmp_path: Path, names) -> None:
    with pytest.raises(UnsupportedError, match=f"^{tmp_path}/new: "):
        ArrowStore(pafs.LocalFileSystem()).put_if_absent(f"{tmp_path}/new", b"x")
    assert names() == []


def test_replace_overwrites(store: Store, tmp_path: Path, names) -> None:
    store.replace(f"{tmp_path}/hint", b"1")
    store.replace(f"{tmp_path}/hint", b"2")
    assert store.read(f"{tmp_path}/hint") == b"2"
    assert names() == ["hint"]


def create(store: Store, uri: str, data: bytes) -> None:
    with store.create(uri) as sink:
        sink.write(data)


@pytest.mark.parametrize("write", [create, LocalStore.put_if_absent, LocalStore.replace])
@pytest.mark.parametrize("size", [1, 10**6])
def test_full_disk_leaves_the_old_content_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names, write, size: int
) -> None:
    """Whether it is noticed when bytes are handed over or when they are flushed."""
    (tmp_path / "old").write_bytes(b"old")

    def open_on_full_disk(path: Path, mode: str):
        path.touch()
        return io.open("/dev/full", "wb")  # noqa: UP020 - Path.open is what is replaced

    with monkeypatch.context() as full_disk:
        full_disk.setattr("pathlib.Path.open", open_on_full_disk)
        with pytest.raises(StorageError) as error:
            write(LocalStore(), f"{tmp_path}/old", bytes(size))
    assert str(error.value) == f"{tmp_path}/old: No space left on device"
    assert (tmp_path / "old").read_bytes() == b"old"
    assert names() == ["old"]


def test_file_gets_its_name_only_once_it_is_on_the_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names) -> None:
    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(StorageError, match="No space left on device"):
        create(LocalStore(), f"{tmp_path}/new", b"abc")
    assert names() == []


def test_failing_upload_leaves_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names) -> None:
    """What went into the stream before it failed would be published by closing it."""

    def half_a_copy(source, target, size: int) -> None:
        target.write(source.read(2))
        no_space()

    monkeypatch.setattr("shutil.copyfileobj", half_a_copy)
    with (
        pytest.raises(StorageError, match=f"^{tmp_path}/new: No space left"),
        ArrowStore(pafs.LocalFileSystem()).create(f"{tmp_path}/new") as sink,
    ):
        sink.write(b"abc")
    assert names() == []


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("s3://bucket/t/", True),
        ("s3a://bucket/t", True),
        ("s3://key:secret@bucket/t?region=x", True),
        ("s3://bucket/t2", False),
        ("s3://other/t", False),
        ("gs://bucket/t", False),
        ("/bucket/t", False),
    ],
)
def test_a_place_is_the_same_whoever_asks_by_whichever_scheme(other: str, same: bool) -> None:
    assert is_same_place("s3://bucket/t", other) is same


def test_an_account_is_part_of_the_place() -> None:
    one, other = (f"abfss://c@{account}.dfs.core.windows.net/t" for account in ("us", "them"))
    assert not is_same_place(one, other)


def test_a_local_place_is_the_same_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "t")
    assert is_same_place(f"file:{tmp_path}/t", f"{tmp_path}/link/")
    assert not is_same_place(f"{tmp_path}/t", str(tmp_path))


# --- which store ----------------------------------------------------------------------------------------------


@pytest.fixture
def memory():
    """fsspec's file system in memory, which one process shares."""
    fsspec = pytest.importorskip("fsspec")
    filesystem = fsspec.filesystem("memory")
    filesystem.store.clear()
    yield filesystem
    filesystem.store.clear()


def test_scheme_that_only_fsspec_knows(memory) -> None:
    memory.pipe("/table/a%20b c", b"0123456789")
    store = store_for("memory://table")
    with open_source("memory://table/a%20b c") as source:
        assert (source.size(), source.read_at(2, 3), source.read_at(8, 9)) == (10, b"234", b"89")
    assert store.exists("memory://table")
    assert [(file.name, file.uri) for file in store.list("memory://table")] == [("a%20b c", "memory://table/a%20b c")]
    with store.create("memory://table/new") as sink:
        sink.write(b"new")
    assert store.read("memory://table/new") == b"new"
    with pytest.raises(FileNotFound, match=r"^memory://table/missing: "):
        store.read("memory://table/missing")


def test_local_uris_need_no_filesystem() -> None:
    assert isinstance(store_for("file:/a", filesystem_for=no_space), LocalStore)


def test_filesystem_for_is_asked_for_other_uris(tmp_path: Path) -> None:
    """As a catalog does, which knows the credentials."""
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket/a%20b").write_bytes(b"abc")
    asked = []

    def filesystem_for(uri: str) -> pafs.FileSystem:
        asked.append(uri)
        return pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())

    assert store_for("s3://bucket/a%20b", filesystem_for).read("s3://bucket/a%20b") == b"abc"
    assert asked == ["s3://bucket/a%20b"]


def test_filesystem_that_cannot_be_made_is_a_storage_error() -> None:
    with pytest.raises(StorageError, match=r"^s3://bucket/a: No space left"):
        store_for("s3://bucket/a", filesystem_for=no_space)


def test_reason_of_many_lines_is_told_in_one() -> None:
    """Object stores and the JVM explain themselves at length."""

    def fail(uri: str) -> None:
        raise OSError("no credentials\n  tried: environment\n  tried: profile")

    with pytest.raises(StorageError) as error:
        store_for("s3://bucket/a", filesystem_for=fail)
    assert str(error.value) == "s3://bucket/a: no credentials tried: environment tried: profile"


def test_pyarrow_gets_its_own_scheme_and_no_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """pyarrow refuses Hadoop's ``s3a`` and would decode the path."""
    asked = []

    class FileSystem:
        @staticmethod
        def from_uri(uri: str) -> tuple[pafs.FileSystem, str]:
            asked.append(uri)
            return pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem()), ""

    monkeypatch.setattr("pyarrow.fs.FileSystem", FileSystem)
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket/a%20b c").write_bytes(b"abc")
    with open_source("s3a://bucket/a%20b c") as source:
        assert source.size() == 3
    assert asked == ["s3://bucket/"]


def test_unknown_scheme_is_unsupported() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(UnsupportedError, match=r"^nowhere://a/b: "):
        open_source("nowhere://a/b")


def test_missing_fsspec_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingDependencyError, match="fsspec is not installed"):
        open_source("memory://a/b")


def test_failing_driver_is_a_storage_error(memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers of fsspec raise errors of their own kinds."""

    class DriverError(Exception):
        pass

    def fail(*args: object, **kwargs: object) -> None:
        raise DriverError("token expired")

    memory.pipe("/a", b"abc")
    monkeypatch.setattr(type(memory), "_open", fail)
    with pytest.raises(StorageError, match=r"^memory://a: .*token expired"):
        open_source("memory://a")


def test_local_files_load_no_other_file_system(tmp_path: Path) -> None:
    """A planner's lookup on local metadata pays for neither pyarrow.fs nor fsspec."""
    (tmp_path / "a").write_bytes(b"abc")
    program = (
        "import sys; from puffin.storage import open_source;"
        f"open_source({str(tmp_path / 'a')!r}).read_at(0, 3);"
        "print(sorted({'pyarrow.fs', 'fsspec'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- what is there --------------------------------------------------------------------------------------------


def test_a_file_is_told_as_its_directorys_listing_tells_it(store: Store, tmp_path: Path) -> None:
    """So that the one can be compared with the other."""
    (tmp_path / "a").write_bytes(b"abc")
    (listed,) = store.list(str(tmp_path))
    assert store.info(listed.uri) == listed
    assert (listed.size, store.size(listed.uri)) == (3, 3)
    for name in ("absent", ""):
        with pytest.raises(FileNotFound):
            store.info(str(tmp_path / name))


def test_directories_are_listed_by_name(store: Store, tmp_path: Path) -> None:
    for name in ("b", "a", "a/inside"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").write_bytes(b"")
    assert store.directories(str(tmp_path)) == ["a", "b"]
    assert store.directories(str(tmp_path / "absent")) == []


def test_a_link_is_told_from_what_it_leads_to(tmp_path: Path) -> None:
    """Also one that leads nowhere; object stores have none."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nowhere")
    links = [name for name in ("file", "link", "dangling", "missing") if LocalStore().is_link(str(tmp_path / name))]
    assert links == ["link", "dangling"]
    assert not ArrowStore(pafs.LocalFileSystem()).is_link(str(tmp_path / "link"))


def test_names_of_files_that_are_being_written_are_known(tmp_path: Path, names) -> None:
    """So that what a killed process leaves behind can be told from other files."""
    with LocalStore().create(str(tmp_path / "file")):
        (name,) = names()
    assert is_temporary_name(name)
    assert not is_temporary_name("file")
    assert not is_temporary_name(f"{name}\n")
