"""
Writes the index: new segments beside those that are there, merged by tiers, under a new manifest.

Segments are written first and the manifest last, which makes them the index in one step. If another run was faster, its
manifest is read and the new segments are added to that. Files that no snapshot has any more leave the index at once,
since filters can be probed for values that were to be erased.

Segments whose manifest has certainly not been put are deleted, or they would keep a full disk full.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence, Set

from puffin.errors import GONE_OR_BROKEN, CommitUnknownError, ConflictError, PuffinError
from puffin.index.home import Index, IndexHome
from puffin.index.manifest import IndexManifest, commit
from puffin.index.segment import FilterRows, SegmentEntry, SegmentRows, WrittenSegment, segment_uri, write_segment
from puffin.index.tiers import groups_to_merge
from puffin.statistics.private_state.deletion import delete_files

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
    """

    table_uuid: str | None
    rates: Mapping[str, float]
    dropped: Set[str]
    new: Sequence[SegmentEntry]

    def applied(self, base: Index) -> IndexManifest:
        """The manifest after a base, without the segments that cannot be read or are of another rate."""
        rates = {**base.manifest.columns, **self.rates}
        columns = {column: rate for column, rate in rates.items() if column not in self.dropped}
        segments = tuple(s for s in (*base.segments, *self.new) if columns.get(s.column.key) == s.column.fpp)
        return IndexManifest(base.manifest.version, self.table_uuid, columns, segments)


@contextlib.contextmanager
def discarding(home: IndexHome, segments: Sequence[SegmentEntry]) -> Iterator[None]:
    """Delete these segments, also those that the block adds, if it fails and has not put their manifest."""
    try:
        yield
    except CommitUnknownError:
        raise
    except PuffinError:
        uris = [segment_uri(home.directory, segment.id) for segment in segments]
        for failure in delete_files(uris, lambda _: home.store):
            _log.warning("could not delete a file, which stays behind: %s", failure)
        raise


def publish(home: IndexHome, base: Index, change: IndexChange) -> tuple[IndexManifest, Index]:
    """
    Put the manifest that names the new segments, unless nothing changes; return it, and the index before it.

    Raises ConflictError if other runs were faster again and again, StorageError, CommitUnknownError, and
    UnsupportedError if the store cannot put a file only once.
    """
    unreadable = {segment.id for segment in base.manifest.segments} - base.classes.keys()
    for _ in range(_ATTEMPTS):
        made = change.applied(base)
        if made == base.manifest:
            return made, base
        try:
            return commit(made, home.directory, home.store), base
        except ConflictError:
            base = home.read(known=base).without(unreadable)
    raise ConflictError(f"{home.directory}: other runs changed the index {_ATTEMPTS} times meanwhile; run again")


def merge(home: IndexHome, index: Index, gone: Set[str]) -> Index:
    """
    Merge segments until none is due, and take out files that are gone; another run may be faster at any step.

    Raises StorageError, CommitUnknownError.
    """
    failed: set[str] = set()
    for _ in range(_ATTEMPTS):
        mergeable = [segment for segment in index.segments if segment.id not in failed]
        groups = groups_to_merge(mergeable, index.having(gone))
        if not groups:
            break
        new: list[SegmentEntry] = []
        try:
            with discarding(home, new):
                left = _left(home, index, groups, gone, new)
                failed |= {segment.id for group in groups for segment in group} & left.keys()
                merged = dataclasses.replace(index.manifest, segments=tuple(written.entry for written in left.values()))
                committed = commit(merged, home.directory, home.store)
        except ConflictError:
            index = home.read(known=index)
        else:
            index = Index(committed, {id_: written.classes for id_, written in left.items()})
    return index


def _left(
    home: IndexHome, index: Index, groups: Sequence[Sequence[SegmentEntry]], gone: Set[str], new: list[SegmentEntry]
) -> dict[str, WrittenSegment]:
    """The segments by id once groups are merged, those that cannot be as they were; adds to ``new`` what it writes."""
    left = {segment.id: WrittenSegment(segment, index.classes[segment.id]) for segment in index.segments}
    for group in groups:
        try:
            made = _merge(home, index, group, gone)
        except GONE_OR_BROKEN as exc:
            _log.warning("index segments are not merged: %s", exc)
            continue
        left = {id_: written for id_, written in left.items() if written.entry not in group}
        if made is not None:
            new.append(made.entry)
            left[made.entry.id] = made
    return left


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
