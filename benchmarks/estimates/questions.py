"""
The questions, each with its SQL for the engines and for the true count.

The rows of a join need not be made to be counted, which would take hours where keys are skewed. The joins are trees,
so rows are counted from the leaves to the root: by the columns that join a table to its parent, the sum of the products
of what its children have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from benchmarks.estimates.predicates import Predicate, condition_of, filter_of
from benchmarks.estimates.suite import Edge

Named = Callable[[str], str]
"""What an engine calls a table of the suite."""


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """
    How many rows, or groups, a query has.

    Attributes:
        kind: What its result is counted under.
        tables: The tables, of which each but the first is joined to one before it.
        edges: One for each table but the first.
        predicates: By table, in their order; conjunctions.
        group_by: Columns of the only table; empty where rows are asked for.
    """

    kind: str
    tables: tuple[str, ...]
    predicates: tuple[tuple[Predicate, ...], ...]
    edges: tuple[Edge, ...] = ()
    group_by: tuple[str, ...] = ()

    def filter_of(self, table: str) -> str | None:
        """The filter of a table in the grammar of ``--where``."""
        return filter_of(self._predicates_of(table))

    def to_sql(self, named: Named) -> str:
        """The query, with all that a planner may estimate it by."""
        if self.group_by:
            (table,) = self.tables
            columns = ", ".join(self.group_by)
            return f"SELECT {columns} FROM {named(table)} AS {table}{self._where()} GROUP BY {columns}"
        if not self.edges:
            (table,) = self.tables
            return f"SELECT * FROM {named(table)} AS {table}{self._where()}"
        first, *rest = self.tables
        joins = "".join(
            f" JOIN {named(table)} AS {table} ON {_condition(edge)}"
            for table, edge in zip(rest, self.edges, strict=True)
        )
        columns = ", ".join(f"{edge.left}.{edge.pairs[0][0]} AS c{i}" for i, edge in enumerate(self.edges))
        return f"SELECT {columns} FROM {named(first)} AS {first}{joins}{self._where()}"

    def to_count(self, named: Named) -> str:
        """A query of one number, the true count."""
        if not self.edges:
            inner = self.to_sql(named)
            return f"SELECT count(*) FROM ({inner.replace('SELECT *', 'SELECT 1', 1)})"
        return self._counted(self.tables[0], None, named)

    def to_text(self) -> str:
        """The question for people: what is asked of, and the filters."""
        joined = " ⋈ ".join(
            [self.tables[0], *(f"{e.left}.{e.left_column}={e.right}.{e.right_column}" for e in self.edges)]
        )
        where = [f"{table}: {text}" for table in self.tables if (text := self.filter_of(table))]
        grouped = [f"by {'+'.join(self.group_by)}"] if self.group_by else []
        return "; ".join([joined, *where, *grouped])

    def _predicates_of(self, table: str) -> tuple[Predicate, ...]:
        return self.predicates[self.tables.index(table)]

    def _where(self) -> str:
        conditions = [
            condition_of(predicates, table)
            for table, predicates in zip(self.tables, self.predicates, strict=True)
            if predicates
        ]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def _counted(self, table: str, parent: str | None, named: Named) -> str:
        to_children = [
            edge for edge in self.edges if table in (edge.left, edge.right) and _other(edge, table) != parent
        ]
        to_parent = next((e for e in self.edges if {table, parent} == {e.left, e.right}), None)
        joins = "".join(
            f" JOIN ({self._counted(child, table, named)}) AS of_{child} ON "
            + " AND ".join(f"{table}.{own} = of_{child}.{child}_{theirs}" for own, theirs in _seen_from(edge, table))
            for edge in to_children
            for child in [_other(edge, table)]
        )
        product = " * ".join(["1::HUGEINT", *(f"of_{_other(edge, table)}.n" for edge in to_children)])
        body = f"FROM {named(table)} AS {table}{joins} WHERE {condition_of(self._predicates_of(table), table)}"
        if to_parent is None:
            return f"SELECT coalesce(sum({product}), 0) {body}"
        keys = [own for own, _ in _seen_from(to_parent, table)]
        selected = ", ".join(f"{table}.{key} AS {table}_{key}" for key in keys)
        return f"SELECT {selected}, sum({product}) AS n {body} GROUP BY {', '.join(f'{table}.{key}' for key in keys)}"


def _condition(edge: Edge) -> str:
    return " AND ".join(f"{edge.left}.{left} = {edge.right}.{right}" for left, right in edge.pairs)


def _other(edge: Edge, table: str) -> str:
    return edge.right if edge.left == table else edge.left


def _seen_from(edge: Edge, table: str) -> list[tuple[str, str]]:
    """The pairs of columns, those of this table first."""
    return edge.pairs if edge.left == table else [(right, left) for left, right in edge.pairs]
