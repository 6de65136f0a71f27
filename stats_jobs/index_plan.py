"""
Plans the filters that an index lacks, and turns what was read into segments.

A filter holds every row that a file was written with, so it is built from a whole file: in a scan of its own, or beside
the statistics of a scan that reads the file anyway. A file is not read for a column that is constant in it: its
partition excludes it exactly.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence

from puffin.index.coverage import lacking_files
from puffin.index.file_filters import FileFilters, IndexKind, LiftingIndexKind, SegmentPlace
from puffin.index.home import Index, IndexHome
from puffin.index.leftovers import remove_old_files
from puffin.index.segment import SegmentColumn, SegmentEntry
from puffin.index.upkeep import IndexChange, discarding, merge, publish
from puffin.tables.base import Column
from puffin.tables.leftovers import AgeLimit
from puffin.tables.scan_task import FileScanTask
from puffin.tables.snapshot import TableSnapshot
from stats_jobs.partial import Partial
from stats_jobs.scan import Scan


@dataclasses.dataclass(frozen=True, eq=False)
class IndexPlan:
    """
    What brings the index of a snapshot up to date.

    Attributes:
        before: The index as it is.
        rates: The columns that the index is to have, with their rates of false positives.
        lacks: For each column the files without a filter, by path; each task is a whole file without deletes.
    """

    opened: TableSnapshot
    home: IndexHome
    before: Index
    rates: Mapping[Column, float]
    lacks: Mapping[Column, Mapping[str, FileScanTask]]

    @classmethod
    def of(cls, opened: TableSnapshot, home: IndexHome, before: Index, rates: Mapping[Column, float]) -> IndexPlan:
        lacks = {column: lacking_files(opened, before, column, fpp) for column, fpp in rates.items()}
        return cls(opened, home, before, rates, lacks)

    @property
    def changes_columns(self) -> bool:
        """Whether the index gets other columns or rates."""
        return self._rates_by_key != dict(self.before.manifest.columns)

    @property
    def lacking(self) -> frozenset[str]:
        """The files that lack a filter of some column."""
        return frozenset(path for tasks in self.lacks.values() for path in tasks)

    def lacking_without(self, lifted: Iterable[tuple[int, str]]) -> frozenset[str]:
        """The files that still lack a filter of some column after these, by field id and path, were lifted."""
        done = set(lifted)
        return frozenset(p for column, tasks in self.lacks.items() for p in tasks if (column.field_id, p) not in done)

    def scans(self, built: Iterable[Partial] = ()) -> list[Scan]:
        """Scans for the filters that were not built yet; columns that lack the same files share one."""
        done = {column: self._paths(column, built) for column in self.rates}
        alike: dict[tuple[str, ...], list[Column]] = {}
        for column, tasks in self.lacks.items():
            alike.setdefault(tuple(path for path in tasks if path not in done[column]), []).append(column)
        return [
            Scan(
                {column: (self._kind(column, LiftingIndexKind),) for column in columns},
                tuple(self.lacks[columns[0]][p] for p in paths),
            )
            for paths, columns in alike.items()
            if paths
        ]

    def with_filters(self, scans: Iterable[Scan]) -> list[Scan]:
        """The same scans, with the filters that their columns lack of the files that they read whole."""
        if not self.rates:
            return list(scans)  # some may be packed, since nobody has asked for the files one by one
        left = {column: set(tasks) for column, tasks in self.lacks.items()}
        found = []
        for scan in scans:
            indexed: dict[tuple[Column, ...], list[FileScanTask]] = {}
            # None are packed: what is lacking was found from the files one by one.
            for task in scan.file_tasks:
                path = task.data_file.file_path
                has_every_row = not scan.removed and self._gives_every_row(task)
                columns = tuple(c for c in scan.kinds if has_every_row and path in left.get(c, ()))
                for column in columns:
                    left[column].discard(path)
                indexed.setdefault(columns, []).append(task)
            for columns, tasks in indexed.items():
                kinds = {column: (*scan.kinds[column], self._kind(column)) for column in columns}
                found.append(dataclasses.replace(scan, kinds={**scan.kinds, **kinds}, tasks=tuple(tasks)))
        return found

    def has_filters(self, partial: Partial) -> bool:
        """Whether filters of a column of the index were built while this was read."""
        return any(self._built(column, (partial,)) for column in self.rates)

    def published(self, built: Sequence[Partial]) -> IndexPlan:
        """
        Write what was built and is lacking, take out files that no snapshot has, and remove old files of the index.

        Returns the plan for what is left. Raises as `puffin.index.upkeep.publish`.
        """
        rates, had = self._rates_by_key, self.before.manifest.columns
        tasks = () if self.opened.is_empty else self.opened.tasks
        gone = self.before.paths - {task.data_file.file_path for task in tasks}
        written: list[SegmentEntry] = []
        with discarding(self.home, written):
            change = IndexChange(
                table_uuid=self.opened.state.uuid,
                rates={key: rate for key, rate in rates.items() if had.get(key) != rate},
                dropped=had.keys() - rates.keys(),
                new=[segment for column in self.rates for segment in self._segments(column, built, written)],
            )
            # Another run may have indexed files that came after this one opened the table.
            gone = gone - self.opened.refreshed().still_referenced(gone) if gone else set()
            manifest, before = publish(self.home, self.before, change)
        made = merge(self.home, self.home.with_classes(manifest, before), gone)
        if made.manifest != self.before.manifest:
            remove_old_files(self.home, AgeLimit())
        done = {column: self._paths(column, built) for column in self.lacks}
        lacks = {c: {path: t for path, t in tasks.items() if path not in done[c]} for c, tasks in self.lacks.items()}
        return dataclasses.replace(self, before=made, lacks=lacks)

    def after(self, index: Index) -> IndexPlan:
        """What is still lacking."""
        return IndexPlan.of(self.opened, self.home, index, self.rates)

    @property
    def _rates_by_key(self) -> dict[str, float]:
        return {self.opened.state.key_of(column): rate for column, rate in self.rates.items()}

    def _gives_every_row(self, task: FileScanTask) -> bool:
        """Whether a reader of this task gives the deleted rows too, checked as the others are."""
        # Only live rows are checked for Julian dates.
        return task.deleted_by is None and not (task.delete_files and self.opened.scan_context.rebases_dates)

    def _kind(self, column: Column, kind: type[IndexKind] = IndexKind) -> IndexKind:
        return kind(type=column.type, fpp=self.rates[column], place=self._place(column))

    def _place(self, column: Column) -> SegmentPlace:
        key, mapping = self.opened.state.key_of(column), self.opened.state.mapping_digest(column)
        of_segment = SegmentColumn(column.field_id, key, column.type, mapping, self.rates[column])
        return SegmentPlace(self.home.directory, of_segment)

    def _built(self, column: Column, built: Iterable[Partial]) -> list[FileFilters]:
        """The filters of a column in each part of what was read."""
        kind = self._kind(column)
        found = (partial.added.get(column.field_id, {}).get(kind) for partial in built)
        return [filters for filters in found if filters is not None]

    def _paths(self, column: Column, built: Iterable[Partial]) -> set[str]:
        """The files of which filters of a column were built."""
        return {path for filters in self._built(column, built) for path in filters.paths}

    def _segments(self, column: Column, built: Sequence[Partial], written: list[SegmentEntry]) -> list[SegmentEntry]:
        """
        The new segments of a column. One that is written now is added to ``written``; those of executors belong to what
        was built, which may be published once more.
        """
        is_mapped = any(column.field_id in partial.mapped for partial in built)
        merged = functools.reduce(FileFilters.merge, self._built(column, built), FileFilters())
        filters = merged.only(self.lacks[column]).finished(self.rates[column])
        segments = list(filters.segments)
        if filters.whole:
            written.append(self._place(column).write(filters.whole, self.home.store, is_mapped=is_mapped))
            segments.append(written[-1])
        return segments
