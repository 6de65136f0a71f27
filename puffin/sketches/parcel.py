"""Values that are pickled as their compressed images: each task sends one per column."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

_CODEC = "zstd"


class ByImage(ABC):
    """A value that is compared and pickled by the bytes of its image, which are few and are checked on arrival."""

    __slots__ = ()

    @classmethod
    @abstractmethod
    def from_bytes(cls, image: bytes | bytearray | memoryview) -> ByImage:
        """Read an image; raise CorruptSketchError if it is invalid."""

    @abstractmethod
    def to_bytes(self) -> bytes:
        """The image."""

    def __eq__(self, other: object) -> bool:
        return self.to_bytes() == other.to_bytes() if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def __reduce__(self) -> tuple[object, ...]:
        image = self.to_bytes()
        return _unpacked, (type(self), pa.compress(image, _CODEC, asbytes=True), len(image))


def _unpacked(type_: type[ByImage], packed: bytes, size: int) -> ByImage:
    return type_.from_bytes(pa.decompress(packed, size, _CODEC, asbytes=True))
