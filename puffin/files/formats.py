"""Open data files and delete files, each with the reader of its format."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pyarrow as pa

from puffin.files.data_file import DataFile
from puffin.files.data_file_errors import errors_about
from puffin.storage import Store
from puffin.tables.scan_task import AVRO, DATA, ORC, PARQUET, ContentFile

_NAMES = {PARQUET: "Parquet", AVRO: "Avro", ORC: "ORC"}


@contextlib.contextmanager
def open_data_file(
    path: str, file_format: str, content: str, record_count: int, store_for: Callable[[str], Store]
) -> Iterator[DataFile]:
    """
    Open a data file or delete file; errors in the block become errors about the file (`errors_about`).

    FileNotFound if the file does not exist. ``content`` is the kind of file, for errors.
    """
    with _errors_in(path, file_format, content), store_for(path).open_input(path) as source:
        yield _read(source, file_format, record_count)


class DataFiles:
    """Opens the files of tasks, each anew."""

    def __init__(self, store_for: Callable[[str], Store]) -> None:
        self.store_for = store_for

    def open(self, file: ContentFile) -> AbstractContextManager[DataFile]:
        """As `open_data_file`."""
        return open_data_file(file.file_path, file.file_format, file.content, file.record_count, self.store_for)


class KeptFiles(DataFiles):
    """Opens each file once, and keeps it until it is closed itself; for one thread."""

    def __init__(self, store_for: Callable[[str], Store]) -> None:
        super().__init__(store_for)
        self._kept: dict[str, DataFile] = {}
        self._cleanup = contextlib.ExitStack()

    def open(self, file: ContentFile) -> AbstractContextManager[DataFile]:
        return self._opened(file)

    def close(self) -> None:
        """Close every file."""
        self._kept.clear()
        self._cleanup.close()

    @contextlib.contextmanager
    def _opened(self, file: ContentFile) -> Iterator[DataFile]:
        with _errors_in(file.file_path, file.file_format, file.content):
            if file.file_path not in self._kept:
                self._kept[file.file_path] = self._cleanup.enter_context(super().open(file))
            yield self._kept[file.file_path]


def _errors_in(path: str, file_format: str, content: str) -> AbstractContextManager[None]:
    return errors_about(path, f"{_NAMES[file_format]} file" if content == DATA else "delete file")


def _read(source: pa.NativeFile, file_format: str, record_count: int) -> DataFile:
    """The reader of a format, which is imported when its first file is opened: a process seldom needs more than one."""
    if file_format == AVRO:
        from puffin.files.avro.avro_file import AvroDataFile

        return AvroDataFile(source, record_count)
    if file_format == ORC:
        from puffin.files.orc.orc_file import OrcDataFile

        return OrcDataFile(source, record_count)
    from puffin.files.parquet.parquet_file import ParquetDataFile

    return ParquetDataFile(source)
