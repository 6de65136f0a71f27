"""Files in memory, to be read and never written: what a reader of tables is given in place of a directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timezone
from typing import NoReturn

import pyarrow as pa

from puffin.storage import FileInfo, FileSource, Sink, Store
from puffin.storage.local import BytesSource
from puffin.storage.store import no_such_file

_LONG_AGO = datetime.fromtimestamp(0, timezone.utc)


class HeldFiles(Store):
    """
    A store of a few files.

    Args:
        files: Their content by URI.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def open_source(self, uri: str) -> FileSource:
        return BytesSource(self._content(uri))

    def open_input(self, uri: str) -> pa.NativeFile:
        return pa.BufferReader(self._content(uri))

    def info(self, uri: str) -> FileInfo:
        return FileInfo(uri, uri.rpartition("/")[2], len(self._content(uri)), _LONG_AGO)

    def exists(self, uri: str) -> bool:
        return uri in self._files

    def list(self, directory_uri: str) -> Sequence[FileInfo]:
        return [self.info(uri) for uri in sorted(self._files) if uri.rpartition("/")[0] == directory_uri]

    def directories(self, directory_uri: str) -> Sequence[str]:
        inside = (uri.removeprefix(f"{directory_uri}/") for uri in self._files if uri.startswith(f"{directory_uri}/"))
        return sorted({name.partition("/")[0] for name in inside if "/" in name})

    def delete(self, uri: str) -> NoReturn:
        raise AssertionError(f"{uri}: a reader deletes nothing")

    def delete_empty_directory(self, uri: str) -> NoReturn:
        raise AssertionError(f"{uri}: a reader deletes nothing")

    def create(self, uri: str) -> AbstractContextManager[Sink]:
        raise AssertionError(f"{uri}: a reader writes nothing")

    def put_if_absent(self, uri: str, data: bytes) -> NoReturn:
        raise AssertionError(f"{uri}: a reader writes nothing, found {len(data)} bytes")

    def check_put_if_absent(self, uri: str) -> NoReturn:
        raise AssertionError(f"{uri}: a reader writes nothing")

    def replace(self, uri: str, data: bytes) -> NoReturn:
        raise AssertionError(f"{uri}: a reader writes nothing, found {len(data)} bytes")

    def _content(self, uri: str) -> bytes:
        try:
            return self._files[uri]
        except KeyError:
            raise no_such_file(uri) from None
