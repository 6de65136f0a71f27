"""Open data files and delete files, each with the reader of its format."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa

from puffin.files.data_file import DataFile
from puffin.files.data_file_errors import errors_about
from puffin.files.file_columns import FileColumns
from puffin.storage import Store
from puffin.tables.scan_task import AVRO, DATA, ORC, PARQUET, ContentFile, ScanContext

_NAMES = {PARQUET: "Parquet", AVRO: "Avro", ORC: "ORC"}


class StoredFile(Protocol):
    """A data file or delete file, as `ContentFile` and the manifests tell of it."""

    @property
    def content(self) -> str: ...
    @property
    def file_path(self) -> str: ...
    @property
    def file_format(self) -> str: ...
    @property
    def record_count(self) -> int: ...


@contextlib.contextmanager
def open_data_file(
    file: StoredFile, store_for: Callable[[str], Store], known: DataFile | None = None
) -> Iterator[DataFile]:
    """
    Open a data file or delete file; errors in the block become errors about the file (`errors_about`).

    FileNotFound if the file does not exist. ``known`` is the file as another thread has opened it.
    """
    with _errors_in(file), store_for(file.file_path).open_input(file.file_path) as source:
        again = None if known is None else known.again(source)
        yield _read(source, file) if again is None else again


class DataFiles:
    """Opens the files of tasks, each anew."""

    def __init__(self, store_for: Callable[[str], Store]) -> None:
        self.store_for = store_for

    def open(self, file: ContentFile) -> AbstractContextManager[DataFile]:
        """As `open_data_file`."""
        return open_data_file(file, self.store_for)

    def columns(self, file: DataFile, context: ScanContext) -> FileColumns:
        """The columns of an open file by their field ids."""
        mapping, by_name = context.name_mapping, context.by_name
        return FileColumns(file.schema, mapping, by_name=by_name, last_counts=file.last_counts)


class FirstOpened:
    """Files that some thread has opened, so that others need not read their footers again."""

    def __init__(self) -> None:
        self._files: dict[str, DataFile] = {}
        self._locks: dict[str, threading.Lock] = {}

    @contextlib.contextmanager
    def known(self, path: str) -> Iterator[DataFile | None]:
        """The file if a thread has opened it; waits while one does. If None, the block must open and `add` it."""
        with self._locks.setdefault(path, threading.Lock()):
            yield self._files.get(path)

    def add(self, path: str, file: DataFile) -> None:
        self._files[path] = file


class KeptFiles(DataFiles):
    """Opens each file once and keeps it open until `close`. For one thread; ``first`` is shared by all."""

    def __init__(self, store_for: Callable[[str], Store], first: FirstOpened) -> None:
        super().__init__(store_for)
        self._first = first
        self._kept: dict[str, DataFile] = {}
        self._columns: dict[DataFile, FileColumns] = {}
        self._cleanup = contextlib.ExitStack()

    @contextlib.contextmanager
    def open(self, file: ContentFile) -> Iterator[DataFile]:
        path = file.file_path
        with _errors_in(file):
            if path not in self._kept:
                with self._first.known(path) as known:
                    self._kept[path] = self._cleanup.enter_context(open_data_file(file, self.store_for, known))
                    if known is None:
                        self._first.add(path, self._kept[path])
            yield self._kept[path]

    def columns(self, file: DataFile, context: ScanContext) -> FileColumns:
        if file not in self._columns:
            self._columns[file] = super().columns(file, context)
        return self._columns[file]

    def close(self) -> None:
        """Close every file."""
        self._kept.clear()
        self._columns.clear()
        self._cleanup.close()


def _errors_in(file: StoredFile) -> AbstractContextManager[None]:
    return errors_about(file.file_path, f"{_NAMES[file.file_format]} file" if file.content == DATA else "delete file")


def _read(source: pa.NativeFile, file: StoredFile) -> DataFile:
    """The reader of a format, which is imported when its first file is opened: a process seldom needs more than one."""
    if file.file_format == AVRO:
        from puffin.files.avro.avro_file import AvroDataFile

        return AvroDataFile(source, file.record_count)
    if file.file_format == ORC:
        from puffin.files.orc.orc_file import OrcDataFile

        return OrcDataFile(source, file.record_count)
    from puffin.files.parquet.parquet_file import ParquetDataFile

    return ParquetDataFile(source)
