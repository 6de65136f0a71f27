"""
What runs on an executor: a batch of scan tasks in, one partial sketch per column out.

Everything is merged inside the task, so that what travels back does not grow with files or rows. An error that
another try would not cure travels back as a value: it is the user's one line, not Spark's to retry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeAlias

import pyarrow as pa

from puffin.errors import CorruptDataFileError, CorruptError, NotFoundError, UnsupportedError
from puffin.tables.base import Column
from puffin.tables.iceberg_read import TaskReader
from puffin.tables.scan_task import FileScanTask, decode_batch
from puffin.tables.stores import stores
from puffin.theta import ThetaSketch, ThetaSketchBuilder, merge

FinalError: TypeAlias = CorruptError | UnsupportedError | NotFoundError


@dataclasses.dataclass(frozen=True, slots=True)
class Partial:
    """
    What some of the rows amount to.

    Attributes:
        sketches: By field id.
        rows: Live rows.
        bytes_read: Compressed bytes of the column chunks that were read.
        failure: Why there is no answer, if there is none.
    """

    sketches: Mapping[int, ThetaSketch]
    rows: int
    bytes_read: int
    failure: FinalError | None = None


def sketch_batch(document: str, lg_k: int) -> Partial:
    """The partial sketches of a batch in its JSON form, one for each of its columns."""
    batch = decode_batch(document)
    columns = {column.field_id: column for column in batch.columns}
    builders = {field_id: ThetaSketchBuilder(lg_k) for field_id in columns}
    rows = bytes_read = 0
    reader = TaskReader(batch, stores(batch.io_properties))
    try:
        for task in batch.tasks:
            for live in reader.read(task):
                rows += live.count
                bytes_read += live.bytes_read
                for field_id, values in live.columns.items():
                    _update(builders[field_id], columns[field_id], values, task)
    except (CorruptError, UnsupportedError, NotFoundError) as exc:
        return Partial({}, 0, 0, failure=exc)
    return Partial({field_id: builder.compact() for field_id, builder in builders.items()}, rows, bytes_read)


def merge_partials(left: Partial, right: Partial, lg_k: int) -> Partial:
    """What both amount to together; a failure of either is a failure of both."""
    if left.failure or right.failure:
        return left if left.failure else right
    sketches = {field_id: merge((sketch, right.sketches[field_id]), lg_k) for field_id, sketch in left.sketches.items()}
    return Partial(sketches, left.rows + right.rows, left.bytes_read + right.bytes_read)


def _update(builder: ThetaSketchBuilder, column: Column, values: pa.Array, task: FileScanTask) -> None:
    try:
        builder.update(values, column.type)
    except CorruptDataFileError as exc:
        raise CorruptDataFileError(f"{task.data_file.file_path}: column {column.name}: {exc}") from exc
