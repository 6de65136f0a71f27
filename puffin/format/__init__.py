"""
The Puffin file format and its deletion vectors: bytes in, values out; no tables, no paths.

``PuffinReader`` reads from a ``RangeSource``, ``PuffinWriter`` writes to a ``Sink``; both exchange the frozen values of
``model`` with their callers.
"""

from puffin.format.model import (
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
    Blob,
    BlobMetadata,
    FileMetadata,
    RawBlob,
    WrittenFile,
)
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
