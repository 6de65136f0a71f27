"""Images as they travel between the processes of a job: compressed, since each task sends one for each column."""

from __future__ import annotations

import pyarrow as pa

_CODEC = "zstd"


def pack(image: bytes) -> tuple[bytes, int]:
    """The compressed image, and its size."""
    return pa.compress(image, _CODEC, asbytes=True), len(image)


def unpack(packed: bytes, size: int) -> bytes:
    """The image again."""
    image: bytes = pa.decompress(packed, size, _CODEC, asbytes=True)
    return image
