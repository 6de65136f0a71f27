"""Finds the joint sketches of a table's columns, as a lookup reads them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import NamedTuple

from puffin.errors import PuffinError
from puffin.sketches.distribution import Distribution
from puffin.sketches.joint_sketches import JointSketch, JointSketches
from puffin.sketches.row_counts import RowCounts
from puffin.statistics.ancestry import KnownSketch, known_sketches
from puffin.statistics.kinds import JOINT
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.tables.snapshot import TableSnapshot
from puffin.values.value_type import hashes_alike

_log = logging.getLogger(__name__)


class FoundJoint(NamedTuple):
    """The statistics of the tuples of a set of columns, and the sketch beside which they are stored."""

    counts: RowCounts
    distribution: Distribution
    known: KnownSketch


def joint_of(
    opened: TableSnapshot, field_ids: Collection[int]
) -> tuple[Mapping[tuple[int, ...], FoundJoint], list[PuffinError]]:
    """
    The nearest joint sketches of all sets of these columns that have any, by the ascending field ids of the set, and
    why others cannot be read.

    A tuple is hashed in that order of its columns (`puffin.sketches.tuple_hashes`). ``known`` tells of which snapshot
    they are, and how many changes lie between. A set whose columns have changed since is left out.
    """
    stored = StoredBlobs(opened, field_ids)
    found: dict[tuple[int, ...], FoundJoint] = {}
    errors: list[PuffinError] = []
    for each_id, sketches in known_sketches(opened, field_ids).items():
        for known in sketches:
            wanted = [ids for ids in known.properties.joint if ids not in found and set(ids) <= set(field_ids)]
            if not wanted or each_id not in opened.state.columns_by_id:
                continue
            try:
                read = stored.require(known, JOINT)
            except PuffinError as exc:
                _log.warning("column %s: joint sketches cannot be read: %s", known.column.name, exc)
                errors.append(exc)
                continue
            for ids in wanted:
                fitting = fitting_set(opened, read, ids)
                if isinstance(fitting, JointSketch):
                    found[ids] = FoundJoint(fitting.counts, fitting.distribution, known)
    return found, errors


def fitting_set(opened: TableSnapshot, sketches: JointSketches, field_ids: tuple[int, ...]) -> JointSketch | str:
    """The set of these columns, or why its tuples are not those of the columns as they are now."""
    found = sketches.find(field_ids)
    if found is None:
        return "the joint sketch is not where the earlier statistics announce it"
    for each in found.columns:
        column = opened.columns_by_id.get(each.field_id)
        if column is None:
            return "a column of the set is gone"
        if not hashes_alike(each.type, column.type):
            return f"column {column.name} was of type {each.type}, and is of type {column.type}"
        if (reason := opened.state.other_reading(each.mapping, column)) is not None:
            return reason
    return found
