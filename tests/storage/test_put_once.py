"""A file is put once, whatever the store reports."""

import pytest

from puffin.errors import CommitUnknownError, ConflictError, StorageError, UnsupportedError
from puffin.storage import LocalStore
from puffin.storage.arrow import ArrowStore


class Unreliable(LocalStore):
    """A store that writes or not, and then reports something else."""

    def __init__(self, written: bytes | None, said: Exception, *, readable: bool = True) -> None:
        self._written, self._said, self._readable = written, said, readable

    def put_if_absent(self, uri, data):  # noqa: ARG002 - what is written was told before
        if self._written is not None:
            super().put_if_absent(uri, self._written)
        raise self._said

    def read(self, uri):
        if not self._readable:
            raise StorageError(f"{uri}: no answer")
        return super().read(uri)


def test_new_file_is_written(tmp_path):
    LocalStore().put_once(str(tmp_path / "f"), b"ours")
    assert (tmp_path / "f").read_bytes() == b"ours"


def test_other_writers_file_is_unchanged(tmp_path):
    (tmp_path / "f").write_bytes(b"theirs")
    with pytest.raises(ConflictError, match="another writer was faster"):
        LocalStore().put_once(str(tmp_path / "f"), b"ours")
    assert (tmp_path / "f").read_bytes() == b"theirs"


@pytest.mark.parametrize("said", [StorageError("timeout"), ConflictError("in its own way")])
def test_our_own_file_means_success_whatever_the_store_reported(tmp_path, said):
    Unreliable(b"ours", said).put_once(str(tmp_path / "f"), b"ours")


@pytest.mark.parametrize("said", [StorageError("timeout"), ConflictError("exists")])
def test_other_writers_file_means_conflict_whatever_the_store_reported(tmp_path, said):
    with pytest.raises(ConflictError):
        Unreliable(b"theirs", said).put_once(str(tmp_path / "f"), b"ours")


@pytest.mark.parametrize("said", [StorageError("disk full"), ConflictError("gone again")])
def test_missing_file_means_what_the_store_reported(tmp_path, said):
    with pytest.raises(type(said), match=str(said)):
        Unreliable(None, said).put_once(str(tmp_path / "f"), b"ours")


@pytest.mark.parametrize("said", [StorageError("timeout"), ConflictError("exists")])
def test_outcome_is_unknown_if_the_file_cannot_be_read(tmp_path, said):
    with pytest.raises(CommitUnknownError, match=f"{said}; reading it back failed too: .*no answer"):
        Unreliable(b"ours", said, readable=False).put_once(str(tmp_path / "f"), b"ours")


def test_store_without_conditional_puts_is_refused():
    from pyarrow.fs import LocalFileSystem

    with pytest.raises(UnsupportedError, match="conditional puts"):
        ArrowStore(LocalFileSystem).put_once("s3://bucket/f", b"ours")
