"""
The NDV of some partitions: the union of their sketches.

The columns of a table have the sketches of its partitions beside theirs, in private state. A property of the sketch
that table metadata lists says that they are there, so that no file is opened in vain. A file or blob that cannot be
read leaves the question to an older one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from puffin.errors import PuffinError
from puffin.statistics.answer import ColumnAnswer, PartitionMatch
from puffin.statistics.blob_properties import Distinct
from puffin.statistics.resolve import Ancestry, nearest_partition_sketches, provisional_after
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.tables.base import Column
from puffin.tables.snapshot import TableSnapshot
from puffin.values.partition_tuples import PartitionKey


def answer_partitions(
    opened: TableSnapshot, columns: Sequence[Column], is_meant: Callable[[PartitionKey], bool]
) -> tuple[tuple[ColumnAnswer, ...], PartitionMatch]:
    """
    The answer for each column, in the order asked, and how many partitions it is about.

    These are counted where the sketches of the nearest rows are, if columns have them of different snapshots.
    """
    ancestry = Ancestry(opened)
    stored = StoredBlobs(opened, [column.field_id for column in columns])
    answers = []
    match, nearest = PartitionMatch(None, None), None
    for column in columns:
        errors: list[PuffinError] = []
        found = nearest_partition_sketches(ancestry, column, stored, errors)
        if found is None:
            answers.append(provisional_after(errors, ColumnAnswer.missing(column, str(errors[0]) if errors else None)))
            continue
        known, sketches = found
        answers.append(provisional_after(errors, known.answer(column, Distinct.of(sketches.union(is_meant)))))
        if nearest is None or known.age < nearest:
            nearest, match = known.age, PartitionMatch(sum(map(is_meant, sketches.keys)), len(sketches.keys))
    return tuple(answers), match
