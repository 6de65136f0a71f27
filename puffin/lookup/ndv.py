"""
The planner's lookup: table metadata in, answers out.

Nothing else is read while the metadata has an ``ndv`` for the column; where it has only a sketch, one ranged
read fetches its footer, since both sizes are known, and one more the sketch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from puffin.errors import PuffinError
from puffin.format import THETA_V1, PuffinReader
from puffin.lookup.answer import ColumnAnswer, TableAnswer
from puffin.lookup.resolve import resolve
from puffin.tables.base import BlobEntry, Column, Snapshot, SnapshotSelector, StatisticsEntry, TableState
from puffin.tables.blob_properties import Distinct
from puffin.tables.load import Table, load_table
from puffin.theta import ThetaSketch


def ndv(
    table: str,
    columns: Sequence[str] | None = None,
    *,
    snapshot_id: int | None = None,
    ref: str | None = None,
    as_of_ms: int | None = None,
    catalog: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> TableAnswer:
    """
    The number of distinct values of columns of a table, from its metadata alone.

    Args:
        table: A path or URI of a table directory or an Iceberg metadata file; with ``catalog``, ``namespace.table``.
        columns: Names or dotted paths in the current schema; None for every primitive column outside lists and maps.
        snapshot_id: The snapshot asked for; or the branch or tag ``ref``, or the snapshot that was current
            ``as_of_ms`` milliseconds after the epoch. None of them: the current one.

    Returns:
        An answer for each column; one without statistics is there, and says that they are missing.

    Raises:
        NotFoundError: There is no such table, snapshot or column.
        CorruptMetadataError: The table's metadata cannot be understood.
        StorageError: The storage or the catalog does not answer.
    """
    loaded = load_table(table, catalog=catalog, catalog_properties=catalog_properties)
    return lookup(loaded, columns, SnapshotSelector(snapshot_id=snapshot_id, ref=ref, as_of_ms=as_of_ms))


def lookup(table: Table, columns: Sequence[str] | None, selector: SnapshotSelector) -> TableAnswer:
    """As `ndv`, for a table that is at hand."""
    state = table.load()
    snapshot = state.select_snapshot(selector)
    chosen = state.select_columns(None if columns is None else tuple(columns))
    if snapshot is None:
        return TableAnswer(table.name, state.format, None, tuple(ColumnAnswer.missing(c) for c in chosen))
    return TableAnswer(table.name, state.format, snapshot.snapshot_id, answer_columns(table, state, snapshot, chosen))


def answer_columns(
    table: Table, state: TableState, snapshot: Snapshot, columns: Sequence[Column]
) -> tuple[ColumnAnswer, ...]:
    """The answer for each column, in the order asked, for a snapshot of a state that is at hand."""

    def read_sketch(entry: StatisticsEntry, blob: BlobEntry) -> Distinct | None:
        return _distinct_from_file(table, entry, blob)

    return resolve(state, snapshot, columns, read_sketch)


def _distinct_from_file(table: Table, entry: StatisticsEntry, blob: BlobEntry) -> Distinct | None:
    # Our own blobs always have an ndv, so this one is another engine's. A statistics file that is gone or broken
    # leaves the question open for an older entry.
    try:
        with table.store(entry.statistics_path).open_source(entry.statistics_path) as source:
            reader = PuffinReader(
                source, file_size=entry.file_size_in_bytes, footer_size=entry.file_footer_size_in_bytes
            )
            stored = next(b for b in reader.file_metadata.blobs if b.type == THETA_V1 and b.fields == blob.fields)
            return Distinct.nominal(ThetaSketch.from_bytes(reader.read(stored)).ndv)
    except (PuffinError, StopIteration):
        return None
