"""
Answers for the columns of a snapshot from the statistics of its ancestry, and from sketches without an ``ndv``.

The sketch of the nearest rows wins. Sketches that Trino extended and that may lack changes come last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from puffin.errors import PuffinError, UnsupportedError
from puffin.sketches.partition_sketches import PartitionSketches
from puffin.sketches.theta_sketch import DEFAULT_LG_K
from puffin.statistics.ancestry import KnownSketch
from puffin.statistics.answer import ColumnAnswer, Distinct
from puffin.statistics.kinds import PARTITION_SKETCHES, THETA
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.tables.base import Column


def answer_columns(
    known: Mapping[int, Sequence[KnownSketch]], columns: Iterable[Column], stored: StoredBlobs
) -> tuple[ColumnAnswer, ...]:
    """
    The answer for each column, in the order given, from what is known by field id.

    Our own sketches always have an ``ndv``, so only those of other engines are read. If a file is gone or broken, an
    older entry answers.
    """
    return tuple(_answer(known[column.field_id], column, stored) for column in columns)


def nearest_partition_sketches(
    known: Iterable[KnownSketch], stored: StoredBlobs, errors: list[PuffinError]
) -> tuple[KnownSketch, PartitionSketches] | None:
    """
    The nearest readable partition sketches of a column; appends what is wrong with nearer ones to ``errors``.

    A property in table metadata announces them, so that no file is opened in vain.
    """
    for each in known:
        if each.said.partitions is not None:
            try:
                return each, stored.require(each, PARTITION_SKETCHES)
            except PuffinError as exc:
                errors.append(exc)
    return None


def _answer(known: Sequence[KnownSketch], column: Column, stored: StoredBlobs) -> ColumnAnswer:
    errors: list[PuffinError] = []
    for each in sorted(known, key=lambda each: each.may_lack_changes):
        if each.misreading is not None:
            errors.append(UnsupportedError(each.misreading))
            continue
        distinct = _stated(each, known)
        if distinct is None:
            try:
                sketch = stored.require(each, THETA)
                distinct = Distinct.foreign(sketch)
            except PuffinError as exc:
                errors.append(exc)
                distinct = each.said.distinct
        if distinct is not None:
            return each.answer(distinct).with_summary(each.said.summary).found_after(errors)
    return ColumnAnswer.missing(column, str(errors[0]) if errors else None).found_after(errors)


def _stated(each: KnownSketch, known: Iterable[KnownSketch]) -> Distinct | None:
    """The estimate in a sketch's properties; None without one, or if the sketch's size is in doubt."""
    if not each.said.is_ours and any(other.said.lg_k != DEFAULT_LG_K for other in known):
        return None  # an engine that extends our sketch keeps its size, and does not note it
    return each.said.distinct
