"""
Plan the joint sketches of sets of columns: what they are built on, and which files to read.

A set that was asked for once is kept: each later run that rewrites the sketch of its first column brings the set up to
date, with the same reading if the set is as old as the columns. A set goes if a column of it is gone or has another
type, or if the run was not told of it and would have to read every row for it alone.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from puffin.errors import UnsupportedError, UsageError
from puffin.sketches.joint_sketches import JointColumn, JointSketch
from puffin.statistics.ancestry import KnownSketch
from puffin.statistics.basis import READ_ALL, ColumnPlan, Unfit, nearest_fit
from puffin.statistics.joint import fitting_set
from puffin.statistics.kinds import JOINT
from puffin.statistics.kinds.joint import JointKind
from puffin.statistics.private_state.blobs import KeptBlob
from puffin.tables.base import Column
from puffin.tables.changes import Changes
from puffin.tables.snapshot import TableSnapshot
from puffin.values.value_type import is_hashable
from stats_jobs.options import FULL, INCREMENTAL, Options
from stats_jobs.partial import Partial
from stats_jobs.target import Target

_log = logging.getLogger(__name__)

ColumnSet: TypeAlias = tuple[Column, ...]
"""Columns in the order of their field ids."""


@dataclasses.dataclass(frozen=True, slots=True)
class JointPlan:
    """
    How to get the joint sketch of a set of columns.

    Attributes:
        mappings: The digest of the table's name mapping for each column.
        base, base_id, changes: As in `ColumnPlan`.
        kept: Where the base is stored, if that stays as it is.
        reason: Why every row is read.
    """

    columns: ColumnSet
    mappings: tuple[str | None, ...]
    base: JointSketch | None = None
    base_id: int | None = None
    changes: Changes | None = None
    kept: KeptBlob | None = None
    reason: str | None = None

    @property
    def first(self) -> Column:
        return self.columns[0]

    @property
    def field_ids(self) -> tuple[int, ...]:
        return tuple(column.field_id for column in self.columns)

    @property
    def is_carried(self) -> bool:
        return self.changes is not None and not (self.changes.added or self.changes.removed)

    def kind(self, lg_k: int) -> JointKind:
        return JointKind(lg_k, (self.columns,))

    def sketch(self, partial: Partial, lg_k: int) -> JointSketch:
        """Combine the base with what was read; raises as `JointKind.updated`."""
        if self.is_carried and self.base is not None:
            return self.base
        added, removed = (self._part(of.get(self.first.field_id, {})) for of in (partial.added, partial.removed))
        found = self.kind(lg_k).updated(self.base, added, removed)
        before = [None] * len(self.columns) if self.base is None else [each.mapping for each in self.base.columns]
        columns = tuple(
            JointColumn(c.field_id, c.type, digest if c.is_absent or c.field_id in partial.mapped else mapping)
            for c, digest, mapping in zip(self.columns, self.mappings, before, strict=True)
        )
        return dataclasses.replace(found, columns=columns)

    def in_full(self, reason: str) -> JointPlan:
        return JointPlan(self.columns, self.mappings, reason=reason)

    def _part(self, values: Mapping[Any, Any]) -> JointSketch | None:
        found = JOINT.of(values)
        return None if found is None else found.find(self.field_ids)


@dataclasses.dataclass(frozen=True, slots=True)
class JointPlans:
    """
    The plan of each set, why sets were left behind, and the field ids of columns whose stored sets are dropped.
    """

    plans: tuple[JointPlan, ...] = ()
    left_behind: Mapping[ColumnSet, str] = dataclasses.field(default_factory=dict)
    dropped: frozenset[int] = frozenset()


def asked_sets(opened: TableSnapshot, options: Options) -> tuple[ColumnSet, ...]:
    """The sets of columns that the options name; raises as `TableState.select_columns`, and UsageError."""
    found = []
    for text in options.joint:
        columns = _selected(opened, names := text.split("+"))
        if len(columns) != len(names):
            raise UsageError(f"joint: expected distinct columns, found {text!r}")
        found.append(_ordered(columns))
    return tuple(dict.fromkeys(found))


def columns_of(opened: TableSnapshot, options: Options) -> tuple[Column, ...]:
    """
    The columns that get statistics: those of the options, and those of the sets that they name.

    Raises UnsupportedError if the rows of the snapshot have another type for one of these, as before a CREATE OR
    REPLACE. Unless columns are named, such a column is left out.
    """
    named = tuple(column for each in asked_sets(opened, options) for column in each)
    chosen = dict.fromkeys((*_selected(opened, options.columns), *named))
    for column in [each for each in chosen if each.field_id in opened.unreadable]:
        types = opened.unreadable[column.field_id]
        if options.columns is not None or column in named:
            raise UnsupportedError(f"{opened.name}: column {column.name}: {types}")
        _log.warning("%s: column %s is left out: %s", opened.name, column.name, types)
        del chosen[column]
    return tuple(chosen)


def wanted_sets(target: Target) -> dict[int, tuple[ColumnSet, ...]]:
    """The sets to keep by the field id of their first column: those asked for, and those that our sketch announces."""
    by_id = {id_: each for id_, each in target.opened.columns_by_id.items() if id_ not in target.opened.unreadable}
    found: dict[int, dict[ColumnSet, None]] = {}
    for columns in asked_sets(target.opened, target.options):
        found.setdefault(columns[0].field_id, {})[columns] = None
    for column in () if target.options.no_joint else target.columns:
        for field_ids in _announced(target, column):
            there = [by_id[field_id] for field_id in field_ids if field_id in by_id]
            if len(there) == len(field_ids) and all(is_hashable(each.type) for each in there):
                found.setdefault(column.field_id, {})[_ordered(there)] = None
            else:
                _log.warning("column %s: a joint sketch is dropped with a column of its set", column.name)
    return {field_id: tuple(sets) for field_id, sets in found.items()}


def has_other_sets(target: Target, wanted: Mapping[int, Sequence[ColumnSet]]) -> bool:
    """Whether the sketches of the snapshot announce fewer sets than wanted, or some that are to be dropped."""
    announced = {field_id: set(known.properties.joint) for field_id, known in target.current.items()}
    lacking = (not {_ids(each) for each in sets} <= announced.get(id_, set()) for id_, sets in wanted.items())
    return any(lacking) or bool(_dropped(target, wanted))


def plan_joint(
    target: Target,
    columns: Iterable[ColumnPlan],
    wanted: Mapping[int, Sequence[ColumnSet]],
    rewritten: Collection[int],
) -> JointPlans:
    """
    Plan the sets of each column, beside the plan of the column itself.

    ``rewritten`` has the field ids of columns whose stored sketches are written again even if they are current.

    Raises UnsupportedError if the run is incremental and a set that was asked for has no base.
    """
    asked = set(asked_sets(target.opened, target.options))
    plans: list[JointPlan] = []
    left_behind: dict[ColumnSet, str] = {}
    for column in columns:
        sets = wanted.get(column.column.field_id, ())
        if not sets or (column.column.field_id not in rewritten and _are_stored(target, column, sets)):
            continue
        made: list[JointPlan] = []
        for each in sets:
            plan, reason = _plan(target, each)
            if plan is None and (each in asked or (column.basis == READ_ALL and target.options.mode != INCREMENTAL)):
                target.check_not_incremental([(each[0], f"joint sketch of {name_of(each)}: {reason}")])
                plan = JointPlan(each, _digests(target, each), reason=reason)
            if plan is not None:
                made.append(plan)
            else:
                left_behind[each] = f"it was not asked for, and {reason}"
                _log.warning("joint sketch of %s is left behind: %s", name_of(each), reason)
        plans += _with_kept(target, made)
    return JointPlans(tuple(plans), left_behind, _dropped(target, wanted))


def name_of(columns: ColumnSet) -> str:
    """The set as ``--joint`` takes it."""
    return "+".join(column.name for column in columns)


def _plan(target: Target, columns: ColumnSet) -> tuple[JointPlan | None, str]:
    if target.options.mode == FULL:
        return JointPlan(columns, _digests(target, columns), reason="asked for"), ""
    first = columns[0]
    known = [each for each in target.known[first.field_id] if _ids(columns) in each.properties.joint]

    def plan_on(each: KnownSketch) -> JointPlan:
        if each.snapshot is None:
            raise Unfit("the snapshot of its earlier joint sketch has expired, or is of another branch")
        if each.properties.lg_k != target.options.lg_k:
            raise Unfit(f"the earlier joint sketch has lg-k {each.properties.lg_k}, expected {target.options.lg_k}")
        base = fitting_set(target.opened, target.blobs.require(each, JOINT), _ids(columns))
        if isinstance(base, str):
            raise Unfit(base)
        changes = target.opened.changes_since(each.snapshot).narrowed
        return JointPlan(columns, _digests(target, columns), base, each.snapshot.snapshot_id, changes)

    plan, reasons = nearest_fit(known, first, "joint sketches", plan_on)
    return plan, reasons[0] if reasons else "there is no earlier joint sketch of these columns"


def _with_kept(target: Target, plans: Sequence[JointPlan]) -> list[JointPlan]:
    """The plans of a column, with the place of its stored sets if these stay exactly as they are."""
    if not plans or not all(plan.is_carried for plan in plans) or len({plan.base_id for plan in plans}) != 1:
        return list(plans)
    base_id, ids = plans[0].base_id, {plan.field_ids for plan in plans}
    of_base = (k for k in target.known[plans[0].first.field_id] if k.snapshot and k.snapshot.snapshot_id == base_id)
    known = next((each for each in of_base if set(each.properties.joint) == ids), None)
    kept = None if known is None else target.blobs.where_stored(known, JOINT)
    return [dataclasses.replace(plan, kept=kept) for plan in plans]


def _are_stored(target: Target, plan: ColumnPlan, sets: Sequence[ColumnSet]) -> bool:
    """Whether the column's stored sketch of this snapshot stays, with these sets beside it."""
    known = target.current.get(plan.column.field_id)
    if known is None or plan.basis == READ_ALL or plan.base_id != target.opened.snapshot.snapshot_id:
        return False
    return known.properties.joint == tuple(sorted(_ids(each) for each in sets))


def _digests(target: Target, columns: ColumnSet) -> tuple[str | None, ...]:
    return tuple(map(target.opened.state.mapping_digest, columns))


def _dropped(target: Target, wanted: Mapping[int, Sequence[ColumnSet]]) -> frozenset[int]:
    """The columns whose sketches of the snapshot announce sets that nobody wants any more."""
    if not target.options.no_joint:
        return frozenset()
    sets = {field_id: {_ids(each) for each in of} for field_id, of in wanted.items()}
    return frozenset(id_ for id_, known in target.current.items() if set(known.properties.joint) - sets.get(id_, set()))


def _announced(target: Target, column: Column) -> tuple[tuple[int, ...], ...]:
    """The sets beside our nearest sketch of a column."""
    ours = (known for known in target.known[column.field_id] if known.properties.is_ours)
    nearest = next(ours, None)
    return () if nearest is None else nearest.properties.joint


def _selected(opened: TableSnapshot, names: Sequence[str] | None) -> list[Column]:
    return [opened.columns_by_id[column.field_id] for column in opened.state.select_columns(names)]


def _ordered(columns: Iterable[Column]) -> ColumnSet:
    return tuple(sorted(columns, key=lambda column: column.field_id))


def _ids(columns: ColumnSet) -> tuple[int, ...]:
    return tuple(column.field_id for column in columns)
