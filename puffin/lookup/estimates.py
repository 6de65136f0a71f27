"""
Estimates for a table, from what statistics say of it: rows of a filter, groups, and sides of a join.

Table metadata and private state are read when a column is first asked for. After that, everything is in memory.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from puffin.cached import cached_property
from puffin.errors import PuffinError, StorageError, UnsupportedTableError, UsageError
from puffin.estimates.column_rows import ColumnRows
from puffin.estimates.facts import ColumnFacts
from puffin.estimates.filters import FilterPart, Methods, TableRows, by_column, rows_of_filter
from puffin.estimates.groups import groups_of
from puffin.estimates.interval import NOTHING, Interval
from puffin.estimates.methods import UNKNOWN
from puffin.estimates.partitions import Partitions
from puffin.estimates.tuple_rows import TupleRows
from puffin.estimates.unlike_hashes import UnlikeRows
from puffin.estimates.zeros import zeros_of
from puffin.load import load_table
from puffin.lookup.column_facts import ReadFacts, facts_of_column, facts_of_nothing, facts_of_tuples
from puffin.lookup.table_rows import RowsChanged, counted_rows, known_rows, rows_of_files
from puffin.planning.plan import filter_parser
from puffin.statistics.ancestry import known_sketches
from puffin.statistics.answer import Freshness
from puffin.statistics.joint import FoundJoint, joint_of
from puffin.tables.arguments import NameOrPath, check_list
from puffin.tables.base import Column, SnapshotSelector
from puffin.tables.expression import Constant, Expression
from puffin.tables.partition_rows import PartitionRows
from puffin.tables.snapshot import TableSnapshot

_log = logging.getLogger(__name__)

_Key = TypeVar("_Key")
_Kept = TypeVar("_Kept")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableEstimate:
    """
    The rows that a filter leaves, and the groups that a grouping makes; both with 95 % bounds.

    Attributes:
        row_count: The rows of the table.
        groups: None without a grouping, as is ``groups_method``, which says how they were found.
        guessed: The columns of the grouping whose missing statistics make its groups a guess.
        freshness: What changed since the oldest statistics of the columns asked for; the bounds allow for it.
    """

    table: str
    format: str
    snapshot_id: int | None
    where: str | None
    group_by: tuple[str, ...] | None
    row_count: int
    rows: Interval
    groups: Interval | None
    groups_method: str | None
    guessed: tuple[str, ...]
    freshness: Freshness
    how: Methods = dataclasses.field(compare=False, repr=False)

    @property
    def methods(self) -> tuple[tuple[str, str], ...]:
        """For each predicate, and for a filter on several columns, how the rows were found."""
        return self.how.named()

    @property
    def selectivity(self) -> float:
        return self.rows.rows / self.row_count if self.row_count else 0.0

    def to_json(self) -> dict[str, Any]:
        rows, groups = self.rows.rounded(), (None,) * 3 if self.groups is None else self.groups.rounded()
        return {
            "table": self.table,
            "format": self.format,
            "snapshot-id": self.snapshot_id,
            "where": self.where,
            "group-by": None if self.group_by is None else list(self.group_by),
            "row-count": self.row_count,
            "rows": rows[0],
            "lower": rows[1],
            "upper": rows[2],
            "selectivity": self.selectivity,
            "groups": groups[0],
            "groups-lower": groups[1],
            "groups-upper": groups[2],
            "groups-method": self.groups_method,
            **self.freshness.to_json(),
            "methods": self.how.to_json(),
        }


def estimate(
    table: NameOrPath,
    where: str | None = None,
    group_by: Sequence[str] | None = None,
    *,
    snapshot_id: int | None = None,
    ref: str | None = None,
    as_of_ms: int | None = None,
    catalog: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> TableEstimate:
    """
    The rows that a filter leaves and the groups that columns make among them, from statistics alone.

    Args:
        table: As for `puffin.ndv`, as are the other arguments.
        where: A row filter in pyiceberg's grammar; None for all rows.
        group_by: Columns to group by; null is one group, and their order does not matter.

    Raises:
        NotFoundError: There is no such table, snapshot or column.
        UsageError: The filter cannot be parsed, or its types do not match.
        CorruptMetadataError, UnsupportedTableError, StorageError: The metadata cannot be read, or does not tell how
            many rows there are.
        MissingDependencyError: A catalog, or a filter that is not simple, needs pyiceberg, which is not installed.
    """
    selector = SnapshotSelector(snapshot_id=snapshot_id, ref=ref, as_of_ms=as_of_ms)
    loaded = load_table(table, catalog=catalog, catalog_properties=catalog_properties)
    return Estimator(loaded.open(selector)).estimate(where, group_by)


class Estimator:
    """Estimates for one snapshot of a table; any thread may use it."""

    def __init__(self, opened: TableSnapshot) -> None:
        self.opened = opened
        self._columns: dict[int, tuple[ColumnRows, ReadFacts]] = {}
        self._loading = threading.RLock()
        self._parser: Callable[[str], Expression] | None = None
        self._joint: dict[tuple[int, ...], FoundJoint | None] = {}
        self._joint_errors: list[PuffinError] = []
        self._tuple_rows: dict[tuple[int, ...], TupleRows | None] = {}

    def estimate(self, where: str | None = None, group_by: Sequence[str] | None = None) -> TableEstimate:
        """
        Estimate the rows that pass a filter, and the groups that columns make among them.

        Raises ColumnNotFound if there is no such column, UsageError if the filter cannot be parsed or there is no list
        of columns, PuffinError if metadata cannot be read.
        """
        check_list(group_by, "columns to group by")
        opened = self.opened
        columns = None if group_by is None else opened.state.select_columns(tuple(group_by))
        if columns == ():
            raise UsageError(f"{opened.name}: group by: expected at least one column, found none")
        table = self.table
        part, found, how = self._filtered(Constant(True) if where is None else self._parse(where))
        groups = method = None
        guessed: tuple[str, ...] = ()
        if columns is not None:
            groups, method = groups_of(table, [column.field_id for column in columns], part)
            if not groups.is_exact:
                guessed = tuple(each.name for each in columns if self.column(each.field_id).facts.ndv is None)
        return TableEstimate(
            table=opened.name,
            format=opened.state.format,
            snapshot_id=opened.snapshot_id,
            where=where,
            group_by=None if columns is None else tuple(column.name for column in columns),
            row_count=self.row_count,
            rows=found,
            groups=groups,
            groups_method=UNKNOWN if guessed else method,
            guessed=guessed,
            freshness=self.freshness(columns or (), how),
            how=how,
        )

    @property
    def is_provisional(self) -> bool:
        """Whether storage failed for statistics that were asked for, so that another one may give other estimates."""
        columns = [*self._columns.values()]  # other threads may add some
        return any(read.is_provisional for _, read in columns) or any(
            isinstance(error, StorageError) for error in self._joint_errors
        )

    @property
    def row_count(self) -> int:
        """The rows of the table, or what they most likely are; raises as `table`."""
        return int(self.table.rows.rows)

    @cached_property
    def counted_rows(self) -> Interval | None:
        """The live rows, as statistics of the snapshot counted them, or as metadata tells; None if neither does."""
        return NOTHING if self.opened.is_empty else known_rows(self.opened)

    @cached_property
    def table(self) -> TableRows:
        """
        The rows of the table and of its columns; reads its manifests if nothing else tells how many these are.

        Raises UnsupportedTableError if these do not tell either.
        """
        rows = self._rows_of_files if self.counted_rows is None else self.counted_rows
        if rows is None:
            raise UnsupportedTableError(
                f"{self.opened.name}: expected the record count of every file in the log, or statistics of this "
                "version by `puffin analyze`; found files without"
            )
        partitions = self._partitions()
        tells = (None, None) if partitions is None else (partitions.rows, partitions.groups)
        return TableRows(rows, self.column, self._sets, self.tuples, *tells)

    @property
    def has_cheap_rows(self) -> bool:
        """Whether it is known how many rows the table has, without reading manifests."""
        if self.counted_rows is not None:
            return True
        return self.opened.counts_live_rows and self._rows_of_files is not None

    @cached_property
    def _rows_of_files(self) -> Interval | None:
        with self._loading:
            return rows_of_files(self.opened)

    def _partitions(self) -> Partitions | None:
        """What partitions tell of the rows of a filter; None for a table without."""
        state = self.opened.state
        if self.opened.is_empty or not any(state.partition_specs.values()):
            return None
        retyped = state.retyped_at(self.opened.snapshot)  # values of a filter have the types of now
        specs = {id_: [f for f in spec if f["source-id"] not in retyped] for id_, spec in state.partition_specs.items()}
        return Partitions(specs, self._type_of, self._partition_rows)

    def _type_of(self, field_id: int) -> str:
        return self.column(field_id).facts.type

    def _partition_rows(self) -> Sequence[PartitionRows] | None:
        """The rows of each partition; None if they are not known, or are not those that statistics counted."""
        rows, counted = self.opened.partition_rows(), counted_rows(self.opened)
        if rows is None or counted is None:
            return rows
        fewest, most = sum(each.lower for each in rows), sum(each.upper for each in rows)
        if not fewest <= counted <= most:
            _log.warning("%s: the rows of partitions are left out: statistics counted others", self.opened.name)
            return None
        # If the fewest rows are all there are, no partition has more.
        return [each._replace(upper=each.lower) for each in rows] if fewest == counted else rows

    @cached_property
    def _sets(self) -> tuple[tuple[int, ...], ...]:
        """The sets of columns that have a joint sketch, by field ids, which ascend; the largest sets first."""
        known = {} if self.opened.is_empty else known_sketches(self.opened)
        sets = {ids for sketches in known.values() for each in sketches for ids in each.properties.joint}
        return tuple(sorted(sets, key=lambda ids: (-len(ids), ids)))

    def tuples(self, field_ids: tuple[int, ...]) -> TupleRows | None:
        """The rows of the tuples of these columns, whose field ids ascend; None without a joint sketch."""
        return self._once(self._tuple_rows, field_ids, self._rows_of_tuples)

    def _rows_of_tuples(self, field_ids: tuple[int, ...]) -> TupleRows | None:
        columns = [self.opened.state.columns_by_id[field_id] for field_id in field_ids]
        found = self.joint(columns)
        if found is None:
            return None
        facts, counted = facts_of_tuples(found, self.table.rows)
        floats = [self.column(column.field_id) for column in columns if zeros_of(column.type) is not None]
        unlike = [UnlikeRows.among(each, facts) for each in floats]
        return TupleRows(ColumnRows(facts), counted, [column.type for column in columns], unlike)

    def column(self, field_id: int) -> ColumnRows:
        """The rows of a column."""
        return self._column(field_id)[0]

    def _column(self, field_id: int) -> tuple[ColumnRows, ReadFacts]:
        return self._once(self._columns, field_id, self._read_column)

    def _read_column(self, field_id: int) -> tuple[ColumnRows, ReadFacts]:
        column, now = self.opened.state.columns_by_id.get(field_id), self.table.rows
        if column is None or self.opened.is_empty:
            read = ReadFacts(facts_of_nothing("binary" if column is None else column.type, now))
        else:
            read = facts_of_column(self.opened, column, now)
        return ColumnRows(read.facts), read

    def ndv(self, field_id: int) -> float:
        """The distinct values of a column when its statistics were made; 0 if unknown."""
        found = self.column(field_id).facts.ndv
        return 0.0 if found is None else found.rows

    def filtered(self, where: str) -> tuple[FilterPart, Interval, Methods]:
        """A filter by columns, the rows that pass it, and how they were found; raises as `estimate`."""
        return self._filtered(self._parse(where))

    def _filtered(self, where: Expression) -> tuple[FilterPart, Interval, Methods]:
        filter_ = by_column(self.table, where)
        return filter_.part, *rows_of_filter(self.table, where, filter_)

    def facts(self, columns: Sequence[Column]) -> ColumnFacts:
        """What statistics say of a column, or of the tuples of several that have a joint sketch."""
        field_ids = _ids(columns)
        tuples = self.tuples(field_ids) if len(field_ids) > 1 else None
        return self.column(field_ids[0]).facts if tuples is None else tuples.facts

    def rows_changed(self, columns: Sequence[Column], how: Methods | None) -> RowsChanged | None:
        """The rows that came and went since the statistics of columns and of those of a filter; None if none did."""
        asked, tuples = _asked(columns, how), [*self._tuple_rows.items()]  # other threads may add some
        facts = [self._columns[field_id][0].facts for field_id in asked if field_id in self._columns]
        facts += [each.facts for ids, each in tuples if each is not None and asked.issuperset(ids)]
        return RowsChanged.of_any(
            (each.added, each.removed) for each in facts if each.distribution is not None or each.ndv is not None
        )

    def freshness(self, columns: Sequence[Column], how: Methods | None) -> Freshness:
        """What changed since the oldest statistics that answered for columns and for those of a filter."""
        asked = _asked(columns, how)
        read = [self._columns[field_id][1].freshness for field_id in asked if field_id in self._columns]
        if self._joint:
            joint = [*self._joint.items()]  # other threads may add some
            read += [each.known.freshness for ids, each in joint if each is not None and asked.issuperset(ids)]
        return Freshness.of_oldest([each for each in read if each is not None])

    def failure(self, field_id: int) -> PuffinError | None:
        """Why values of a column are left out that are stored with its statistics, or None."""
        return self._column(field_id)[1].failure

    def joint(self, columns: Sequence[Column]) -> FoundJoint | None:
        """The joint sketch of these columns, in any order; None if there is none."""
        return self._once(self._joint, _ids(columns), self._read_joint)

    def _read_joint(self, field_ids: tuple[int, ...]) -> FoundJoint | None:
        if self.opened.is_empty:
            return None
        found, errors = joint_of(self.opened, field_ids)
        self._joint_errors += errors
        return found.get(field_ids)

    def _once(self, kept: dict[_Key, _Kept], key: _Key, load: Callable[[_Key], _Kept]) -> _Kept:
        """What is kept for a key, which the first thread that asks loads."""
        if key not in kept:
            with self._loading:
                if key not in kept:
                    kept[key] = load(key)
        return kept[key]

    def _parse(self, where: str) -> Expression:
        if self._parser is None:
            self._parser = filter_parser(self.opened, with_partitions=False)
        return self._parser(where)


def _asked(columns: Sequence[Column], how: Methods | None) -> set[int]:
    """The field ids of columns and of those of a filter."""
    tested = () if how is None else how.of_predicates
    return {column.field_id for column in columns} | {predicate.field_id for predicate, _ in tested}


def _ids(columns: Sequence[Column]) -> tuple[int, ...]:
    """The field ids of a set of columns, which ascend."""
    return tuple(sorted({column.field_id for column in columns}))
