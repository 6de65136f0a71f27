"""
Where everything is in a Puffin file (spec, "File structure"), and one small check per rule.

::

    Puffin file                                    Footer
    ┌────────┬────────┬─────┬────────┬────────┐    ┌───────┬───────────────┬─────────────┬───────┬───────┐
    │ Magic  │ Blob 1 │ ... │ Blob n │ Footer │    │ Magic │ FooterPayload │ PayloadSize │ Flags │ Magic │
    └────────┴────────┴─────┴────────┴────────┘    └───────┴───────────────┴─────────────┴───────┴───────┘
    0        4                       footer start      4      PayloadSize         4          4       4
                                                                           └──────── footer struct ──────┘

The *footer struct* is the fixed end of the footer; the file size alone tells where it is. Each check raises
``CorruptPuffinError`` with the name of the rule. Callers check every number from the file before they use it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from puffin.errors import CorruptPuffinError
from puffin.format.model import INT32, BlobMetadata

MAGIC = b"PFA1"  # Puffin Fratercula arctica, version 1

FIRST_BLOB_OFFSET = len(MAGIC)

_FOOTER_STRUCT = struct.Struct("<iI4s")  # signed payload size, flags with byte 0 lowest, magic
FOOTER_STRUCT_SIZE = _FOOTER_STRUCT.size
FLAGS_OFFSET_IN_FOOTER_STRUCT = 4
MAGIC_OFFSET_IN_FOOTER_STRUCT = FLAGS_OFFSET_IN_FOOTER_STRUCT + 4

FOOTER_OVERHEAD = len(MAGIC) + FOOTER_STRUCT_SIZE
SMALLEST_FILE_SIZE = FIRST_BLOB_OFFSET + FOOTER_OVERHEAD
LARGEST_FOOTER_PAYLOAD = INT32[-1]

FLAG_FOOTER_PAYLOAD_COMPRESSED = 1 << 0  # byte 0, bit 0


class FooterStruct(NamedTuple):
    """The fixed end of the footer, which describes the payload before it."""

    payload_size: int
    payload_compressed: bool

    @property
    def footer_size(self) -> int:
        """The size of the footer in bytes, magic to magic."""
        return FOOTER_OVERHEAD + self.payload_size

    @classmethod
    def parse(cls, image: bytes, *, file_size: int) -> FooterStruct:
        """Parse and check the last ``FOOTER_STRUCT_SIZE`` bytes of a file of ``file_size`` bytes."""
        payload_size, flags, magic = _FOOTER_STRUCT.unpack(image)
        offset = file_size - FOOTER_STRUCT_SIZE
        check_magic("tail-magic", magic, offset + MAGIC_OFFSET_IN_FOOTER_STRUCT)
        check_flags(flags, offset + FLAGS_OFFSET_IN_FOOTER_STRUCT)
        check_payload_size(payload_size, file_size)
        return cls(payload_size, bool(flags & FLAG_FOOTER_PAYLOAD_COMPRESSED))

    def to_bytes(self) -> bytes:
        flags = FLAG_FOOTER_PAYLOAD_COMPRESSED if self.payload_compressed else 0
        return _FOOTER_STRUCT.pack(self.payload_size, flags, MAGIC)


def check_magic(rule: str, found: bytes, offset: int) -> None:
    """The magic is right; ``rule`` is ``head-magic``, ``footer-magic`` or ``tail-magic``."""
    if found != MAGIC:
        raise CorruptPuffinError(rule, offset=offset, expected=MAGIC, found=found)


def check_smallest_file(file_size: int) -> None:
    """The file has room for three magics, the payload size and the flags."""
    if file_size < SMALLEST_FILE_SIZE:
        expected = f"at least {SMALLEST_FILE_SIZE} bytes"
        raise CorruptPuffinError("file-size", offset=None, expected=expected, found=f"{file_size} bytes")


def check_known_file_size(known: int, found: int) -> None:
    """The file has the size that the caller gave."""
    if known != found:
        raise CorruptPuffinError("file-size", offset=None, expected=f"{known} bytes as given", found=f"{found} bytes")


def check_known_footer_range(known: int, file_size: int) -> None:
    """The file has room for a footer of the size that the caller gave."""
    largest = file_size - FIRST_BLOB_OFFSET
    if not FOOTER_OVERHEAD <= known <= largest:
        expected = f"{FOOTER_OVERHEAD} to {largest} bytes"
        raise CorruptPuffinError("footer-size", offset=None, expected=expected, found=f"{known} bytes as given")


def check_known_footer_size(known: int, found: int, file_size: int) -> None:
    """The footer has the size that the caller gave."""
    if known != found:
        offset, expected = file_size - FOOTER_STRUCT_SIZE, f"{known} bytes as given"
        raise CorruptPuffinError("footer-size", offset=offset, expected=expected, found=f"{found} bytes")


def check_flags(flags: int, offset: int) -> None:
    """No reserved bit of the four flag bytes is set."""
    if reserved := flags & ~FLAG_FOOTER_PAYLOAD_COMPRESSED:
        byte, bit = divmod((reserved & -reserved).bit_length() - 1, 8)
        found = f"byte {byte} bit {bit} set"
        raise CorruptPuffinError("flags", offset=offset + byte, expected="reserved bits 0", found=found)


def check_payload_size(payload_size: int, file_size: int) -> None:
    """The footer payload fits between the head magic and the footer struct."""
    largest = file_size - SMALLEST_FILE_SIZE
    if not 0 <= payload_size <= largest:
        offset, expected = file_size - FOOTER_STRUCT_SIZE, f"0 to {largest} bytes"
        raise CorruptPuffinError("footer-payload-size", offset=offset, expected=expected, found=f"{payload_size} bytes")


def check_limit(rule: str, size: int, limit: int, offset: int | None, unit: str = "bytes") -> None:
    """The size is within the caller's limit."""
    if size > limit:
        raise CorruptPuffinError(rule, offset=offset, expected=f"at most {limit} {unit}", found=f"{size} {unit}")


def check_read(offset: int, length: int, found: int) -> None:
    """A read returned as many bytes as requested."""
    if found != length:
        raise CorruptPuffinError("read", offset=offset, expected=f"{length} bytes", found=f"{found} bytes")


def check_blob_range(blob: BlobMetadata, footer_start: int) -> None:
    """The blob is between the head magic and the footer."""
    if blob.offset < FIRST_BLOB_OFFSET:
        expected = f"offset {FIRST_BLOB_OFFSET} or more"
        raise CorruptPuffinError("blob-start", offset=blob.offset, expected=expected, found=blob.offset)
    if blob.end > footer_start:
        expected = f"at most {footer_start}, the footer's start"
        raise CorruptPuffinError("blob-end", offset=blob.offset, expected=expected, found=blob.end)


def check_blob_overlap(blobs: Sequence[BlobMetadata]) -> None:
    """No two blobs share bytes; empty blobs never do."""
    end = 0
    for blob in sorted((blob for blob in blobs if blob.length), key=lambda blob: blob.offset):
        if blob.offset < end:
            expected = f"offset {end} or more"
            raise CorruptPuffinError("blob-overlap", offset=blob.offset, expected=expected, found=blob.offset)
        end = blob.end
