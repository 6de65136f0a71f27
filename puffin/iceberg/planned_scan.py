"""A pyiceberg scan that reads the files of a plan, with the deletes that apply to them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from puffin.errors import UnsupportedTableError, UsageError
from puffin.iceberg.filter_literals import to_column
from puffin.iceberg.filters import parse
from puffin.tables.scan_task import EQUALITY_DELETES, ContentFile, FileScanTask
from puffin.values.partition_tuples import value_from_json

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import DataScan
    from pyiceberg.table.metadata import TableMetadata


def planned_scan(scan: DataScan, where: str | None, snapshot_id: int | None, tasks: Iterable[FileScanTask]) -> DataScan:
    """
    A scan of the rows of ``scan`` that match the filter of a plan too, which reads only planned files.

    Its ``plan_files``, and so its ``to_arrow`` and the like, raise UsageError if the scan is of another snapshot, and
    UnsupportedTableError for a file with equality deletes, which pyiceberg does not apply.
    """
    from pyiceberg.expressions import And

    row_filter = scan.row_filter
    if where is not None:
        wanted = parse(where)
        # pyiceberg is given literals that it can bind without a change, as when the plan was made.
        in_range = to_column(wanted, scan.table_metadata.schema())
        row_filter = in_range if row_filter == wanted else And(row_filter, in_range)
    class_ = _planned_scan_class()
    arguments = {name: getattr(scan, name) for name in _parameters(class_)}
    made: DataScan = class_(**{**arguments, "row_filter": row_filter})
    cast("Any", made).planned = snapshot_id, tuple(tasks)
    return made


def _parameters(class_: type) -> list[str]:
    return [name for name in inspect.signature(class_.__init__).parameters if name != "self"]  # type: ignore[misc]


@functools.cache
def _planned_scan_class() -> Any:
    from pyiceberg.table import DataScan
    from pyiceberg.table import FileScanTask as PyicebergTask

    class PlannedScan(DataScan):
        """A scan that reads the files of a plan."""

        planned: tuple[int | None, tuple[FileScanTask, ...]]

        def update(self, **overrides: Any) -> PlannedScan:
            made = super().update(**overrides)
            made.planned = self.planned
            return made

        def plan_files(self) -> Iterable[PyicebergTask]:
            snapshot = self.snapshot()
            found = None if snapshot is None else snapshot.snapshot_id
            wanted, tasks = self.planned
            if found != wanted:
                raise UsageError(f"expected a scan of the plan's snapshot {wanted}, found one of {found}")
            files = _PyicebergFiles(self.table_metadata)
            # A residual says that rows have yet to be filtered, so that `count` reads them.
            return [
                PyicebergTask(files.of(task.data_file), set(map(files.of, task.delete_files)), self.row_filter)
                for task in tasks
            ]

    return PlannedScan


class _PyicebergFiles:
    """Files of a table as pyiceberg has them, with what its reader looks at."""

    def __init__(self, metadata: TableMetadata) -> None:
        columns = {field_id: schema.find_type(field_id) for schema in metadata.schemas for field_id in schema.field_ids}
        columns |= {field_id: metadata.schema().find_type(field_id) for field_id in metadata.schema().field_ids}
        # The type of each partition field, in the order of a tuple; None if there is no such column any more.
        self._fields = {
            spec_id: [
                (
                    str(field.field_id),
                    str(field.transform.result_type(columns[field.source_id])) if field.source_id in columns else None,
                )
                for field in spec.fields
            ]
            for spec_id, spec in metadata.specs().items()
        }

    def of(self, file: ContentFile) -> DataFile:
        from pyiceberg.manifest import DataFile, DataFileContent
        from pyiceberg.typedef import Record

        if file.content == EQUALITY_DELETES:
            raise UnsupportedTableError(f"{file.file_path}: pyiceberg does not apply equality deletes")
        made = DataFile.from_args(
            content=DataFileContent[file.content],
            file_path=file.file_path,
            file_format=file.file_format,
            partition=Record(*(self._value(file, *field) for field in self._fields[file.spec_id])),
            record_count=file.record_count,
            file_size_in_bytes=file.file_size_in_bytes,
        )
        made.spec_id = file.spec_id
        return made

    def _value(self, file: ContentFile, field_id: str, type_: str | None) -> Any:
        return None if type_ is None else value_from_json(type_, file.partition.get(field_id))
