"""
The planner's lookup: table metadata in, answers out.

Nothing else is read while the metadata has an ``ndv`` for every column; where it has only sketches, one ranged
read fetches the footer, since both sizes are known, and one more the sketches, if they lie together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from puffin.errors import PuffinError
from puffin.format import THETA_V1
from puffin.lookup.answer import ColumnAnswer, PartitionMatch, TableAnswer
from puffin.lookup.partition_filter import PartitionFilter
from puffin.lookup.partitions import answer_partitions
from puffin.lookup.resolve import resolve, staleness
from puffin.lookup.stored import read_blobs
from puffin.tables.base import BlobEntry, Column, Snapshot, SnapshotSelector, StatisticsEntry, TableState
from puffin.tables.blob_properties import Distinct, from_properties
from puffin.tables.load import load_table
from puffin.tables.table import Table
from puffin.theta import ThetaSketch


def ndv(
    table: str,
    columns: Sequence[str] | None = None,
    *,
    snapshot_id: int | None = None,
    ref: str | None = None,
    as_of_ms: int | None = None,
    max_staleness: int | None = None,
    partitions: Sequence[str] = (),
    where: str | None = None,
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
        max_staleness: How many snapshots may have changed the rows since statistics were computed for them to
            count; by default any number.
        partitions: Only the rows of these partitions, as `puffin.lookup.partition_filter.PartitionFilter` names them;
            this and ``where`` take statistics that were computed by partition, from their file.
        where: Only the rows of partitions that may have rows which pass this filter.

    Returns:
        An answer for each column; one without statistics is there, and says that they are missing.

    Raises:
        NotFoundError: There is no such table, snapshot, column or partition field.
        UsageError: A partition or the filter cannot be understood.
        CorruptMetadataError: The table's metadata cannot be understood.
        StorageError: The storage or the catalog does not answer.
        MissingDependencyError: There is a filter or a catalog, and pyiceberg is not installed.
    """
    loaded = load_table(table, catalog=catalog, catalog_properties=catalog_properties)
    selector = SnapshotSelector(snapshot_id=snapshot_id, ref=ref, as_of_ms=as_of_ms)
    return lookup(loaded, columns, selector, max_staleness=max_staleness, partitions=partitions, where=where)


def lookup(
    table: Table,
    columns: Sequence[str] | None,
    selector: SnapshotSelector,
    *,
    max_staleness: int | None = None,
    partitions: Sequence[str] = (),
    where: str | None = None,
) -> TableAnswer:
    """As `ndv`, for a table that is at hand."""
    state = table.load(selector)
    snapshot = state.select_snapshot(selector)
    chosen = state.select_columns(None if columns is None else tuple(columns))
    is_meant = PartitionFilter(state, partitions, where) if partitions or where is not None else None
    match = None if is_meant is None else PartitionMatch(None, None)
    if snapshot is None:
        missing = tuple(ColumnAnswer.missing(column) for column in chosen)
        return TableAnswer(table.name, state.format, None, missing, match)
    if is_meant is None:
        answers = answer_columns(table, state, snapshot, chosen)
    else:
        answers, match = answer_partitions(table.store, state, snapshot, chosen, is_meant)
    if max_staleness is not None:
        answers = tuple(_fresh_or_missing(state, snapshot, answer, max_staleness) for answer in answers)
    return TableAnswer(table.name, state.format, snapshot.snapshot_id, answers, match)


def answer_columns(
    table: Table, state: TableState, snapshot: Snapshot, columns: Sequence[Column]
) -> tuple[ColumnAnswer, ...]:
    """The answer for each column, in the order asked, for a snapshot of a state that is at hand."""
    return resolve(state, snapshot, columns, _StoredSketches(table, columns))


def _fresh_or_missing(state: TableState, snapshot: Snapshot, answer: ColumnAnswer, allowed: int) -> ColumnAnswer:
    if answer.stats_snapshot_id is None:
        return answer
    changes = staleness(state, snapshot, answer.stats_snapshot_id)
    return answer if changes is not None and changes <= allowed else ColumnAnswer.missing(answer.column)


class _StoredSketches:
    """
    What sketches say whose metadata does not: of a statistics file, all that the columns need are read at once.

    Our own blobs always have an ``ndv``, so these are other engines'. A file that is gone or broken leaves the
    question open for an older entry.
    """

    def __init__(self, table: Table, columns: Sequence[Column]) -> None:
        self._table = table
        self._fields = {(column.field_id,) for column in columns}
        self._known: dict[str, Mapping[tuple[int, ...], Distinct]] = {}

    def __call__(self, entry: StatisticsEntry, blob: BlobEntry) -> Distinct | None:
        path = entry.statistics_path
        if path not in self._known:
            self._known[path] = self._read(entry)
        return self._known[path].get(blob.fields)

    def _read(self, entry: StatisticsEntry) -> dict[tuple[int, ...], Distinct]:
        asked = {b.fields for b in entry.blobs if b.fields in self._fields and from_properties(b.properties) is None}
        found = {}
        with contextlib.suppress(PuffinError):
            for blob, payload in read_blobs(
                self._table.store, entry, lambda b: b.type == THETA_V1 and b.fields in asked
            ):
                if isinstance(payload, bytes):
                    with contextlib.suppress(PuffinError):
                        found[blob.fields] = Distinct.nominal(ThetaSketch.from_bytes(payload).ndv)
        return found
