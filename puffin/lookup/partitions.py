"""
The NDV of some partitions: the union of their sketches.

The sketches by partition are in private state. A property of the column's sketch in the table metadata says whether
they exist, so no file is opened in vain. If a file or blob cannot be read, older statistics answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from puffin.errors import PuffinError
from puffin.statistics.ancestry import known_sketches
from puffin.statistics.answer import ColumnAnswer, Distinct, PartitionMatch
from puffin.statistics.resolve import nearest_partition_sketches
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.tables.base import Column
from puffin.tables.snapshot import TableSnapshot
from puffin.values.partition_tuples import PartitionKey


def answer_partitions(
    opened: TableSnapshot, columns: Sequence[Column], is_selected: Callable[[PartitionKey], bool]
) -> tuple[tuple[ColumnAnswer, ...], PartitionMatch]:
    """
    The answer for each column, in the order asked, and how many partitions match.

    If columns have sketches of different snapshots, the nearest one provides the count.
    """
    field_ids = [column.field_id for column in columns]
    nearest_first, stored = known_sketches(opened, field_ids), StoredBlobs(opened, field_ids)
    answers = []
    match, nearest = PartitionMatch(None, None), None
    for column in columns:
        errors: list[PuffinError] = []
        found = nearest_partition_sketches(nearest_first[column.field_id], stored, errors)
        if found is None:
            answers.append(ColumnAnswer.missing(column, str(errors[0]) if errors else None).found_after(errors))
            continue
        known, sketches = found
        answers.append(known.answer(Distinct.of(sketches.union(is_selected))).found_after(errors))
        if nearest is None or known.age < nearest:
            nearest, match = known.age, PartitionMatch(sum(map(is_selected, sketches.keys)), len(sketches.keys))
    return tuple(answers), match
