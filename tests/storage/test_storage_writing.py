"""Files are written completely or not at all."""

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

from puffin.errors import (
    ConflictError,
    NotWritable,
    StorageError,
    UnsupportedError,
)
from puffin.storage import LocalStore, Store
from puffin.storage.arrow import ArrowStore


def no_space(*args: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


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


def test_create_does_not_replace_an_existing_file(store: Store, tmp_path: Path, names) -> None:
    (tmp_path / "old").write_bytes(b"old")
    with pytest.raises(ConflictError, match=f"^{tmp_path}/old: "), store.create(f"{tmp_path}/old") as sink:
        sink.write(b"new")
    assert (tmp_path / "old").read_bytes() == b"old"
    assert names() == ["old"]


def test_create_makes_missing_directories(tmp_path: Path) -> None:
    with LocalStore().create(f"{tmp_path}/a/b/new") as sink:
        sink.write(b"abc")
    assert (tmp_path / "a/b/new").read_bytes() == b"abc"


@pytest.mark.parametrize("failing", ["open", "link", "fsync"])
def test_failed_write_leaves_no_empty_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failing: str) -> None:
    """The directory of a file with a random name would never be used again."""
    (tmp_path / "old").mkdir()
    with monkeypatch.context() as full:
        full.setattr(Path if failing == "open" else os, failing, no_space)
        for name in ("segments/1/new", "old/new"):
            with pytest.raises(StorageError, match="No space"):
                LocalStore().put_if_absent(f"{tmp_path}/{name}", b"abc")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["old", "segments"]


def test_put_if_absent_writes_once(tmp_path: Path, names) -> None:
    uri = f"file:{tmp_path}/v2.metadata.json"
    LocalStore().put_if_absent(uri, b"first")
    with pytest.raises(ConflictError) as error:
        LocalStore().put_if_absent(uri, b"second")
    assert str(error.value) == f"{uri}: the file exists already"
    assert LocalStore().read(uri) == b"first"
    assert names() == ["v2.metadata.json"]


def test_put_if_absent_is_refused_by_stores_that_cannot_promise_it(tmp_path: Path, names) -> None:
    with pytest.raises(UnsupportedError, match=f"^{tmp_path}/new: "):
        ArrowStore(pafs.LocalFileSystem).put_if_absent(f"{tmp_path}/new", b"x")
    assert names() == []


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP])
def test_file_system_without_hard_links_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names, code: int
) -> None:
    """As exFAT and FAT are, on Linux and on macOS; the check comes before a run reads the table."""
    store, uri = LocalStore(), f"{tmp_path}/new"
    store.check_put_if_absent(uri)

    def no_links(*args: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("puffin.storage.local.os.link", no_links)
    for ask in (store.check_put_if_absent, lambda uri: store.put_if_absent(uri, b"x")):
        with pytest.raises(UnsupportedError, match=f"^{tmp_path}: .*no hard links"):
            ask(uri)
    store.replace(uri, b"x")
    assert names() == ["new"]


def test_directory_that_may_not_be_searched_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: Callable[[Path], Path]
) -> None:
    closed, real = read_only(tmp_path / "closed"), os.stat
    closed.mkdir()

    def searched(path: Any, **options: Any) -> os.stat_result:
        if str(path).startswith(f"{closed}/"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, **options)

    monkeypatch.setattr(os, "stat", searched)
    with pytest.raises(NotWritable, match=f"^{closed}: "):
        LocalStore().check_writable(f"{closed}/home/table/parts")
    LocalStore().check_put_if_absent(f"{closed}/home/new")


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
def test_full_disk_keeps_the_old_content_and_leaves_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names, write, size: int
) -> None:
    """Whether the error comes on write or on flush."""
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


def test_file_gets_its_name_only_when_it_is_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names) -> None:
    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(StorageError, match="No space left on device"):
        create(LocalStore(), f"{tmp_path}/new", b"abc")
    assert names() == []


def test_failing_upload_leaves_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names) -> None:
    """Closing the stream would publish what went into it."""

    def half_a_copy(source, target, size: int) -> None:
        target.write(source.read(2))
        no_space()

    monkeypatch.setattr("shutil.copyfileobj", half_a_copy)
    with (
        pytest.raises(StorageError, match=f"^{tmp_path}/new: No space left"),
        ArrowStore(pafs.LocalFileSystem).create(f"{tmp_path}/new") as sink,
    ):
        sink.write(b"abc")
    assert names() == []
