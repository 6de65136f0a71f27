"""
What earlier runs, of whatever engine, have stored: sketches of columns, and the row counts beside those that are ours.

The blobs of all columns that are asked for are read from a file at once. A file or blob that cannot be read is no
failure of the job: the reason is kept, and the column is computed anew.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from puffin.errors import CorruptError, FileNotFound, PuffinError, UnsupportedError
from puffin.format import ROW_COUNTS_V1, THETA_V1
from puffin.sketches import RowCounts, ThetaSketch
from puffin.statistics.blob_properties import (
    HASHED_HERE,
    Provenance,
    is_hashed_here,
    is_ours,
    is_unmarked,
    lg_k_of,
    provenance_of,
    summary_of,
    writer_of,
)
from puffin.statistics.private_state.upkeep import has_private_state
from puffin.statistics.private_state.writing import KeptBlob
from puffin.statistics.resolve import KnownBlob
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.statistics.trust import Trust
from puffin.tables.base import BlobEntry, Column, StatisticsEntry
from puffin.tables.snapshot import TableSnapshot
from puffin.values.column_summary import ColumnSummary

_FULL_SHARE = 0.9  # of its nominal entries, which every engine's sketch has as soon as it estimates


@dataclasses.dataclass(frozen=True, slots=True)
class StoredSketch:
    """
    A sketch as it was stored, with what was stored of the same rows besides.

    Attributes:
        counts: None where none are kept, or they are lost.
        summary: None where the entry has none.
        provenance: How it came about.
        kept_counts: Where the counts are; None if they stand in the statistics file, or there are none.
    """

    sketch: ThetaSketch
    counts: RowCounts | None
    summary: ColumnSummary | None = None
    provenance: Provenance = HASHED_HERE
    kept_counts: KeptBlob | None = None


class StoredSketches:
    """
    Reads sketches of some columns from the files of statistics entries, each file once.

    Args:
        columns: Those that will be asked for.
    """

    def __init__(self, opened: TableSnapshot, columns: Sequence[Column]) -> None:
        field_ids = [column.field_id for column in columns]
        self._opened = opened
        self._blobs = StoredBlobs(opened, (THETA_V1, ROW_COUNTS_V1), field_ids)
        self._trust = Trust(opened, self._blobs, columns)
        self._lost: dict[str, bool] = {}

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
        try:
            if isinstance(sketch, PuffinError):
                raise sketch
            read = ThetaSketch.from_bytes(sketch)
        except (CorruptError, UnsupportedError) as exc:
            raise CorruptError(f"{path}: field {blob.fields[0]}: {exc}") from exc
        provenance = provenance_of(blob.properties)
        if not is_ours(blob.properties):
            created_by = writer_of(blob.properties, self._blobs.created_by(entry))
            provenance = Provenance(writer=created_by or "")
        counts = self._counts(entry, blob, read)
        kept_counts = None if counts is None else self._blobs.kept(entry, blob, ROW_COUNTS_V1)
        return StoredSketch(read, counts, summary_of(blob.properties), provenance, kept_counts)

    def objection(self, known: KnownBlob, column: Column, sketch: ThetaSketch, lg_k: int) -> str | None:
        """Why a sketch that was read cannot be built on; None if it can. Errors as for `Trust.objection`."""
        if not is_ours(known.blob.properties) and sketch.estimating and sketch.retained < _FULL_SHARE * (1 << lg_k):
            return f"the earlier sketch has {sketch.retained} hashes, fewer than one of lg-k {lg_k}"
        return self._trust.objection(known.entry, known.blob, known.snapshot, column, sketch)

    def lacks(self, known: KnownBlob) -> str | None:
        """
        What should be stored beside a sketch and is not; None if nothing is.

        Raises:
            StorageError: The storage failed.
        """
        if not is_ours(known.blob.properties):
            return "another engine made the earlier sketch, without row counts and bounds"
        if is_unmarked(known.blob.properties):
            return None  # its state is in its own file, which was read
        path = known.entry.statistics_path
        if path not in self._lost:
            self._lost[path] = self._blobs.has_lost_state(known.entry)
        lost = self._lost[path] or lacks_row_counts(self._blobs, known.entry, known.blob)
        return "the private state beside the earlier sketch is gone" if lost else None

    def had_ours(self, column: Column) -> bool:
        """
        Whether this project has ever kept statistics of the table, as far as they have left a trace.

        Raises:
            StorageError: The storage failed.
        """
        sketches = (entry.sketch_of(column.field_id) for entry in self._opened.state.statistics.values())
        if any(blob is not None and is_hashed_here(blob.properties) for blob in sketches):
            return True
        return has_private_state(self._opened)

    def _counts(self, entry: StatisticsEntry, blob: BlobEntry, sketch: ThetaSketch) -> RowCounts | None:
        stored = self._blobs.find(entry, blob, ROW_COUNTS_V1) if is_ours(blob.properties) else None
        if stored is None or isinstance(stored, FileNotFound):
            return None
        where = f"{entry.statistics_path}: field {blob.fields[0]}"
        try:
            if isinstance(stored, PuffinError):
                raise stored
            counts = RowCounts.from_bytes(stored)
        except (CorruptError, UnsupportedError) as exc:
            raise CorruptError(f"{where}: {exc}") from exc
        if counts.sketch(lg_k_of(blob.properties)) != sketch:
            raise CorruptError(f"{where}: expected row counts of its sketch, found those of another one")
        return counts


def lacks_row_counts(blobs: StoredBlobs, entry: StatisticsEntry, blob: BlobEntry) -> bool:
    """Whether row counts that were kept beside a sketch of ours are missing; none are beside what others began."""
    return is_hashed_here(blob.properties) and blobs.misses(entry, blob, ROW_COUNTS_V1)
