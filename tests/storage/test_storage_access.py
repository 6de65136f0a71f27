"""Which file system opens what, and the errors if none can."""

import subprocess
import sys
from pathlib import Path

import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from puffin.errors import (
    FileNotFound,
    MissingDependencyError,
    StorageError,
    UnsupportedError,
)
from puffin.storage import LocalStore, open_source, store_for


def no_filesystem(uri: str) -> None:
    raise OSError("no such bucket")


@pytest.fixture
def memory():
    """fsspec's file system in memory, which one process shares."""
    fsspec = pytest.importorskip("fsspec")
    filesystem = fsspec.filesystem("memory")
    filesystem.store.clear()
    yield filesystem
    filesystem.store.clear()


def test_fsspec_opens_schemes_that_only_it_knows(memory) -> None:
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


def test_errors_of_fsspec_drivers_in_the_middle_of_a_file_are_ours(memory, monkeypatch) -> None:
    """A reader of data files would take an error that it does not know for one of ours to report."""
    memory.pipe("/table/f.parquet", b"PAR1" + bytes(100))
    with store_for("memory://table").open_input("memory://table/f.parquet") as file:

        def busy(*_: object) -> bytes:
            raise RuntimeError("503\nbusy")

        monkeypatch.setattr("fsspec.implementations.memory.MemoryFile.read", busy, raising=False)
        with pytest.raises(StorageError, match=r"^memory://.*/f\.parquet: RuntimeError: 503 busy$"):
            pq.ParquetFile(file)


def test_local_uris_need_no_filesystem() -> None:
    assert isinstance(store_for("file:/a", filesystem_for=no_filesystem), LocalStore)


def test_filesystem_for_opens_other_uris(tmp_path: Path) -> None:
    """A catalog passes it, because it knows the credentials."""
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket/a%20b").write_bytes(b"abc")
    asked = []

    def filesystem_for(uri: str) -> pafs.FileSystem:
        asked.append(uri)
        return pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())

    assert store_for("s3://bucket/a%20b", filesystem_for).read("s3://bucket/a%20b") == b"abc"
    assert set(asked) == {"s3://bucket/a%20b"}


def test_filesystem_that_cannot_be_made_is_a_storage_error() -> None:
    with pytest.raises(StorageError, match=r"^s3://bucket/a: no such bucket"):
        store_for("s3://bucket/a", filesystem_for=no_filesystem)


def test_reason_of_many_lines_is_joined_into_one() -> None:
    """Object stores and the JVM give long explanations."""

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


def test_refused_uri_of_a_known_scheme_says_what_is_wrong() -> None:
    """fsspec only says that a driver is missing, which would not help."""
    pytest.importorskip("fsspec")
    with pytest.raises(UnsupportedError, match=r"^s3://b/f\?endpoint=h: .*Unexpected query parameter .*'endpoint'"):
        open_source("s3://b/f?endpoint=h")


def test_missing_fsspec_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    advice = r"^fsspec is not installed: run pip install '\.\[iceberg\]' in the checkout of puffin-sidecar$"
    with pytest.raises(MissingDependencyError, match=advice):
        open_source("memory://a/b")


def test_failing_driver_is_a_storage_error(memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers of fsspec raise their own error classes."""

    class DriverError(Exception):
        pass

    def fail(*args: object, **kwargs: object) -> None:
        raise DriverError("token expired")

    memory.pipe("/a", b"abc")
    monkeypatch.setattr(type(memory), "_open", fail)
    with pytest.raises(StorageError, match=r"^memory://a: .*token expired"):
        open_source("memory://a")


def test_local_files_load_no_other_file_system(tmp_path: Path) -> None:
    """A lookup on local metadata loads neither pyarrow.fs nor fsspec."""
    (tmp_path / "a").write_bytes(b"abc")
    program = (
        "import sys; from puffin.storage import open_source;"
        f"open_source({str(tmp_path / 'a')!r}).read_at(0, 3);"
        "print(sorted({'pyarrow.fs', 'fsspec'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
