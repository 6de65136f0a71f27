"""
Plans which data files of a snapshot can hold rows that match a filter: by partitions, then bounds, then the index.

Each predicate is answered for all files at once, and the answers combine as the filter does. A file counts at the first
step that excludes it.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from puffin.cached import cached_property
from puffin.errors import CorruptError, PuffinError
from puffin.iceberg.expression_json import FilterJson
from puffin.index.home import index_homes
from puffin.index.table_index import ColumnKey, FilePositions, RowCache, TableIndex
from puffin.index.value_hashes import hash_scalar
from puffin.planning.bounds import FileBounds
from puffin.planning.file_plan import FilePlan, PlannedIndex, PredicateReport, Pruned
from puffin.planning.flags import Flags, all_of, any_of, count
from puffin.planning.partitions import FilePartitions, known_specs
from puffin.tables.base import Column
from puffin.tables.document import all_schemas, current_schema
from puffin.tables.expression import Combination, Constant, Expression, Op, Predicate, predicates
from puffin.tables.file_metrics import NO_METRICS
from puffin.tables.scan_task import FileScanTask
from puffin.tables.snapshot import TableSnapshot

_COLUMN_MAPPING = "delta.columnMapping.mode"
_MOST_SOUGHT = 1_000
"""Values of a filter that the index is asked for; each costs a read, and many of them leave few files out."""
_MOST_BOUNDS, _FEW_COLUMNS = 8_000_000, 8
"""Bounds that a planner keeps, one for each file and column, but of so many columns at least: 1.3 KB for each file."""

Filter: TypeAlias = "str | FilterJson"
"""A row filter: text in pyiceberg's grammar, or JSON in that of the REST protocol."""

_log = logging.getLogger(__name__)


def filter_parser(opened: TableSnapshot, *, with_partitions: bool = True) -> Callable[[Filter], Expression]:
    """
    A function that parses filters for a table. A text filter uses the names of the current schema.

    Without partitions, predicates have no tests of them, and most filters are parsed in microseconds. The function
    raises ColumnNotFound if the current schema lacks a column, UsageError if the filter cannot be parsed or its types
    do not match, MissingDependencyError if the filter needs pyiceberg and it is not installed.
    """
    from puffin.iceberg.filters import FilterParser

    state = opened.state
    specs = known_specs(state, state.vague_partition_ids) if with_partitions else {}
    current = current_schema(state.document)
    of_snapshot = None if opened.is_empty else opened.snapshot.schema_id
    schemas = all_schemas(state.document)
    of_filter = [current, *(each for each in schemas if each.get("schema-id") == of_snapshot and each != current)]
    parser = FilterParser(current, specs)

    @functools.cache
    def json_parser() -> Callable[[FilterJson], Expression]:
        from puffin.iceberg.filter_binding import JsonFilterParser  # needs pyiceberg, which a text may do without

        return JsonFilterParser(of_filter, specs, state.reused_names, schemas[::-1])

    return lambda where: json_parser()(where) if isinstance(where, FilterJson) else parser(where)


def warm_up() -> None:
    """Plan once in memory, so that the first caller does not wait for modules to be imported."""
    from puffin.iceberg.filter_binding import JsonFilterParser

    schema = {"type": "struct", "fields": [{"id": 1, "name": "a", "required": False, "type": "string"}]}
    spec = [{"field-id": 1000, "source-id": 1, "transform": "identity", "name": "a"}]
    filter_ = FilterJson.of({"type": "eq", "term": "a", "value": "a"})
    for predicate in predicates(JsonFilterParser([schema], {0: spec})(filter_)):
        FileBounds("string", [NO_METRICS]).may_match(predicate)
        hash_scalar("string", "string", predicate.values[0])


@dataclasses.dataclass(frozen=True, slots=True)
class _Answer:
    """For each file whether it may match a predicate by its partition, by its bounds, by the index."""

    flags: Flags  # shape (3, files)
    unread: tuple[str, ...] = ()

    @property
    def after_steps(self) -> Flags:
        """Whether it may match by the first of these, by the first two, by all three; shape (3, files)."""
        found = self.flags.copy()
        found[1] &= found[0]
        found[2] &= found[1]
        return found

    @property
    def excludes(self) -> Pruned:
        return Pruned(*(len(each) - count(each) for each in self.flags))


@dataclasses.dataclass(frozen=True, slots=True)
class FoundIndex:
    """The index of a table as it was at some time, None if there was none; ``warnings`` say why it is left out."""

    index: TableIndex | None = None
    warnings: tuple[str, ...] = ()

    def is_same(self, other: FoundIndex) -> bool:
        """Whether plans made with one hold for the other."""
        own = self.index and self.index.manifest
        others = other.index and other.index.manifest
        return own == others and self.warnings == other.warnings


NO_INDEX = FoundIndex()


@dataclasses.dataclass(frozen=True, slots=True)
class _Files:
    """The files of a snapshot, and the place of each path among them."""

    tasks: tuple[FileScanTask, ...]
    sizes: npt.NDArray[np.int64]
    positions: FilePositions
    partitions: FilePartitions

    @classmethod
    def of(cls, opened: TableSnapshot) -> _Files:
        tasks = () if opened.is_empty else opened.tasks
        positions = FilePositions(task.data_file.file_path for task in tasks)
        sizes = np.array([task.data_file.file_size_in_bytes for task in tasks], np.int64)
        return cls(tasks, sizes, positions, FilePartitions(opened.state, tasks))


class Planner:
    """
    Plans scans of one snapshot; keeps what it has read of metadata and index. Any thread may use it.

    Threads that need the same metadata wait for the one that reads it; whatever is read is shared without a lock.

    Args:
        rows: What was read of indexes; planners of a process share it.
    """

    def __init__(self, opened: TableSnapshot, rows: RowCache | None = None) -> None:
        self._opened = opened
        self._rows = rows or RowCache()
        self._columns = opened.state.columns_by_id
        self._loading = threading.RLock()
        self._loaded_files: _Files | None = None
        self._metrics: dict[int, FileBounds] = {}
        self._index: TableIndex | None = None
        self._parser: Callable[[Filter], Expression] | None = None

    def reopened(self, opened: TableSnapshot) -> Planner:
        """This planner with what it has read, for a later opening of the same state with fresher credentials."""
        made = copy.copy(self)
        made._opened = opened
        return made

    @property
    def size(self) -> int:
        """How many files the planner keeps in memory, the bounds of eight columns as one more; 0 until it has any."""
        files = 0 if self._loaded_files is None else len(self._loaded_files.tasks)
        return files * (8 + len(self._metrics)) // 8

    def plan(self, where: Filter | None, *, index: FoundIndex | None = None) -> FilePlan:
        """
        The files of the snapshot that can hold rows that match the filter; all of them without a filter.

        ``index`` is what `find_index` found earlier, or `NO_INDEX` to do without; by default the newest is looked for.
        An index that cannot be used is a warning, and so is a segment that cannot be read. Each is logged once. Raises
        what a `filter_parser` and `TableSnapshot.tasks` raise.
        """
        opened, files = self._opened, self._files
        expression = Constant(True) if where is None else self._parse(where)
        if where is None:
            index = NO_INDEX
        found = self.find_index() if index is None else index
        asked = tuple(predicates(expression))
        bounds = self._bounds_of(asked)
        excludes: list[Pruned] = []
        not_read: list[str] = []

        def answers() -> Iterator[Flags]:  # one at a time: a filter may have many predicates, and a table many files
            sought = 0
            for each in asked:
                sought += len(each.values)
                answer = self._answer(each, bounds, found.index if sought <= _MOST_SOUGHT else None)
                excludes.append(answer.excludes)
                not_read.extend(answer.unread)
                yield answer.after_steps

        left = _evaluate(expression, (3, len(files.tasks)), answers())
        counts = [len(files.tasks), *map(count, left)]
        used, uncounted = self._used(asked, found.index)
        unread = dict.fromkeys((*not_read, *uncounted))
        for line in unread:
            _log.warning("%s: %s", opened.name, line)
        return FilePlan(
            table=opened.name,
            format=opened.state.format,
            snapshot_id=opened.snapshot_id,
            where=None if where is None else str(where),
            all_files=files.tasks,
            sizes=files.sizes,
            kept=left[-1],
            pruned=Pruned(*(before - after for before, after in itertools.pairwise(counts))),
            index=used,
            warnings=(*found.warnings, *unread),
            predicates=tuple(map(PredicateReport, map(str, asked), excludes)),
            partition_names=files.partitions.names,
            location=opened.state.location,
            maps_columns=opened.state.properties.get(_COLUMN_MAPPING, "none").lower() != "none",
        )

    def _parse(self, where: Filter) -> Expression:
        if self._parser is None:
            self._parser = filter_parser(self._opened)
        return self._parser(where)

    def find_index(self) -> FoundIndex:
        """The newest index, in the first of the table's homes that has one; reads at least the names of manifests."""
        positions = self._files.positions  # if these cannot be read, the index is not to blame
        try:
            with self._loading:
                for home in index_homes(self._opened):
                    manifest = home.newest()
                    if manifest.version:
                        if self._index is None or self._index.manifest != manifest:
                            self._index = TableIndex(manifest, home, positions, self._rows)
                        return FoundIndex(self._index.reopened(home.store))
        except PuffinError as exc:
            way_out = ": puffin index --columns builds it anew" if isinstance(exc, CorruptError) else ""
            warning = f"the index is left out: {exc}{way_out}"
            _log.warning("%s: %s", self._opened.name, warning)
            return FoundIndex(None, (warning,))
        return NO_INDEX

    def reopened_index(self, found: FoundIndex) -> FoundIndex:
        """An index that was found for another opening of the table, read through this one's stores."""
        if found.index is None:
            return found
        store = self._opened.store_for(found.index.home.directory)
        return dataclasses.replace(found, index=found.index.reopened(store))

    @property
    def _files(self) -> _Files:
        if self._loaded_files is None:
            with self._loading:
                if self._loaded_files is None:
                    self._loaded_files = _Files.of(self._opened)
        return self._loaded_files

    @cached_property
    def _retyped(self) -> frozenset[int]:
        return self._opened.state.retyped_at(self._opened.snapshot)

    def _answer(self, predicate: Predicate, bounds: Mapping[int, FileBounds], index: TableIndex | None) -> _Answer:
        files = self._files
        flags = np.ones((3, len(files.tasks)), np.bool_)
        if files.tasks and self._tells_nothing(predicate):
            return _Answer(flags)
        flags[0] = files.partitions.may_match(predicate)
        column = self._columns.get(predicate.field_id)
        if column is None or not files.tasks:
            return _Answer(flags)
        if column.field_id in bounds:
            flags[1] = bounds[column.field_id].may_match(predicate)
        if index is None or predicate.op not in (Op.EQ, Op.IN):
            return _Answer(flags)
        probe = index.may_hold(self._key_of(column), predicate.values)
        flags[2] = probe.flags
        return _Answer(flags, probe.unread)

    def _tells_nothing(self, predicate: Predicate) -> bool:
        """Whether metadata has other values of the column than an engine may compare."""
        is_padded = bool(predicate.values) and predicate.field_id in self._opened.state.padded_ids
        return is_padded or predicate.field_id in self._retyped

    def _bounds_of(self, asked: Sequence[Predicate]) -> Mapping[int, FileBounds]:
        """The bounds of the columns of a filter; only of the first ones if all would take too much memory."""
        files = len(self._files.tasks)
        if not files:
            return {}
        most = max(_FEW_COLUMNS, _MOST_BOUNDS // files)
        wanted = list(dict.fromkeys(each.field_id for each in asked if each.field_id in self._columns))[:most]
        found = self._kept_bounds(wanted)
        if len(found) == len(wanted):
            return found
        with self._loading:
            found = self._kept_bounds(wanted)
            columns = [self._columns[field_id] for field_id in sorted({*wanted} - found.keys())]
            # Of several columns at once, since each time every manifest is read, but not of all: until they are in
            # arrays, bounds take ten times as much memory.
            at_once = max(2, most // 8)
            for first in range(0, len(columns), at_once):
                metrics = self._opened.file_metrics(columns[first : first + at_once])
                found |= {id_: FileBounds(self._columns[id_].type, of_files) for id_, of_files in metrics.items()}
                del metrics
            for field_id, of_column in found.items():
                self._metrics.pop(field_id, None)  # so that those of the newest filter come last
                self._metrics[field_id] = of_column
            while len(self._metrics) > most:
                del self._metrics[next(iter(self._metrics))]
        return found

    def _kept_bounds(self, field_ids: Iterable[int]) -> dict[int, FileBounds]:
        return {field_id: kept for field_id in field_ids if (kept := self._metrics.get(field_id)) is not None}

    def _key_of(self, column: Column) -> ColumnKey:
        state = self._opened.state
        return ColumnKey(state.key_of(column), column.type, state.mapping_digest(column))

    def _used(self, asked: Sequence[Predicate], index: TableIndex | None) -> tuple[PlannedIndex, tuple[str, ...]]:
        """The columns of the filter that have an index, the files that it covers for all of them; what was unread."""
        if index is None:
            return PlannedIndex((), 0), ()
        columns = dict.fromkeys(self._columns[each.field_id] for each in asked if each.field_id in self._columns)
        covered = {column.name: index.covered(self._key_of(column)) for column in columns}
        used = {name: probe.flags for name, probe in covered.items() if probe.flags.any()}
        unread = tuple(line for probe in covered.values() for line in probe.unread)
        return PlannedIndex(tuple(used), count(all_of(used.values())) if used else 0), unread


def _evaluate(expression: Expression, shape: tuple[int, int], answers: Iterator[Flags]) -> Flags:
    """What a filter tells of each file after each step; takes the answers of its predicates in their order."""
    if isinstance(expression, Constant):
        flags = np.full(shape, expression.value, np.bool_)
        flags[0] = True  # no partition tells: bounds of the column's type do
        return flags
    if isinstance(expression, Combination):
        parts = (_evaluate(part, shape, answers) for part in expression.parts)
        return all_of(parts) if expression.is_and else any_of(parts)
    return next(answers)
