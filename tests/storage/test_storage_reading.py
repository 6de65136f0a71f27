"""Files are read by path or URI, and listed, and only errors of ours are raised."""

import io
import os
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from puffin.errors import (
    FileNotFound,
    StorageError,
)
from puffin.format.source import RangeSource
from puffin.storage import LocalStore, Store, is_temporary_name, open_source
from puffin.storage.arrow import ArrowStore
from puffin.storage.store import said_by_storage, storage_errors


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
    assert store.info(f"{base}/.hidden").size == 7
    assert store.exists(base)
    store.delete(f"{base}/a")
    store.delete(f"{base}/a")
    assert not store.exists(f"{base}/a")
    assert store.list(f"{base}/missing") == []


def test_missing_file_is_not_found(store: Store, tmp_path: Path) -> None:
    for call in (store.open_source, store.read, store.info):
        with pytest.raises(FileNotFound) as error:
            call(f"{tmp_path}/missing")
        assert str(error.value) == f"{tmp_path}/missing: no such file or directory"


def test_store_finds_files_only(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert store.find(f"{tmp_path}/file") == store.info(f"{tmp_path}/file")
    assert store.find(f"{tmp_path}/missing") is None
    assert store.find(str(tmp_path)) is None


def test_directory_is_not_a_file(store: Store, tmp_path: Path) -> None:
    with pytest.raises(FileNotFound, match="expected a file, found a directory"):
        store.info(str(tmp_path))
    with pytest.raises((FileNotFound, StorageError), match="directory"):
        store.read(str(tmp_path))
    with pytest.raises((FileNotFound, StorageError), match="directory"):
        store.delete(str(tmp_path))


def test_path_through_a_file_is_a_storage_error(store: Store, tmp_path: Path) -> None:
    """But to look whether there is a file is none."""
    (tmp_path / "file").touch()
    below = f"{tmp_path}/file/below"
    assert not store.exists(below)
    assert store.find(below) is None
    assert store.list(below) == []
    for call in (store.read, lambda uri: store.replace(uri, b"x")):
        with pytest.raises(StorageError, match=f"^{below}: "):
            call(below)


def test_stat_equals_the_directory_listing(store: Store, tmp_path: Path) -> None:
    """So that the two can be compared."""
    (tmp_path / "a").write_bytes(b"abc")
    (listed,) = store.list(str(tmp_path))
    assert store.info(listed.uri) == listed
    assert (listed.size, store.info(listed.uri).size) == (3, 3)
    for name in ("absent", ""):
        with pytest.raises(FileNotFound):
            store.info(str(tmp_path / name))


def test_directories_are_listed_by_name(store: Store, tmp_path: Path) -> None:
    for name in ("b", "a", "a/inside"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").write_bytes(b"")
    assert store.directories(str(tmp_path)) == ["a", "b"]
    assert store.directories(str(tmp_path / "absent")) == []


def test_link_is_distinguished_from_its_target(tmp_path: Path) -> None:
    """Dangling ones too; object stores have none."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nowhere")
    links = [name for name in ("file", "link", "dangling", "missing") if LocalStore().is_link(str(tmp_path / name))]
    assert links == ["link", "dangling"]
    assert not ArrowStore(pafs.LocalFileSystem).is_link(str(tmp_path / "link"))


def test_link_to_itself_is_not_passed_over(tmp_path: Path) -> None:
    """It may have the name of a log entry, and without that the table would be one version older."""
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(StorageError, match="symbolic links"):
        LocalStore().list(str(tmp_path))


def test_temporary_names_are_recognized(tmp_path: Path, names) -> None:
    """So leftovers of a killed process can be told from other files."""
    with LocalStore().create(str(tmp_path / "file")):
        (name,) = names()
    assert is_temporary_name(name)
    assert not is_temporary_name("file")
    assert not is_temporary_name(f"{name}\n")


def test_long_error_of_a_library_is_cut() -> None:
    """pyarrow's, if it finds no Hadoop, has 15 kB."""
    with pytest.raises(StorageError) as caught, storage_errors("hdfs://host/t"):
        raise OSError("Unable to load libjvm " + "dlopen(/usr/lib/jvm) failed\n" * 500)
    assert str(caught.value).startswith("hdfs://host/t: Unable to load libjvm dlopen(/usr/lib/jvm) failed")
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("denied: <?xml version='1.0'?>\n<Error/>", "denied"),
        ("<?xml version='1.0'?>\n<Error>denied</Error>", "<?xml version='1.0'?> <Error>denied</Error>"),
    ],
)
def test_reason_that_is_only_xml_is_not_lost(reason: str, said: str) -> None:
    assert said_by_storage(reason) == said
