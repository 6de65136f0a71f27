"""
The planner's lookup: table metadata in, answers out.

If the metadata has an ``ndv`` for every column, nothing else is read. Otherwise the statistics file is read for its
sketches, in one request if it is small. The NDV of some partitions is the union of their sketches, which are in private
state. A property of the column's sketch in the table metadata says whether they exist, so no file is opened in vain. If
a file or blob cannot be read, older statistics answer. What reads files is imported when that is needed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from puffin.load import load_table
from puffin.lookup.question import Question
from puffin.statistics.ancestry import KnownSketch, known_sketches
from puffin.statistics.answer import ColumnAnswer, Distinct, PartitionMatch, TableAnswer
from puffin.statistics.resolve import NOT_BY_PARTITION, answer_columns, nearest_partition_sketches
from puffin.tables.arguments import NameOrPath
from puffin.tables.base import Column, SnapshotSelector
from puffin.tables.snapshot import Table, TableSnapshot

if TYPE_CHECKING:
    from puffin.lookup.partition_filter import PartitionFilter
    from puffin.planning.file_plan import FilePlan
    from puffin.statistics.stored_blobs import StoredBlobs


def ndv(
    table: NameOrPath,
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
        columns: This and the next arguments are attributes of `puffin.lookup.Question`, or of its selector.
            ``partitions`` and ``where`` need statistics by partition, which are read from their file.
        catalog: A catalog in pyiceberg's configuration.
        catalog_properties: Properties that override that configuration.

    Returns:
        An answer for each column; a column without statistics has one that says so.

    Raises:
        NotFoundError: There is no such table, snapshot, column or partition field.
        UsageError: As for `puffin.lookup.Question`; the snapshot is named in several ways; or a partition or the filter
            cannot be parsed.
        UnsupportedTypeError: A column's type has no statistics.
        CorruptMetadataError: The table's metadata is corrupt.
        StorageError: The storage or the catalog does not answer.
        MissingDependencyError: A catalog, or a filter that is not simple, needs pyiceberg, which is not installed.
    """
    selector = SnapshotSelector(snapshot_id=snapshot_id, ref=ref, as_of_ms=as_of_ms)
    question = Question(os.fspath(table), columns, selector, max_staleness, partitions, where, manifests)
    return lookup(load_table(table, catalog=catalog, catalog_properties=catalog_properties), question)


def plan(
    table: NameOrPath,
    where: str | None = None,
    *,
    snapshot_id: int | None = None,
    ref: str | None = None,
    as_of_ms: int | None = None,
    catalog: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> FilePlan:
    """
    The data files of a snapshot that can hold rows that match the filter, from metadata, bounds and index.

    Args:
        table: As for `puffin.ndv`, as are the other arguments.
        where: A row filter in pyiceberg's grammar; None for all files.

    Raises:
        NotFoundError: There is no such table, snapshot or column.
        UsageError: The filter cannot be parsed, or its types do not match.
        CorruptMetadataError, UnsupportedTableError, StorageError: The metadata cannot be read.
        MissingDependencyError: A catalog, or a filter that is not simple, needs pyiceberg, which is not installed.
    """
    from puffin.planning.plan import Planner

    selector = SnapshotSelector(snapshot_id=snapshot_id, ref=ref, as_of_ms=as_of_ms)
    loaded = load_table(table, catalog=catalog, catalog_properties=catalog_properties)
    return Planner(loaded.open(selector)).plan(where)


def lookup(table: Table, question: Question) -> TableAnswer:
    """As `ndv`, for a loaded table."""
    return answer_from(table.open(question.selector), question)


def answer_from(opened: TableSnapshot, question: Question) -> TableAnswer:
    """As `ndv`, for a table opened with the question's selector."""
    state = opened.state
    chosen = state.select_columns(question.columns)
    is_selected = _partition_filter(opened, question) if question.is_of_partitions else None
    match = None if is_selected is None else PartitionMatch(None, None)
    if opened.is_empty:
        missing = tuple(ColumnAnswer.missing(column) for column in chosen)
        return TableAnswer(opened.name, state.format, None, missing, match)
    field_ids = [column.field_id for column in chosen]
    known = known_sketches(opened, field_ids)
    if is_selected is None:
        answers = answer_columns(known, chosen, lambda: _stored_blobs(opened, field_ids))
    else:
        answers, match = _answer_partitions(known, chosen, _stored_blobs(opened, field_ids), is_selected)
    if (allowed := question.max_staleness) is not None:
        answers = tuple(_fresh_or_missing(answer, allowed) for answer in answers)
    if question.manifests:
        answers = _with_summaries(opened, answers)
    return TableAnswer(opened.name, state.format, opened.snapshot.snapshot_id, answers, match)


def _partition_filter(opened: TableSnapshot, question: Question) -> PartitionFilter:
    from puffin.lookup.partition_filter import PartitionFilter

    return PartitionFilter(opened, question.partitions, question.where)


def _stored_blobs(opened: TableSnapshot, field_ids: Collection[int]) -> StoredBlobs:
    from puffin.statistics.stored_blobs import StoredBlobs

    return StoredBlobs(opened, field_ids)


def _answer_partitions(
    nearest_first: Mapping[int, Sequence[KnownSketch]],
    columns: Sequence[Column],
    stored: StoredBlobs,
    is_selected: PartitionFilter,
) -> tuple[tuple[ColumnAnswer, ...], PartitionMatch]:
    """The answer for each column, and how many of the partitions with the nearest sketches match."""
    answers = []
    match, nearest = PartitionMatch(None, None), None
    for column in columns:
        found, errors = nearest_partition_sketches(nearest_first[column.field_id], stored)
        if found is None:
            reason = str(errors[0]) if errors else NOT_BY_PARTITION
            answers.append(ColumnAnswer.missing(column, reason).found_after(errors))
            continue
        known, sketches = found
        answers.append(known.answer(Distinct.of(sketches.union(is_selected))).found_after(errors))
        if nearest is None or known.age < nearest:
            nearest, match = known.age, PartitionMatch(sum(map(is_selected, sketches.keys)), len(sketches.keys))
    return tuple(answers), match


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
