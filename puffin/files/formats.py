"""Open a data file or delete file with the reader of its format."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pyarrow as pa

from puffin.files.data_file import DataFile
from puffin.files.data_file_errors import errors_about
from puffin.storage import Store
from puffin.tables.scan_task import AVRO, DATA, ORC, PARQUET

_NAMES = {PARQUET: "Parquet", AVRO: "Avro", ORC: "ORC"}


@contextlib.contextmanager
def open_data_file(
    path: str, file_format: str, content: str, record_count: int, store_for: Callable[[str], Store]
) -> Iterator[DataFile]:
    """
    Open a data file or delete file; errors in the block become errors about the file (`errors_about`).

    FileNotFound if the file does not exist. ``content`` is the kind of file, for errors.
    """
    kind = f"{_NAMES[file_format]} file" if content == DATA else "delete file"
    with errors_about(path, kind), store_for(path).open_input(path) as source:
        yield _read(source, file_format, record_count)


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
