"""
What earlier runs, of whatever engine, have stored: sketches of columns, and the row counts beside those that are ours.

The blobs of all columns that are asked for are read from a file at once. A file or blob that cannot be read is no
failure of the job: the reason is kept, and the column is computed anew.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection

from puffin.errors import CorruptError, PuffinError, UnsupportedError
from puffin.format import ROW_COUNTS_V1, THETA_V1
from puffin.lookup.stored import StoredBlobs
from puffin.storage import Store
from puffin.tables.base import BlobEntry, StatisticsEntry
from puffin.tables.blob_properties import summary_of
from puffin.tables.column_summary import ColumnSummary
from puffin.theta import RowCounts, ThetaSketch


@dataclasses.dataclass(frozen=True, slots=True)
class StoredSketch:
    """
    A sketch as it was stored, with what was stored of the same rows besides.

    Attributes:
        counts: None where the file has none.
        summary: None where the entry has none.
    """

    sketch: ThetaSketch
    counts: RowCounts | None
    summary: ColumnSummary | None = None


class StoredSketches:
    """
    Reads sketches of some columns from the files of statistics entries, each file once.

    Args:
        field_ids: Of the columns that will be asked for.
    """

    def __init__(self, store_for: Callable[[str], Store], field_ids: Collection[int]) -> None:
        self._blobs = StoredBlobs(store_for, (THETA_V1, ROW_COUNTS_V1), field_ids)

    def read(self, entry: StatisticsEntry, blob: BlobEntry) -> StoredSketch:
        """
        The sketch that an entry's blob describes.

        Raises:
            PuffinError: The file or the blob cannot be read, or is not what the entry says.
        """
        path = entry.statistics_path
        sketch = self._blobs.find(entry, blob, THETA_V1)
        if sketch is None:
            raise CorruptError(f"{path}: expected a sketch of field {blob.fields[0]}, found none")
        counts = self._blobs.find(entry, blob, ROW_COUNTS_V1)
        try:
            if isinstance(sketch, PuffinError):
                raise sketch
            return StoredSketch(
                ThetaSketch.from_bytes(sketch),
                RowCounts.from_bytes(counts) if isinstance(counts, bytes) else None,
                summary_of(blob.properties),
            )
        except (CorruptError, UnsupportedError) as exc:
            raise CorruptError(f"{path}: field {blob.fields[0]}: {exc}") from exc
