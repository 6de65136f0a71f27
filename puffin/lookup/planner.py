"""
The planner's lookup: table metadata in, answers out.

If the metadata has an ``ndv`` for every column, nothing else is read. Otherwise the statistics file is read for its
sketches, in one request if it is small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from puffin.load import load_table
from puffin.lookup.partition_filter import PartitionFilter
from puffin.lookup.partitions import answer_partitions
from puffin.lookup.question import Question
from puffin.statistics.ancestry import known_sketches
from puffin.statistics.answer import ColumnAnswer, PartitionMatch, TableAnswer
from puffin.statistics.resolve import answer_columns
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.tables.snapshot import Table, TableSnapshot


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
    manifests: bool = False,
    catalog: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> TableAnswer:
    """
    The number of distinct values of columns of a table, from its metadata alone.

    Args:
        table: A path or URI of a table directory or an Iceberg metadata file; with ``catalog``, ``namespace.table``.
        columns: This and the next arguments are attributes of `puffin.lookup.Question`. ``partitions`` and ``where``
            need statistics by partition, which are read from their file.
        catalog: A catalog in pyiceberg's configuration.
        catalog_properties: Properties that override that configuration.

    Returns:
        An answer for each column; a column without statistics has one that says so.

    Raises:
        NotFoundError: There is no such table, snapshot, column or partition field.
        UsageError: As for `puffin.lookup.Question`; or a partition or the filter cannot be parsed.
        CorruptMetadataError: The table's metadata is corrupt.
        StorageError: The storage or the catalog does not answer.
        MissingDependencyError: There is a filter or a catalog, and pyiceberg is not installed.
    """
    question = Question(table, columns, snapshot_id, ref, as_of_ms, max_staleness, partitions, where, manifests)
    return lookup(load_table(table, catalog=catalog, catalog_properties=catalog_properties), question)


def lookup(table: Table, question: Question) -> TableAnswer:
    """As `ndv`, for a loaded table."""
    return answer_from(table.open(question.selector), question)


def answer_from(opened: TableSnapshot, question: Question) -> TableAnswer:
    """As `ndv`, for a table opened with the question's selector."""
    state = opened.state
    chosen = state.select_columns(question.columns)
    is_selected = PartitionFilter(state, question.partitions, question.where) if question.is_of_partitions else None
    match = None if is_selected is None else PartitionMatch(None, None)
    if opened.is_empty:
        missing = tuple(ColumnAnswer.missing(column) for column in chosen)
        return TableAnswer(opened.name, state.format, None, missing, match)
    if is_selected is None:
        field_ids = [column.field_id for column in chosen]
        answers = answer_columns(known_sketches(opened, field_ids), chosen, StoredBlobs(opened, field_ids))
    else:
        answers, match = answer_partitions(opened, chosen, is_selected)
    if (allowed := question.max_staleness) is not None:
        answers = tuple(_fresh_or_missing(answer, allowed) for answer in answers)
    if question.manifests:
        answers = _with_summaries(opened, answers)
    return TableAnswer(opened.name, state.format, opened.snapshot.snapshot_id, answers, match)


def _fresh_or_missing(answer: ColumnAnswer, allowed: int) -> ColumnAnswer:
    behind = answer.freshness.snapshots_behind
    if answer.distinct is None or (behind is not None and behind <= allowed):
        return answer
    found = "an unknown number" if behind is None else f"{behind:,}"
    reason = f"statistics: expected at most {allowed:,} snapshots behind, found {found}"
    return ColumnAnswer.missing(answer.column, reason)


def _with_summaries(opened: TableSnapshot, answers: Sequence[ColumnAnswer]) -> tuple[ColumnAnswer, ...]:
    without = [answer.column for answer in answers if answer.summary is None]
    found = opened.column_summaries(without) if without else {}
    return tuple(
        answer if answer.summary is not None else answer.with_summary(found.get(answer.column.field_id))
        for answer in answers
    )
