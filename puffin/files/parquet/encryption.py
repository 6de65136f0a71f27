"""
Recognize encrypted Parquet files by their last bytes, before pyarrow opens them.

::

    columns │ footer                         │ its length │ "PAR1"
    columns │ footer │ nonce, tag (28 bytes) │ its length │ "PAR1"     columns are encrypted, the footer is signed
    columns │ key metadata, encrypted footer │ its length │ "PARE"

pyarrow reads the footer of the second kind, and then ends the process when it reads an encrypted column chunk (seen
with 26.0). The footer is read here, once for both.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from puffin.files.parquet.thrift import MALFORMED, read_struct

_TAIL = 64 * 1024  # bytes, as many as pyarrow reads; most footers are within
_MAGIC_SIZE = 4
_LENGTH_AND_MAGIC = 4 + _MAGIC_SIZE
_PLAIN, _ENCRYPTED = b"PAR1", b"PARE"
_ENCRYPTION_ALGORITHM = 8  # a field of FileMetaData


def read_plain_footer(source: pa.NativeFile) -> pq.FileMetaData | None:
    """
    The footer of a Parquet file; None if there is none, so that pyarrow reports what is wrong.

    NotImplementedError if the file, or some of its columns, are encrypted.
    """
    size = source.size()
    tail = source.read_at(min(size, _TAIL), max(0, size - _TAIL))
    magic = tail[-_MAGIC_SIZE:]
    if magic == _ENCRYPTED:
        raise NotImplementedError("encrypted footer")
    length = int.from_bytes(tail[-_LENGTH_AND_MAGIC:-_MAGIC_SIZE], "little")
    if magic != _PLAIN or length + _LENGTH_AND_MAGIC > size:
        return None
    if length + _LENGTH_AND_MAGIC > len(tail):
        tail = source.read_at(length + _LENGTH_AND_MAGIC, size - length - _LENGTH_AND_MAGIC)
    metadata = pq.read_metadata(pa.BufferReader(tail))
    if metadata.serialized_size != length and _has_algorithm(tail[-length - _LENGTH_AND_MAGIC :]):
        raise NotImplementedError("encrypted columns")
    return metadata


def _has_algorithm(footer: bytes) -> bool:
    try:
        return _ENCRYPTION_ALGORITHM in read_struct(footer, 0, {_ENCRYPTION_ALGORITHM: None})[0]
    except MALFORMED:
        return False
