"""
Writes the statistics file of a run for the table as it is, and again if the table has changed.

A file gets a unique name. It stays if its commit succeeds or may have; otherwise it is deleted. A file whose attempt
lost a race is deleted when the next one replaces it, unless the table turns out to refer to it.

The draft also repairs the damaged entries of other snapshots.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from puffin.statistics.ancestry import nearest_entries
from puffin.statistics.assemble import ColumnStatistics, assemble, choose_retained, companion_blobs, sketch_blobs
from puffin.statistics.blob_properties import SketchProperties
from puffin.statistics.damage import damaged_entries
from puffin.statistics.private_state.places import chosen_home
from puffin.statistics.private_state.writing import StatisticsFiles
from puffin.statistics.retained import read_stored
from puffin.tables.arguments import NameOrPath
from puffin.tables.base import StatisticsEntry
from puffin.tables.snapshot import PartitionStatisticsWriter, TableSnapshot


@dataclasses.dataclass(frozen=True, slots=True)
class FileOptions:
    """
    How to write a statistics file: the codec of its sketches, and the home of private state if not the table's.

    ``repairs`` tells whether to repair damaged entries too, which takes a commit. ``keep_entries`` is how many entries
    of ours stay, that of the new file included; None for all.
    """

    codec: str | None = None
    home: NameOrPath | None = None
    repairs: bool = True
    keep_entries: int | None = None


def surplus_entries(opened: TableSnapshot, snapshot_id: int, keep: int | None) -> tuple[int, ...]:
    """
    The snapshots before this one whose entries go if ``keep`` entries of ours stay, that of this one included.

    Entries with sketches of other engines stay beside them, and those with our nearest sketches for a branch or a tag.
    """
    if keep is None:
        return ()
    state = opened.state
    needed = {
        entry.snapshot_id
        for entry in state.statistics.values()
        if not all(SketchProperties(blob.properties).is_ours for blob in entry.blobs)
    }
    for head in state.refs.values():
        unknown = set(state.field_ids)
        before = itertools.takewhile(lambda each: each.snapshot_id != snapshot_id, state.ancestors(head))
        for entry in (state.statistics[each.snapshot_id] for each in before if each.snapshot_id in state.statistics):
            ours = (blob.fields for blob in entry.blobs if SketchProperties(blob.properties).is_ours)
            if found := unknown.intersection(itertools.chain.from_iterable(ours)):
                needed.add(entry.snapshot_id)
                unknown -= found
    surplus = [each for each in opened.earlier_entries(snapshot_id) if each not in needed]
    return tuple(surplus[keep - 1 :])


class StatisticsDraft:
    """
    Computed statistics of one snapshot of one table, to be written to a file.

    ``check`` is called with the table before a file is written against it and after that, and raises if the statistics
    do not fit any more.
    """

    def __init__(
        self,
        opened: TableSnapshot,
        statistics: Sequence[ColumnStatistics],
        options: FileOptions,
        partition_statistics: PartitionStatisticsWriter | None = None,
        check: Callable[[TableSnapshot], None] | None = None,
    ) -> None:
        self.snapshot_id = opened.snapshot.snapshot_id
        self.table_uuid = opened.state.uuid
        self._snapshot = opened.snapshot
        self._statistics = tuple(statistics)
        self._options = options
        self._partition_statistics = partition_statistics
        self._check = check
        self._files = StatisticsFiles()
        self._written: tuple[StatisticsEntry, _Sources] | None = None

    def write(self, opened: TableSnapshot, existing: Sequence[StatisticsEntry]) -> StatisticsEntry:
        """
        Write the file, unless the last one written is still right; return its entry, with the repaired entries.

        A column that the table no longer has gets no blob. Of columns that ``existing`` lacks, the ancestors' newest
        are kept. If it raises (StorageError; ConflictError, if another job gave the columns other field ids first; what
        ``check`` raises), nothing is left behind.
        """
        if self._check is not None:
            self._check(opened)
        sources = self._sources(opened, existing)
        if self._written is not None:
            last, its_sources = self._written
            if its_sources.basis == sources.basis:
                return last
            if any(entry.statistics_path == last.statistics_path for entry in existing):
                self._files.keep()
        self.discard()
        try:
            entry = self._write(opened, sources)
            if self._check is not None:
                self._check(opened)  # a part that is still there stays, since by now a manifest refers to it
        except BaseException:
            self._files.discard()
            raise
        self._written = entry, sources
        return entry

    def keep(self) -> None:
        """Keep the file: the table refers to it, or may; another attempt gets another file."""
        self._written = None
        self._files.keep()

    def discard(self) -> None:
        """Delete what was written and not kept: its commit has certainly failed."""
        self._written = None
        self._files.discard()

    def _sources(self, opened: TableSnapshot, existing: Sequence[StatisticsEntry]) -> _Sources:
        fields = opened.state.field_ids
        computed = {each.column.field_id for each in self._statistics}
        stored = {field_id for entry in existing for blob in entry.blobs if blob.is_sketch for field_id in blob.fields}
        removals = surplus_entries(opened, self.snapshot_id, self._options.keep_entries)
        damaged = damaged_entries(opened.state) if self._options.repairs else []
        return _Sources(
            tuple(each for each in self._statistics if opened.state.keeps_column(each.column)),
            fields,
            (*existing, *nearest_entries(opened, fields - computed - stored)),
            tuple(entry for entry in damaged if entry.snapshot_id not in (self.snapshot_id, *removals)),
            removals,
        )

    def _write(self, opened: TableSnapshot, sources: _Sources) -> StatisticsEntry:
        home = chosen_home(opened.state, self._options.home)
        written: list[StatisticsEntry] = []
        removals = sources.removals
        for old in read_stored(opened, self.snapshot_id, sources.entries, sources.damaged):
            if isinstance(old, StatisticsEntry):
                written.append(old)
                continue
            if not old.is_whole:
                removals = ()  # which may have the last sketches of columns whose file is lost
            new = sources.computed if old.snapshot_id == self.snapshot_id else ()
            wanted = sources.fields - {each.column.field_id for each in new}
            ancestors = (each.snapshot_id for each in opened.state.ancestors(old.snapshot_id))
            kept = choose_retained(old.sketches, ancestors, wanted)
            sketches = sketch_blobs(new, self._snapshot, self._options.codec)
            contents = assemble(sketches, kept, companion_blobs(new, self._snapshot), home)
            written.append(self._files.write(opened, old.snapshot_id, contents))
        entry, *repairs = written
        entry = dataclasses.replace(entry, repairs=tuple(repairs), removals=removals)
        if self._partition_statistics is None:
            return entry
        partitions = self._partition_statistics(opened)
        self._files.add(partitions.statistics_path, opened)
        return dataclasses.replace(entry, partitions=partitions)


class _Sources(NamedTuple):
    """
    What a file is made of.

    Attributes:
        computed: The computed statistics of columns that the table still has.
        fields: The field ids of the table, those inside lists and maps included.
        entries: The stored entries of which blobs may stay.
        damaged: The entries of other snapshots to repair.
        removals: The snapshots whose entries go.
    """

    computed: tuple[ColumnStatistics, ...]
    fields: frozenset[int]
    entries: tuple[StatisticsEntry, ...]
    damaged: tuple[StatisticsEntry, ...]
    removals: tuple[int, ...]

    @property
    def basis(self) -> object:
        """What is equal for two attempts if the file of one serves the other."""
        paths = tuple(entry.statistics_path for entry in (*self.entries, *self.damaged))
        return self.fields, paths, self.removals
