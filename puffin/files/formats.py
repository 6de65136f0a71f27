"""Open a data file or delete file with the reader of its format."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from puffin.files.avro.avro_file import AvroDataFile
from puffin.files.data_file import DataFile
from puffin.files.data_file_errors import errors_about
from puffin.files.orc.orc_file import OrcDataFile
from puffin.files.parquet.parquet_file import ParquetDataFile
from puffin.storage import Store
from puffin.tables.scan_task import AVRO, DATA, ORC, PARQUET

_READERS: Mapping[str, Callable[[pa.NativeFile, int], DataFile]] = {
    PARQUET: lambda source, _: ParquetDataFile(source),
    AVRO: AvroDataFile,
    ORC: OrcDataFile,
}
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
        yield _READERS[file_format](source, record_count)
