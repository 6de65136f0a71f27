"""
Finds the delete files that apply to a data file (spec, "Scan Planning").

The index finds delete files by their scope (one data file, a partition, or the whole table for unpartitioned equality
deletes) and then by sequence number. It skips equality delete files whose values a data file cannot have, so a commit
causes work only where its deletes can apply.
"""

from __future__ import annotations

import bisect
import copy
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from puffin.errors import CorruptMetadataError, UnsupportedTableError
from puffin.iceberg.scan.bounds import ColumnRanges
from puffin.iceberg.scan.manifests import LiveFile
from puffin.tables.base import Column
from puffin.tables.scan_task import EQUALITY_DELETES, PUFFIN
from puffin.values.value_type import is_hashable

_Partition: TypeAlias = tuple[int, str]
_ALL: _Partition = (-1, "")  # the scope of equality deletes that belong to no partition


class DeleteIndex:
    """The delete files of a snapshot. Add them all before the first query."""

    def __init__(self, specs: Mapping[int, Sequence[Mapping[str, Any]]], columns: Mapping[int, Column]) -> None:
        self._columns = columns
        fields = [field for of_spec in specs.values() for field in of_spec]
        self._decimals = {
            field["field-id"]
            for field in fields
            if field["source-id"] in columns and columns[field["source-id"]].type.startswith("decimal")
        }
        self._is_partitioned = {
            spec_id: any(field.get("transform") != "void" for field in of_spec) for spec_id, of_spec in specs.items()
        }
        self._is_empty = True
        self._vectors: dict[str, LiveFile] = {}
        self._of_file: dict[str, _BySequence] = defaultdict(_BySequence)
        self._of_partition: dict[_Partition, _BySequence] = defaultdict(_BySequence)
        self._by_equality: dict[_Partition, dict[tuple[int, ...], _EqualityDeletes]] = defaultdict(dict)

    def add(self, file: LiveFile) -> None:
        self._is_empty = False
        if file.content == EQUALITY_DELETES:
            columns = delete_columns(file, self._columns)
            ids = tuple(column.field_id for column in columns)
            self._by_equality[self._scope(file)].setdefault(ids, _EqualityDeletes(columns)).add(file)
        elif (path := file.referenced_data_file) is None:
            self._of_partition[self._partition(file)].add(file)
        elif file.file_format != PUFFIN:
            self._of_file[path].add(file)
        elif path in self._vectors:
            raise CorruptMetadataError(f"{path}: expected one deletion vector at most, found two, in {file.file_path}")
        else:
            self._vectors[path] = file

    def with_named_deletes(self, named: Iterable[LiveFile]) -> DeleteIndex:
        """An index that also has files that name their data file; this one has none."""
        other = copy.copy(self)
        other._vectors, other._of_file = {}, defaultdict(_BySequence)
        for file in named:
            other.add(file)
        return other

    def applying_to(self, data_file: LiveFile) -> list[LiveFile]:
        """
        The delete files that may name rows of this data file.

        Raises CorruptMetadataError if one names this file but is in another partition.
        """
        if self._is_empty:
            return []
        partition = self._partition(data_file)
        return [*self._equality_deletes(data_file, partition), *self._position_deletes(data_file, partition)]

    def _equality_deletes(self, data_file: LiveFile, partition: _Partition) -> Iterator[LiveFile]:
        for scope in (_ALL, partition):
            for deletes in self._by_equality.get(scope, {}).values():
                yield from deletes.applying_to(data_file)

    def _position_deletes(self, data_file: LiveFile, partition: _Partition) -> list[LiveFile]:
        # A deletion vector has every deleted position of its file and supersedes older position delete files.
        vector = self._vectors.get(data_file.file_path)
        if vector is not None and vector.sequence_number >= data_file.sequence_number:
            of_file = [vector]
        else:
            of_file = _since(self._of_file.get(data_file.file_path), data_file)
        for file in of_file:
            if self._partition(file) != partition:
                raise CorruptMetadataError(
                    f"{file.file_path}: expected deletes of the partition of their data file, "
                    f"{data_file.file_path} of spec {data_file.spec_id}, found another, of spec {file.spec_id}"
                )
        return of_file if of_file == [vector] else of_file + _since(self._of_partition.get(partition), data_file)

    def _scope(self, file: LiveFile) -> _Partition:
        if file.spec_id not in self._is_partitioned:
            raise CorruptMetadataError(f"{file.file_path}: the table has no partition spec {file.spec_id}")
        return self._partition(file) if self._is_partitioned[file.spec_id] else _ALL

    def _partition(self, file: LiveFile) -> _Partition:
        # As text, so that NaN equals NaN, as in Iceberg.
        values = {field_id: self._partition_value(field_id, value) for field_id, value in file.partition.items()}
        return file.spec_id, repr(sorted(values.items()))

    def _partition_value(self, field_id: int, value: Any) -> Any:
        # Manifests written after a decimal's precision grew use more bytes for it.
        is_decimal = field_id in self._decimals and isinstance(value, bytes)
        return int.from_bytes(value, "big", signed=True) if is_decimal else value


def delete_columns(file: LiveFile, columns: Mapping[int, Column]) -> tuple[Column, ...]:
    """The columns by which an equality delete file compares rows, also dropped ones, in the order of field ids."""
    ids = sorted(set(file.equality_ids))
    if not ids or not columns.keys() >= set(ids):
        raise CorruptMetadataError(f"{file.file_path}: expected equality ids of primitive columns, found {ids}")
    for column in (columns[field_id] for field_id in ids):
        if not is_hashable(column.type):
            raise UnsupportedTableError(
                f"{file.file_path}: equality deletes by column {column.name} of type {column.type} are not supported"
            )
    return tuple(columns[field_id] for field_id in ids)


def _since(deletes: _BySequence | None, data_file: LiveFile) -> list[LiveFile]:
    return [] if deletes is None else deletes.files[deletes.first_since(data_file.sequence_number) :]


class _BySequence:
    """Files in the order of sequence numbers, ties in the order of insertion."""

    def __init__(self) -> None:
        self.files: list[LiveFile] = []
        self._numbers: list[int] = []

    def add(self, file: LiveFile) -> None:
        self.files.append(file)

    def first_since(self, sequence_number: int) -> int:
        """The place of the first file with this sequence number or a greater one."""
        if len(self._numbers) != len(self.files):
            self.files.sort(key=lambda file: file.sequence_number)
            self._numbers = [file.sequence_number for file in self.files]
        return bisect.bisect_left(self._numbers, sequence_number)


class _EqualityDeletes(_BySequence):
    """Equality delete files of one scope that compare rows by the same columns."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        super().__init__()
        self._columns = columns
        self._ranges: list[ColumnRanges] = []

    def applying_to(self, data_file: LiveFile) -> list[LiveFile]:
        start = self.first_since(data_file.sequence_number + 1)  # rows of the same commit are not deleted
        if start == len(self.files):
            return []
        if not self._ranges:
            self._ranges = [
                ColumnRanges(column.type, [file.metrics.get(column.field_id) for file in self.files])
                for column in self._columns
            ]
        may_match = np.ones(len(self.files) - start, np.bool_)
        for column, ranges in zip(self._columns, self._ranges, strict=True):
            may_match &= ranges.may_share(start, data_file.metrics.get(column.field_id))
        return [self.files[start + index] for index in np.flatnonzero(may_match)]
