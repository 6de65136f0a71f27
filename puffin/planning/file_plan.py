"""The answer of a planner, as values and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from puffin.errors import UnsupportedTableError, UsageError
from puffin.planning.flags import Flags, count
from puffin.tables.scan_task import FileScanTask
from puffin.values.json_values import in_words

if TYPE_CHECKING:
    import pyarrow.dataset
    from deltalake import DeltaTable
    from pyiceberg.table import DataScan


@dataclasses.dataclass(frozen=True, slots=True)
class Pruned:
    """How many files each step excluded."""

    partition: int
    bounds: int
    index: int

    def to_json(self) -> dict[str, int]:
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedIndex:
    """The columns of the filter that have an index, and how many files it covers for all of them."""

    columns: tuple[str, ...]
    files_covered: int


@dataclasses.dataclass(frozen=True, slots=True)
class PredicateReport:
    """A predicate of the filter, and how many of all files each step excludes by it alone."""

    predicate: str
    excludes: Pruned


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FilePlan:
    """
    The data files of a snapshot that can hold rows that match the filter.

    Attributes:
        snapshot_id: None if the table has no snapshot yet.
        sizes: The bytes of each of ``all_files``.
        kept: For each of ``all_files`` whether it is planned.
        pruned: Each excluded file counts at the first step that excludes it.
        warnings: Why the index was not used in full, one line each.
        partition_names: The names of partition fields, by field id.
        location: The table's.
        maps_columns: Whether a Delta table's files may have columns under other names.
    """

    table: str
    format: str
    snapshot_id: int | None
    where: str | None
    all_files: tuple[FileScanTask, ...]
    sizes: npt.NDArray[np.int64]
    kept: Flags
    pruned: Pruned
    index: PlannedIndex
    warnings: tuple[str, ...]
    predicates: tuple[PredicateReport, ...]
    partition_names: Mapping[str, str]
    location: str
    maps_columns: bool = False

    @property
    def files(self) -> tuple[FileScanTask, ...]:
        """The planned files, each with the delete files that apply to it; made anew, so that a plan stays small."""
        return tuple(map(self.all_files.__getitem__, np.flatnonzero(self.kept).tolist()))

    @property
    def files_matched(self) -> int:
        """How many files are planned."""
        return count(self.kept)

    @property
    def bytes_total(self) -> int:
        """The size of all files."""
        return int(self.sizes.sum())

    @property
    def bytes_matched(self) -> int:
        """The size of the planned files."""
        return int(self.sizes[self.kept].sum())

    def for_pyiceberg(self, scan: DataScan) -> DataScan:
        """
        A pyiceberg scan that reads only the planned files, for `to_arrow`, `to_pandas`, `to_duckdb` and the rest.

        Its rows are those of ``scan.filter(where)``: pyiceberg applies deletes, and the filters of both to each row.
        Numbers that the type of a column cannot hold are left out of lists, since pyiceberg would change them.
        The scan has to be of the plan's snapshot.

        Raises UsageError for a plan of a Delta table; for what the scan raises, see `puffin.iceberg.planned_scan`.
        """
        from puffin.iceberg.planned_scan import planned_scan

        self._check_format("iceberg")
        return planned_scan(scan, self.where, self.snapshot_id, self.files)

    def for_deltalake(self, table: DeltaTable) -> pyarrow.dataset.Dataset:
        """
        deltalake's own dataset of a table, with the planned files alone: for Arrow, DuckDB and polars.

        It has the table's schema and partition values. Its reader has to filter rows, as of every dataset.

        Raises UsageError for a plan of an Iceberg table or of other files, and deltalake's DeltaProtocolError for a
        table with a feature that its datasets do not support, such as deletion vectors.
        """
        from puffin.planning.deltalake_dataset import planned_dataset

        self._check_format("delta")
        every_path = {task.data_file.file_path for task in self.all_files}
        return planned_dataset(table, self.location, every_path, (task.data_file.file_path for task in self.files))

    def parquet_paths(self) -> list[str]:
        """
        The planned files of a Delta table, as ``read_parquet`` of DuckDB and polars takes them.

        Such a reader takes the columns that it finds in the files. Partition columns are missing unless it reads them
        from the paths, and columns that were added later are in some of the files only.

        Raises UsageError for a plan of an Iceberg table, and UnsupportedTableError where a plain reader would be wrong:
        it returns deleted rows of files with deletion vectors, and takes columns for others if the table maps them.
        """
        self._check_format("delta")
        if self.maps_columns:
            raise UnsupportedTableError(f"{self.table}: its files have columns under other names (column mapping)")
        files = self.files
        deleted = [task.data_file.file_path for task in files if task.delete_files]
        if deleted:
            raise UnsupportedTableError(
                f"{self.table}: {len(deleted):,} of {len(files):,} planned files have deletion vectors, whose "
                f"rows a reader of plain files returns: {deleted[0]}"
            )
        return [task.data_file.file_path for task in files]

    def _check_format(self, expected: str) -> None:
        if self.format != expected:
            raise UsageError(f"{self.table}: expected the plan of a table of format {expected}, found {self.format}")

    def to_json(self) -> dict[str, Any]:
        return {**self.head_to_json(), "files": list(self.files_to_json())}

    def head_to_json(self) -> dict[str, Any]:
        """All but the files."""
        return {
            "table": self.table,
            "format": self.format,
            "snapshot-id": self.snapshot_id,
            "where": self.where,
            "files-total": len(self.all_files),
            "files-matched": self.files_matched,
            "bytes-total": self.bytes_total,
            "bytes-matched": self.bytes_matched,
            "pruned": self.pruned.to_json(),
            "index": {"columns": list(self.index.columns), "files-covered": self.index.files_covered},
            "warnings": list(self.warnings),
        }

    def files_to_json(self) -> Iterator[dict[str, Any]]:
        """The planned files, one after the other."""
        return map(self._file_to_json, self.files)

    def _file_to_json(self, task: FileScanTask) -> dict[str, Any]:
        file = task.data_file
        return {
            "path": file.file_path,
            "format": file.file_format,
            "record-count": file.record_count,
            "file-size-in-bytes": file.file_size_in_bytes,
            "spec-id": file.spec_id,
            "partition": {self.partition_names.get(key, key): in_words(each) for key, each in file.partition.items()},
            "delete-files": [{"path": each.file_path, "content": each.content} for each in task.delete_files],
        }
