"""
What table metadata knows of the sketches of a snapshot and its ancestors, found once for all that ask.

Ancestry decides, not time: statistics of another branch, or of a snapshot that was rolled back, do not apply. An entry
may keep a blob of an older snapshot than its own, so the blob's snapshot counts.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from puffin.cached import cached_property
from puffin.errors import PuffinError
from puffin.statistics.answer import ANCESTOR, SNAPSHOT, UNKNOWN_FRESHNESS, ColumnAnswer, Distinct, Freshness
from puffin.statistics.blob_properties import SketchProperties
from puffin.statistics.footers import Footers
from puffin.tables.base import BlobEntry, Column, Snapshot, StatisticsEntry
from puffin.tables.snapshot import TableSnapshot
from puffin.tables.state import TableState
from puffin.values.column_summary import ColumnSummary, JsonValue, known_sum
from puffin.values.value_type import hashes_alike


@dataclasses.dataclass(frozen=True, eq=False)
class KnownSketch:
    """
    A sketch in table metadata, and what the metadata tells of it.

    Attributes:
        opened: The snapshot asked for.
        footers: Reads what its entry leaves to the file.
        extensions: Judges sketches that Trino extended.
        snapshot: The one whose rows were counted; None if the table no longer has it.
        age: How many snapshots lie between those rows and the ones asked for.
        freshness: What these snapshots changed.
    """

    opened: TableSnapshot
    footers: Footers
    extensions: _Extensions
    entry: StatisticsEntry
    blob: BlobEntry
    snapshot: Snapshot | None
    age: int
    freshness: Freshness

    @cached_property
    def properties(self) -> SketchProperties:
        """The properties of the blob, those that only the file has as far as it can be read."""
        return SketchProperties(
            self.blob.properties, lambda: {} if isinstance(self._footer, PuffinError) else self._footer
        )

    @property
    def footer_error(self) -> PuffinError | None:
        """Why properties that only the file has cannot be read, or None."""
        return self._footer if self.properties.is_abridged and isinstance(self._footer, PuffinError) else None

    @property
    def column(self) -> Column:
        """The column as the snapshot asked for has it; it must be a primitive one of the current schema."""
        return self.opened.columns_by_id[self.blob.field_id]

    @cached_property
    def type(self) -> str | None:
        """The type as which the values were hashed; None if unknown."""
        return self.properties.type or self.opened.state.column_type_at(self.snapshot, self.blob.field_id)

    @property
    def summary(self) -> ColumnSummary | None:
        """Its summary, without the sizes of another type than the column has now; its values as they were promoted."""
        found = self.properties.summary
        if found is None or self.type is None or self.type == self.column.type:
            return found
        if hashes_alike(self.type, self.column.type):
            return found
        return dataclasses.replace(
            found, min=self._promoted(found.min), max=self._promoted(found.max), total_bytes=None
        )

    @property
    def is_promoted(self) -> bool:
        """Whether its values are those of the column, whose type has been promoted since."""
        return self._has_promoted_values and self.mapping_doubt is None

    @property
    def _has_promoted_values(self) -> bool:
        return self.type is not None and self.opened.state.promotes_values(self.type, self.column)

    def _promoted(self, bound: JsonValue) -> JsonValue:
        if bound is None or self.type is None or not self._has_promoted_values:
            return None
        from puffin.values.stored_bounds import promoted_bound  # needs pyarrow, which a lookup does without

        return promoted_bound(self.type, self.column.type, bound)

    @cached_property
    def may_lack_changes(self) -> bool:
        """Whether Trino extended it without the rows that others added or removed before."""
        return self.extensions.may_lack_changes(self.blob)

    @cached_property
    def mapping_changed(self) -> str | None:
        """Why files give other values for the column today, or None; see `TableState.other_reading`."""
        return self.opened.state.other_reading(self.properties.provenance.mapping, self.column)

    @cached_property
    def column_mismatch(self) -> str | None:
        """Why its hashes are not those of the column as it is now, or may not be; None if they are."""
        if self.type is None or not hashes_alike(self.type, self.column.type):
            return f"the earlier sketch is of type {self.type}, the column of type {self.column.type}"
        return self.mapping_doubt

    @property
    def mapping_doubt(self) -> str | None:
        """Why files may give other values for the column today, or None."""
        is_certain = self.properties.is_ours or self.opened.state.name_mapping is None
        if self.mapping_changed is None and not is_certain:
            return "the table has a name mapping, and nobody noted whether the earlier sketch depends on it"
        return self.mapping_changed

    @property
    def other_partitions(self) -> str | None:
        """Why the partitions beside it are not those of the snapshot asked for, or None."""
        return None if self.snapshot is None else self.opened.other_partitions(self.snapshot)

    def answer(self, distinct: Distinct) -> ColumnAnswer:
        return ColumnAnswer(
            self.column,
            distinct,
            self.blob.snapshot_id,
            SNAPSHOT if self.age == 0 else ANCESTOR,
            freshness=self.freshness,
            statistics_path=self.entry.statistics_path,
        )

    @cached_property
    def _footer(self) -> Mapping[str, str] | PuffinError:
        return self.footers.find(self.entry, self.blob)


def known_sketches(
    opened: TableSnapshot, field_ids: Collection[int] | None = None
) -> Mapping[int, Sequence[KnownSketch]]:
    """
    The sketches of each of these fields (None for all that have any) in the entries of a snapshot and its ancestors.

    The nearest rows come first, of equal rows the nearest entry.
    """
    state = opened.state
    ancestors = tuple(state.ancestors(opened.snapshot.snapshot_id))
    by_id = {
        ancestor.snapshot_id: (ancestor, age, freshness)
        for age, (ancestor, freshness) in enumerate(zip(ancestors, _since_each(ancestors), strict=True))
    }
    # A blob from a snapshot that is no longer known is older than every ancestor that is.
    unknown = None, len(ancestors), UNKNOWN_FRESHNESS
    entries = [state.statistics[a.snapshot_id] for a in ancestors if a.snapshot_id in state.statistics]
    shared = opened, Footers(opened), _Extensions(state)
    sketches = {}
    for field_id in {id_ for entry in entries for id_ in entry.sketches} if field_ids is None else field_ids:
        found = ((entry, entry.sketches[field_id]) for entry in entries if field_id in entry.sketches)
        known = [KnownSketch(*shared, *each, *by_id.get(each[1].snapshot_id, unknown)) for each in found]
        sketches[field_id] = sorted(known, key=lambda each: each.age)
    return sketches


def nearest_entries(opened: TableSnapshot, field_ids: Collection[int]) -> list[StatisticsEntry]:
    """The entries of ancestors that have the nearest sketches of these fields, nearest first."""
    state, own_id = opened.state, opened.snapshot.snapshot_id
    known = known_sketches(opened, field_ids)
    nearest = {of_field[0].entry.snapshot_id for of_field in known.values() if of_field} - {own_id}
    return [state.statistics[a.snapshot_id] for a in state.ancestors(own_id) if a.snapshot_id in nearest]


def _since_each(ancestors: Iterable[Snapshot]) -> Iterator[Freshness]:
    """What changed after each snapshot, the nearest first."""
    since = Freshness(0, 0, 0, 0)
    for ancestor in ancestors:
        yield since
        if not ancestor.keeps_rows:
            since = Freshness(
                (since.snapshots_behind or 0) + 1,
                known_sum((since.records_added, ancestor.added_records)),
                known_sum((since.records_deleted, ancestor.deleted_records)),
                known_sum((since.most_deleted, ancestor.most_deleted_records)),
            )


class _Extensions:
    """
    Tells whether a sketch may lack changes before its snapshot; ours and those of ANALYZE do not.

    Trino 476 adds the rows of an INSERT to the sketch of the nearest ancestor that has one, and stores the sum for the
    new snapshot. It lacks rows that other writers added or removed in between without statistics: 1,010 instead of
    1,510. Table metadata shows that as long as it has those snapshots. A sketch lacks what the one that it extends
    lacks, and there may be thousands of them in a row: each is looked at once.
    """

    def __init__(self, state: TableState) -> None:
        self._state = state
        self._judged: dict[tuple[int, int], bool] = {}  # by field and snapshot

    def may_lack_changes(self, blob: BlobEntry) -> bool:
        extended: dict[tuple[int, int], None] = {}
        verdict = None
        while verdict is None:
            key = blob.field_id, blob.snapshot_id
            snapshot = self._state.snapshots.get(blob.snapshot_id)
            if SketchProperties(blob.properties).is_ours or snapshot is None or not snapshot.is_trino_insert:
                verdict = False
            elif key in self._judged:
                verdict = self._judged[key]
            else:
                base = self._base_of(snapshot, blob)
                if base is None or key in extended:
                    verdict = snapshot.parent_id is not None
                else:
                    extended[key] = None
                    blob = base
        self._judged.update(dict.fromkeys(extended, verdict))
        return verdict

    def _base_of(self, snapshot: Snapshot, blob: BlobEntry) -> BlobEntry | None:
        """The sketch that has all rows of a snapshot's parent, past compactions."""
        same_rows: list[int] = []
        for ancestor in itertools.islice(self._state.ancestors(snapshot.snapshot_id), 1, None):
            same_rows.append(ancestor.snapshot_id)
            entry = self._state.statistics.get(ancestor.snapshot_id)
            base = None if entry is None else entry.sketches.get(blob.field_id)
            if base is not None and base.snapshot_id in same_rows:
                return base
            if not ancestor.keeps_rows:
                return None
        return None
