"""
Namespaces and tables as the REST protocol names them, and the Iceberg tables of a lookup that they mean.

A catalog's tables keep their names. A directory below a root is a table of the namespace that its parent directories
name: ``sales/orders`` below a root is the table ``orders`` of ``sales``. A directory right below a root, or a root that
is a table, belongs to the namespace ``roots``. Where two tables have one name, the catalog's comes first, then that of
the first root. In a request ``roots``, or the root's own name, may also stand before the directories. Lists leave out
names that no request could have: clients that go through them would fail at the first one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from puffin.errors import TableNotFound
from puffin.lookup import Lookup
from puffin.lookup.listing import names_of
from puffin.rest_catalog.errors import NamespaceNotFound
from puffin.storage import join
from puffin.storage.uri import has_controls

Levels: TypeAlias = tuple[str, ...]

SEPARATOR = "\x1f"
ROOTS = "roots"
_NO_NAME = "expected a name without slashes and control characters"
_SHOWN = 80


@dataclasses.dataclass(frozen=True, slots=True)
class TableName:
    """A table of a namespace, which has at least one level."""

    namespace: Levels
    name: str

    @classmethod
    def of(cls, namespace: str, name: str) -> TableName:
        """From the decoded segments of a request's path; TableNotFound for what can be no table's name."""
        levels = namespace.split(SEPARATOR)
        if not all(map(is_name, (*levels, name))):
            raise TableNotFound(f"{_NO_NAME}, found {name[:_SHOWN]!r} in {namespace[:_SHOWN]!r}")
        return cls(tuple(levels), name)

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))


def levels_of(namespace: str) -> Levels:
    """The levels of a namespace in a request's path or query; NamespaceNotFound for what can be no namespace's name."""
    levels = tuple(namespace.split(SEPARATOR))
    if not all(map(is_name, levels)):
        raise NamespaceNotFound(f"{_NO_NAME}, found {namespace[:_SHOWN]!r}")
    return levels


class Names:
    """The names of all Iceberg tables that a lookup serves below some roots and in its catalog."""

    def __init__(self, lookup: Lookup, roots: Sequence[str], *, has_catalog: bool) -> None:
        self._lookup = lookup
        self._roots = tuple(root.rstrip("/") or root for root in roots)
        self._has_catalog = has_catalog

    def candidates(self, table: TableName) -> Iterator[str]:
        """The names in the lookup that a table may have, the one that counts first."""
        is_clear = not any("." in level for level in (*table.namespace, table.name))
        if self._has_catalog and is_clear and not self._lookup.names_catalog(str(table)):
            yield str(table)
        for root in self._roots:
            first, *inside = table.namespace
            if first in (ROOTS, _last(root)):
                yield join(root, *inside, table.name)
            yield join(root, first, *inside, table.name)
            if table == TableName((ROOTS,), _last(root)):
                yield root

    def namespaces(self, parent: Levels = ()) -> list[Levels]:
        """The namespaces right below one, or at the top, sorted; raises what `Lookup.listed` raises."""
        depth = len(parent)
        known = (*self._of_catalog(), *(table.namespace for table in self._below_roots()))
        return sorted({each[: depth + 1] for each in known if len(each) > depth and each[:depth] == parent})

    def has(self, namespace: Levels) -> bool:
        """Whether a namespace exists."""
        return namespace in self.namespaces(namespace[:-1])

    def properties(self, namespace: Levels) -> dict[str, str]:
        """The properties of a namespace; one that only directories make has none."""
        if not self._has_catalog or any("." in level for level in namespace):
            return {}
        return self._lookup.namespace_properties(".".join(namespace))

    def tables(self, namespace: Levels) -> list[TableName]:
        """The tables of a namespace, sorted by name."""
        names = {table.name for table in self._below_roots() if table.namespace == namespace}
        if namespace in self._of_catalog():
            dotted = ".".join(namespace)
            listed = (name.removeprefix(f"{dotted}.") for name in self._lookup.table_names([dotted]))
            names |= {name for name in listed if is_name(name) and "." not in name}
        return [TableName(namespace, name) for name in sorted(names)]

    def _of_catalog(self) -> list[Levels]:
        known = self._lookup.namespaces() if self._has_catalog else ()
        levels = [tuple(each.split(".")) for each in known if not self._lookup.names_catalog(each)]
        return [each for each in levels if all(map(is_name, each))]

    def _below_roots(self) -> Iterator[TableName]:
        for root in self._roots:
            listed = self._lookup.listed((), roots=[root])
            for location in names_of(each for each in listed if each.format != "delta"):
                inside = [part for part in location.removeprefix(root).split("/") if part]
                if all(map(is_name, inside)):
                    yield TableName(tuple(inside[:-1]) or (ROOTS,), inside[-1] if inside else _last(root))


def is_name(name: str) -> bool:
    return bool(name) and "/" not in name and "\\" not in name and name not in (".", "..") and not has_controls(name)


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
