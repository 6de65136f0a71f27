"""
The Puffin file format and its deletion vectors: bytes in, values out; no tables, no paths.

``PuffinReader`` reads from a ``RangeSource``, ``PuffinWriter`` writes to a ``Sink``; both exchange the frozen values of
``model`` with their callers.

The reader and the writer are imported on first use, since most callers only need the names.
"""

from typing import TYPE_CHECKING

from puffin.format.names import (
    CREATED_BY,
    DELETION_VECTOR_V1,
    DISTRIBUTION_V1,
    INDEX_DIRECTORY_V1,
    INDEX_V1,
    JOINT_V1,
    LZ4,
    PARTITION_SKETCHES_V1,
    ROW_COUNTS_V1,
    THETA_V1,
    ZSTD,
)
from puffin.lazy import on_first_use

if TYPE_CHECKING:
    from puffin.format.model import Blob, BlobMetadata, FileMetadata, RawBlob, WrittenFile
    from puffin.format.reader import Limits, PuffinReader
    from puffin.format.source import RangeSource
    from puffin.format.writer import PuffinWriter, Sink

__all__ = [
    "CREATED_BY",
    "DELETION_VECTOR_V1",
    "DISTRIBUTION_V1",
    "INDEX_DIRECTORY_V1",
    "INDEX_V1",
    "JOINT_V1",
    "LZ4",
    "PARTITION_SKETCHES_V1",
    "ROW_COUNTS_V1",
    "THETA_V1",
    "ZSTD",
    "Blob",
    "BlobMetadata",
    "FileMetadata",
    "Limits",
    "PuffinReader",
    "PuffinWriter",
    "RangeSource",
    "RawBlob",
    "Sink",
    "WrittenFile",
]

__getattr__ = on_first_use(
    __name__,
    {
        "Blob": "puffin.format.model",
        "BlobMetadata": "puffin.format.model",
        "FileMetadata": "puffin.format.model",
        "Limits": "puffin.format.reader",
        "PuffinReader": "puffin.format.reader",
        "PuffinWriter": "puffin.format.writer",
        "RangeSource": "puffin.format.source",
        "RawBlob": "puffin.format.model",
        "Sink": "puffin.format.writer",
        "WrittenFile": "puffin.format.model",
    },
)
