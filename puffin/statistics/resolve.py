"""
Answers for the columns of a snapshot from the statistics of its ancestry, and from sketches without an ``ndv``.

The sketch of the nearest rows wins. Sketches that Trino extended and that may lack changes come last. Most answers
are in the properties of sketches, and what reads files is imported when the first one has to be read.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from puffin.errors import PuffinError, UnsupportedError
from puffin.sketches.sizes import DEFAULT_LG_K
from puffin.statistics.ancestry import KnownSketch
from puffin.statistics.answer import ColumnAnswer, Distinct
from puffin.tables.base import Column

if TYPE_CHECKING:
    from puffin.sketches.partition_sketches import PartitionSketches
    from puffin.statistics.stored_blobs import StoredBlobs

NOT_BY_PARTITION = (
    "no statistics by partition: run puffin analyze --partitions (in Python partitions=True) on a partitioned table"
)


def answer_columns(
    known: Mapping[int, Sequence[KnownSketch]], columns: Iterable[Column], stored: Callable[[], StoredBlobs]
) -> tuple[ColumnAnswer, ...]:
    """
    The answer for each column, in the order given, from what is known by field id.

    Our own sketches always have an ``ndv``, so only those of other engines are read, from the blobs that ``stored``
    returns. If a file is gone or broken, an older entry answers. Of an abridged entry of ours the footer is read; if it
    cannot be, bounds are nominal.
    """
    blobs = functools.cache(stored)
    return tuple(_answer(known[column.field_id], column, blobs) for column in columns)


def nearest_partition_sketches(
    known: Iterable[KnownSketch], stored: StoredBlobs
) -> tuple[tuple[KnownSketch, PartitionSketches] | None, list[PuffinError]]:
    """
    The nearest partition sketches of a column that are readable and of its values, and what is wrong with nearer ones.

    A property in table metadata announces them, so that no file is opened in vain.
    """
    from puffin.statistics.kinds import PARTITION_SKETCHES

    errors: list[PuffinError] = []
    for each in known:
        if each.properties.partitions is None:
            continue
        doubt = each.mapping_changed or each.other_partitions
        if doubt is not None:
            errors.append(UnsupportedError(doubt))
            continue
        try:
            return (each, stored.require(each, PARTITION_SKETCHES)), errors
        except PuffinError as exc:
            errors.append(exc)
    return None, errors


def _answer(known: Sequence[KnownSketch], column: Column, stored: Callable[[], StoredBlobs]) -> ColumnAnswer:
    errors: list[PuffinError] = []
    whole = (each for each in known if not each.may_lack_changes)
    for each in itertools.chain(whole, (each for each in known if each.may_lack_changes)):
        if each.mapping_changed is not None:
            errors.append(UnsupportedError(each.mapping_changed))
            continue
        distinct = _stated(each, known)
        if distinct is None:
            try:
                distinct = _read(each, stored())
            except PuffinError as exc:
                errors.append(exc)
                distinct = each.properties.distinct
        if distinct is not None:
            errors += [] if each.footer_error is None else [each.footer_error]
            return each.answer(distinct).with_summary(each.summary).found_after(errors)
    return ColumnAnswer.missing(column, str(errors[0]) if errors else None).found_after(errors)


def _read(known: KnownSketch, stored: StoredBlobs) -> Distinct:
    from puffin.statistics.kinds import THETA

    return Distinct.of(stored.require(known, THETA), is_foreign=True)


def _stated(each: KnownSketch, known: Iterable[KnownSketch]) -> Distinct | None:
    """The estimate in a sketch's properties; None without one, or if the sketch's size is in doubt."""
    if not each.properties.is_ours and any(other.properties.lg_k != DEFAULT_LG_K for other in known):
        return None  # an engine that extends our sketch keeps its size, and does not note it
    return each.properties.distinct
