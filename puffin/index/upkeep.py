"""
Writes the index: new segments beside those that are there, merged by tiers, under a new manifest.

Segments are written first and the manifest last, which makes them the index in one step. If another run was faster, its
manifest is read and the new segments are added to that. Files that no snapshot has any more leave the index at once,
since filters can be probed for values that were to be erased.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Mapping, Sequence, Set

from puffin.errors import GONE_OR_BROKEN, ConflictError
from puffin.index.home import Index, IndexHome
from puffin.index.manifest import IndexManifest, commit
from puffin.index.segment import FilterRows, SegmentEntry, SegmentRows, WrittenSegment, write_segment
from puffin.index.tiers import groups_to_merge

_ATTEMPTS = 10

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class IndexChange:
    """
    What a run makes of the index, whatever other runs made of it meanwhile.

    Attributes:
        rates: The columns that it adds or whose rate it changes, with their rates of false positives.
        dropped: The columns that it takes out.
        new: Segments that it has written.
        gone: Files that no snapshot of the table has any more.
    """

    table_uuid: str | None
    rates: Mapping[str, float]
    dropped: Set[str]
    new: Sequence[SegmentEntry]
    gone: Set[str]

    def applied(self, base: Index) -> IndexManifest:
        """The manifest after a base, without the segments that cannot be read or are of another rate."""
        rates = {**base.manifest.columns, **self.rates}
        columns = {column: rate for column, rate in rates.items() if column not in self.dropped}
        segments = tuple(s for s in (*base.segments, *self.new) if columns.get(s.column.key) == s.column.fpp)
        return IndexManifest(base.manifest.version, self.table_uuid, columns, segments)


def publish(home: IndexHome, base: Index, change: IndexChange) -> Index:
    """
    Put the manifest that names the new segments, then merge those that are due; nothing if nothing changes.

    Raises ConflictError if other runs were faster again and again, StorageError, CommitUnknownError, and
    UnsupportedError if the store cannot put a file only once.
    """
    unreadable = {segment.id for segment in base.manifest.segments} - base.classes.keys()
    for _ in range(_ATTEMPTS):
        made = change.applied(base)
        if made == base.manifest:
            return _merged(home, base, change.gone)
        try:
            committed = commit(made, home.directory, home.store)
        except ConflictError:
            base = home.read(known=base).without(unreadable)
        else:
            return _merged(home, home.with_classes(committed, base), change.gone)
    raise ConflictError(f"{home.directory}: other runs changed the index {_ATTEMPTS} times meanwhile; run again")


def _merged(home: IndexHome, index: Index, gone: Set[str]) -> Index:
    """Merge segments until none is due, and take out files that are gone; another run may be faster at any step."""
    failed: set[str] = set()
    for _ in range(_ATTEMPTS):
        mergeable = [segment for segment in index.segments if segment.id not in failed]
        groups = groups_to_merge(mergeable, index.having(gone))
        if not groups:
            break
        left = {segment.id: WrittenSegment(segment, index.classes[segment.id]) for segment in index.segments}
        for group in groups:
            try:
                made = _merge(home, index, group, gone)
            except GONE_OR_BROKEN as exc:
                _log.warning("index segments are not merged: %s", exc)
                failed |= {segment.id for segment in group}
                continue
            left = {id_: written for id_, written in left.items() if written.entry not in group}
            left |= {} if made is None else {made.entry.id: made}
        merged = dataclasses.replace(index.manifest, segments=tuple(written.entry for written in left.values()))
        try:
            committed = commit(merged, home.directory, home.store)
            index = Index(committed, {id_: written.classes for id_, written in left.items()})
        except ConflictError:
            index = home.read(known=index)
    return index


def _merge(home: IndexHome, index: Index, group: Sequence[SegmentEntry], gone: Set[str]) -> WrittenSegment | None:
    with contextlib.ExitStack() as open_files:
        rows: list[FilterRows] = []
        taken = set(gone)
        for segment in group:
            source = open_files.enter_context(home.open_segment(segment.id))
            for size_class in index.classes[segment.id]:
                kept = [i for i, path in enumerate(size_class.files) if path not in taken]
                taken.update(size_class.files)
                rows += [SegmentRows(source, size_class, kept)] if kept else []
        return write_segment(group[0].column, rows, home.directory, home.store) if rows else None
