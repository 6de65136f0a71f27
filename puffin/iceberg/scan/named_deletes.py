"""
Delete files that name their data file (deletion vectors, position deletes of one file), packed.

A table may have as many of them as data files. Whoever plans some of the data files unpacks those with their paths.
"""

from __future__ import annotations

import dataclasses
import pickle
import zlib
from collections.abc import Collection, Iterable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from puffin.iceberg.scan.manifests import LiveFile
from puffin.tables.scan_task import POSITION_DELETES

_Hashes: TypeAlias = npt.NDArray[np.uint32]

_CHUNK = 8  # files packed together: larger chunks compress better, but more files are unpacked for nothing


def names_its_data_file(file: LiveFile) -> bool:
    return file.content == POSITION_DELETES and file.referenced_data_file is not None


@dataclasses.dataclass(frozen=True, slots=True)
class NamedDeletes:
    """Chunks of delete files in the order of ``hashes``, one for each file: those of the paths of their data files."""

    hashes: _Hashes
    chunks: tuple[bytes, ...]

    @classmethod
    def of(cls, files: Iterable[LiveFile]) -> NamedDeletes:
        """Packs files that name their data file; those of the same one stay in order."""
        ordered = sorted(((_hash(file.referenced_data_file or ""), file) for file in files), key=lambda each: each[0])
        starts = range(0, len(ordered), _CHUNK)
        chunks = ([file for _, file in ordered[start : start + _CHUNK]] for start in starts)
        return cls(
            np.array([hashed for hashed, _ in ordered], np.uint32),
            tuple(zlib.compress(pickle.dumps(chunk), 1) for chunk in chunks),
        )

    def naming(self, paths: Collection[str]) -> Iterator[LiveFile]:
        """The files that name one of these data files."""
        wanted = np.array(sorted(map(_hash, paths)), np.uint32)
        first = np.searchsorted(self.hashes, wanted, "left")
        end = np.searchsorted(self.hashes, wanted, "right")
        found = end > first
        chunks = zip((first[found] // _CHUNK).tolist(), ((end[found] - 1) // _CHUNK).tolist(), strict=True)
        for number in sorted({number for one, last in chunks for number in range(one, last + 1)}):
            files = pickle.loads(zlib.decompress(self.chunks[number]))  # noqa: S301 - ours
            yield from (file for file in files if file.referenced_data_file in paths)


def _hash(path: str) -> int:
    return zlib.crc32(path.encode("utf-8", "surrogatepass"))
