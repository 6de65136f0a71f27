"""
Brings the partial results of Spark's tasks together, so that nothing on the driver grows with their number.

A few small results go to the driver as they are. Otherwise executors merge them: each result is cut into groups of
columns, a shuffle sorts the pieces by group and task, and what arrives is merged one piece after the other. If there
are many tasks, their pieces are merged in segments first, which run side by side. The driver then fetches one result
for each group, a few groups at a time.

Pieces are merged in the order of tasks, so the result does not depend on which task ends first.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from puffin.statistics.aside import Aside, Packed, are_many, pack, unpack
from puffin.statistics.kinds.kind import Values
from stats_jobs.partial import Partial, each_column, merge_partials

if TYPE_CHECKING:
    from pyspark import RDD

_FEW = 512
"""Columns of all tasks together, of which each has some 0.4 MB: below a quarter of ``spark.driver.maxResultSize``."""

_GROUP = 8  # columns that are merged together
_FETCHED = 32  # groups that the driver fetches at once
_MOST_REDUCERS = 1000
_LEAST_PIECES = 16  # that a reducer merges: a Spark task costs about as much by itself as merging a few

Key: TypeAlias = "tuple[int, int, int]"  # group, segment, and the task or the segment that was merged
Piece: TypeAlias = "tuple[Key, bytes]"


@dataclass(frozen=True, slots=True)
class Groups:
    """
    Which pieces are merged together.

    Attributes:
        of_column: The group of each column, by field id.
        weight: The size of a column's values, 1 for the kinds that every table has.
        segment: How many tasks are merged into one segment, before segments are merged.
        pieces: About how many pieces all tasks have; a very large number if unknown.
    """

    of_column: Mapping[int, int]
    weight: int = 1
    segment: int = 64
    pieces: int = 1 << 32

    @classmethod
    def of(cls, field_ids: Iterable[int], weight: int = 1, results: int = 1 << 32) -> Groups:
        """The groups of these columns, if all tasks together have values of so many columns (``results``)."""
        size = max(1, _GROUP // weight)
        of_column = {field_id: place // size for place, field_id in enumerate(sorted(set(field_ids)))}
        return cls(of_column, weight, pieces=math.ceil(results / size))

    def take_as_they_are(self, tasks: int) -> bool:
        """Whether the results of this many tasks are few and small enough to merge on the driver."""
        return tasks * len(self.of_column) * self.weight <= _FEW

    def reducers(self, tasks: int) -> list[int]:
        """How many tasks merge the results of ``tasks``, for each time that they do so."""
        segments = math.ceil(tasks / self.segment)
        found, pieces = [], self.pieces
        for keys in [segments * self.count, self.count] if segments > 1 else [self.count]:
            found.append(min(keys, _MOST_REDUCERS, max(1, math.ceil(pieces / _LEAST_PIECES))))
            pieces = min(pieces, keys)
        return found

    def waves(self) -> list[tuple[int, int]]:
        """The groups that the driver fetches at once: the first, and the one after the last."""
        return [(first, min(first + _FETCHED, self.count)) for first in range(0, self.count, _FETCHED)]

    @property
    def count(self) -> int:
        return max(self.of_column.values(), default=0) + 1

    def cut(self, partial: Partial) -> Iterator[tuple[int, Partial]]:
        """The partial's columns by group; what it says of all columns is in the first piece."""
        for group in sorted({0} | {self.of_column[field_id] for field_id in (*partial.added, *partial.removed)}):
            added = {field_id: v for field_id, v in partial.added.items() if self.of_column[field_id] == group}
            removed = {field_id: v for field_id, v in partial.removed.items() if self.of_column[field_id] == group}
            yield group, replace(partial if group == 0 else Partial(), added=added, removed=removed)


def merged_on_executors(partials: RDD[Partial], groups: Groups) -> Partial:
    """Merge the partial of each of the RDD's partitions, in their order."""
    tasks = partials.getNumPartitions()
    gathered = Gathered(groups)
    if groups.take_as_they_are(tasks):
        return gathered.all(partials.map(dumped).collect())
    merged: RDD[Piece] = partials.mapPartitionsWithIndex(functools.partial(cut, groups))
    for reducers in groups.reducers(tasks):
        merged = _merged(merged, functools.partial(reducer_of, groups.count, reducers), reducers)
    try:
        wave = max(1, _FETCHED * merged.getNumPartitions() // groups.count)
        for start in range(0, merged.getNumPartitions(), wave):
            places = range(start, min(start + wave, merged.getNumPartitions()))
            gathered.all(piece for _, piece in merged.context.runJob(merged, list, places))
    finally:
        _delete_shuffled(merged)
    return gathered.partial


def cut(groups: Groups, task: int, partials: Iterable[Partial]) -> Iterator[Piece]:
    """Cut what a task found into pieces."""
    for partial in partials:
        for group, piece in groups.cut(partial):
            yield (group, task // groups.segment, task), dumped(piece)


def merge_runs(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Merge the pieces, in order, that have the group and the segment in common; the results are of one segment."""
    for (group, segment), run in itertools.groupby(pieces, key=lambda piece: piece[0][:2]):
        merged = functools.reduce(merge_partials, (loaded(content) for _, content in run))
        yield (group, 0, segment), dumped(merged)


def dumped(partial: Partial) -> bytes:
    """Pickle a partial result, each column by itself, so that the driver can keep columns pickled."""
    return pickle.dumps(each_column(partial, pack))


def loaded(piece: bytes, unpacked: Callable[[Packed], Values] = unpack) -> Partial:
    """A partial result from its piece."""
    found: Partial = pickle.loads(piece)  # noqa: S301 - one of our own tasks made it
    return each_column(found, unpacked)


class Gathered:
    """What has come to the driver, merged; the values of many columns are put aside."""

    def __init__(self, groups: Groups) -> None:
        self.partial = Partial()
        self._unpacked, self._put = unpack, None
        if are_many(len(groups.of_column) * groups.weight):
            place = Aside()
            self._unpacked, self._put = place.put_packed, place.put

    def all(self, pieces: Iterable[bytes]) -> Partial:
        """Merge these pieces with what was there; return all."""
        for piece in pieces:
            self.partial = merge_partials(self.partial, loaded(piece, self._unpacked), self._put)
        return self.partial


def reducer_of(groups: int, reducers: int, key: Key) -> int:
    """The reducer that merges the pieces of a group and a segment; these are spread evenly over all reducers."""
    group, segment, _ = key
    return (group + segment * groups) % reducers


def _merged(pieces: RDD[Piece], place: Callable[[Key], int], reducers: int) -> RDD[Piece]:
    shuffled: RDD[Piece] = pieces.repartitionAndSortWithinPartitions(  # type: ignore[call-overload]
        reducers, place
    )  # its stubs do not know that tuples have an order
    return shuffled.mapPartitions(merge_runs)


def _delete_shuffled(merged: RDD[Piece]) -> None:
    """
    Delete what executors have on disk for the merges, so that the next step finds room.

    Spark would do so when the driver's JVM collects its garbage, in half an hour perhaps.
    """
    with contextlib.suppress(Exception):  # an error of the block says more, and Spark deletes it later
        merged._jrdd.rdd().cleanShuffleDependencies(False)
