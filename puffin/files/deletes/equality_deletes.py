"""
Find the rows that equality delete files delete: those with a key in a delete file (spec, "Equality Delete Files").

All delete files that compare the same columns share one set of keys, with a note of which files have each key. A lookup
searches sorted hashes for the hash of a row's key, unlike Arrow's ``is_in``, which rebuilds its set for every batch.
Hashes may collide, so the few matching rows are then compared by key.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin.errors import CorruptDataFileError
from puffin.files.data_file import DataFile
from puffin.files.deletes.row_keys import row_keys
from puffin.files.file_columns import FileColumn, FileColumns
from puffin.sketches.hashing import hash_serialized
from puffin.tables.base import Column
from puffin.values.serialized import ByteStrings, WordArray

_Flags: TypeAlias = npt.NDArray[np.bool_]

_HASH_BITS = 63
_SLOTS_PER_KEY = 8


class DeletedKeys:
    """The keys of delete files, by path."""

    def __init__(self, files: Mapping[str, Sequence[pa.LargeBinaryArray]]) -> None:
        empty = pa.array([], pa.large_binary())
        all_keys = pa.concat_arrays([empty, *itertools.chain.from_iterable(files.values())]).dictionary_encode()
        hashes = _hashes(all_keys.dictionary)
        order = np.argsort(hashes)
        self._hashes = hashes[order]
        self._keys = all_keys.dictionary.take(pa.array(order))
        # Most rows have no deleted key: one slot tells that, where a search would take twenty steps.
        self._shift = np.uint64(_HASH_BITS - (_SLOTS_PER_KEY * len(hashes)).bit_length())
        self._slots = np.zeros(1 << (_HASH_BITS - int(self._shift)), np.bool_)
        self._slots[self._hashes >> self._shift] = True
        places = np.empty(len(order), np.int32)
        places[order] = np.arange(len(order), dtype=np.int32)
        ends = np.cumsum([sum(map(len, keys)) for keys in files.values()], dtype=np.int64)
        of_files = np.split(places[all_keys.indices.to_numpy()], ends[:-1])
        self._of_file = dict(zip(files, of_files, strict=True))

    def of_files(self, paths: Iterable[str]) -> _Flags:
        """Flag the keys that some of the files have."""
        named = np.zeros(len(self._hashes), np.bool_)
        for path in paths:
            named[self._of_file[path]] = True
        return named

    def contain(self, keys: pa.LargeBinaryArray, named: _Flags) -> _Flags:
        """Whether each of these keys is one that `of_files` flagged."""
        contained = np.zeros(len(keys), np.bool_)
        hashes = _hashes(keys)
        rows = np.flatnonzero(self._slots[hashes >> self._shift])
        at = np.searchsorted(self._hashes, hashes[rows])
        while len(rows):
            is_candidate = self._hashes.take(at, mode="clip") == hashes[rows]
            is_candidate &= at < len(self._hashes)
            rows, at = rows[is_candidate], at[is_candidate]
            equal = pc.equal(keys.take(pa.array(rows)), self._keys.take(pa.array(at))).to_numpy(zero_copy_only=False)
            contained[rows[equal]] = named[at[equal]]
            rows, at = rows[~equal], at[~equal] + 1  # another key may have the same hash
        return contained


@dataclasses.dataclass(frozen=True, slots=True)
class KeyReader:
    """Reads the key columns of a file; errors name its path."""

    path: str
    columns: tuple[FileColumn, ...]

    def read(self, batch: pa.RecordBatch) -> pa.LargeBinaryArray:
        """The keys of these rows; CorruptDataFileError if a column has another type than the table's."""
        try:
            return row_keys([c.column for c in self.columns], [c.read(batch) for c in self.columns])
        except CorruptDataFileError as exc:
            raise CorruptDataFileError(f"{self.path}: {exc}") from exc


@dataclasses.dataclass(frozen=True, slots=True)
class EqualityFilter:
    """Drops the rows of one data file whose key is flagged."""

    reader: KeyReader
    keys: DeletedKeys
    named: _Flags

    @property
    def columns(self) -> Sequence[FileColumn]:
        """The columns to read from the data file."""
        return self.reader.columns

    def live(self, batch: pa.RecordBatch) -> _Flags:
        """Whether each of these rows is kept."""
        return ~self.keys.contain(self.reader.read(batch), self.named)


def read_deleted_keys(
    file: DataFile, columns: Sequence[Column], name_mapping: Sequence[Mapping[str, Any]] | None, path: str
) -> Iterator[pa.LargeBinaryArray]:
    """
    The keys in an equality delete file; callers wrap errors of the file with `errors_about`.

    Raises:
        CorruptDataFileError: The file lacks a column, or has one of another type.
        UnsupportedTableError: The file has no field ids to find its columns by.
    """
    located = FileColumns(file.schema, name_mapping, last_counts=file.last_counts).locate(columns, {}, path)
    for found in located:
        if found.constant is not None:
            raise CorruptDataFileError(
                f"{path}: expected a delete column {found.column.name} of field id {found.column.field_id}, found none"
            )
    reader = KeyReader(path, located)
    for batch in file.batches([found.names for found in located]):
        yield reader.read(batch)


def _hashes(keys: pa.LargeBinaryArray) -> WordArray:
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(offsets or bytes(8), np.int64, len(keys) + 1, 8 * keys.offset)
    return hash_serialized(ByteStrings(np.frombuffer(data or b"", np.uint8), bounds))
