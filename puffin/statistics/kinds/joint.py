"""
Joint sketches of sets of columns, kept with the first column of each set: the one with the lowest field id.

A property of that column's sketch announces the sets. A set needs the rows of all of its columns side by side.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from puffin.format import JOINT_V1
from puffin.sketches.joint_sketches import JointColumn, JointSketch, JointSketches
from puffin.sketches.tuple_hashes import tuple_hashes
from puffin.statistics.blob_properties import JOINT_PROPERTY, joint_text
from puffin.statistics.kinds.distribution import DISTRIBUTION, DistributionKind
from puffin.statistics.kinds.kind import Builder, Kind, Need, Parts, Values
from puffin.statistics.kinds.row_counts import ROW_COUNTS, RowCountsKind
from puffin.statistics.kinds.theta import THETA
from puffin.tables.base import Column
from puffin.values.serialized import Words


@dataclasses.dataclass(frozen=True, eq=False)
class JointKind(Kind[JointSketches]):
    """The joint sketches of ``sets``, which all begin with one column; the field ids of each ascend."""

    sets: tuple[tuple[Column, ...], ...] = ()

    name = JOINT_V1
    title = "joint sketches"
    needs = frozenset((Need.ROWS_OF_COLUMNS,))
    codec = JointSketches
    is_default = False

    @property
    def side_by_side(self) -> frozenset[int]:
        return frozenset(column.field_id for columns in self.sets for column in columns)

    def start(self) -> Builder[JointSketches]:
        return _Builder(tuple(_SetBuilder(columns, self.lg_k) for columns in self.sets))

    def merge(self, left: JointSketches, right: JointSketches) -> JointSketches:
        merged = {each.field_ids: each for each in left}
        for each in right:  # two scans may read different sets that begin with the same column
            other = merged.get(each.field_ids)
            merged[each.field_ids] = each if other is None else self._merged(other, each)
        return JointSketches.of(merged.values())

    def updated(self, base: JointSketch | None, added: JointSketch | None, removed: JointSketch | None) -> JointSketch:
        """
        The one set of this kind after rows were added and removed; None stands for no rows.

        Raises Unsubtractable if the rows cannot be subtracted, or too many were.
        """
        (columns,) = self.sets
        counts, distribution = _kinds(self.lg_k)
        nothing = _SetBuilder(columns, self.lg_k).compact()
        parts = Parts(*(_values(each or nothing) for each in (base, added, removed)))
        made: dict[Kind[Any], Any] = {}
        for kind in (counts, dataclasses.replace(THETA, lg_k=self.lg_k), distribution):  # a sketch must come out
            made[kind] = kind.combined(parts, made)
        return JointSketch(nothing.columns, made[counts], made[distribution])

    def properties(self, values: Values, type_: str) -> dict[str, str]:
        return {JOINT_PROPERTY: joint_text(each.field_ids for each in values[self])}

    def _merged(self, left: JointSketch, right: JointSketch) -> JointSketch:
        counts, distribution = _kinds(self.lg_k)
        of_both = distribution.merge(left.distribution, right.distribution)
        return JointSketch(left.columns, counts.merge(left.counts, right.counts), of_both)


def _kinds(lg_k: int) -> tuple[RowCountsKind, DistributionKind]:
    """The kinds of what a set has: those of a column, without values."""
    return dataclasses.replace(ROW_COUNTS, lg_k=lg_k), dataclasses.replace(DISTRIBUTION, lg_k=lg_k, keeps_values=False)


def _values(sketch: JointSketch) -> Values:
    return {ROW_COUNTS: sketch.counts, DISTRIBUTION: sketch.distribution}


class _Builder:
    def __init__(self, sets: tuple[_SetBuilder, ...]) -> None:
        self._sets = sets

    def update_rows(self, arrays: Mapping[int, pa.Array]) -> None:
        for each in self._sets:
            each.update_rows(arrays)

    def compact(self) -> JointSketches:
        return JointSketches.of(each.compact() for each in self._sets)


class _SetBuilder:
    def __init__(self, columns: tuple[Column, ...], lg_k: int) -> None:
        self._columns = columns
        counts, distribution = _kinds(lg_k)
        self._counts, self._distribution = counts.start(), distribution.start()

    def update_rows(self, arrays: Mapping[int, pa.Array]) -> None:
        if not all(column.field_id in arrays for column in self._columns):
            return
        hashes = tuple_hashes([arrays[c.field_id] for c in self._columns], [c.type for c in self._columns])
        self._distribution.update_hashed(hashes, None, Words(hashes, None, 8))
        self._counts.update_hashes(hashes)

    def compact(self) -> JointSketch:
        columns = tuple(JointColumn(column.field_id, column.type) for column in self._columns)
        return JointSketch(columns, self._counts.compact(), self._distribution.compact())


JOINT = JointKind()
