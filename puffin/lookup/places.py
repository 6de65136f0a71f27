"""Where tables are, a catalog or directories, and the tables that are found there."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from puffin.errors import NotFoundError, PuffinError, UsageError
from puffin.load import MOST_DIRECTORIES, FoundTable, Tables
from puffin.storage import local_path, place_of, store_for


@dataclasses.dataclass(frozen=True, slots=True)
class NamePatterns:
    """
    Chooses tables by their own names, without namespace or directory.

    A name has to match a pattern of ``include``, if there are any, and none of ``exclude``.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def take(self, table: str, *, dotted: bool) -> bool:
        """Whether a table is taken; ``dotted`` if it has the name of a catalog's table, and not a location."""
        name = _own_name(table, dotted=dotted)
        included = not self.include or any(fnmatchcase(name, pattern) for pattern in self.include)
        return included and not self.excludes(table, dotted=dotted)

    def excludes(self, table: str, *, dotted: bool) -> bool:
        """Whether a table is left out, however it is included; ``dotted`` as for `take`."""
        name = _own_name(table, dotted=dotted)
        return any(fnmatchcase(name, pattern) for pattern in self.exclude)


EVERY_NAME = NamePatterns()


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """
    Where tables are: a catalog, or directories.

    Attributes:
        catalog: A catalog in pyiceberg's configuration; ``catalog_properties`` override that configuration.
        namespace: The only namespace of the catalog to look into; None for all that match one of ``patterns``.
        roots: Directories whose tables are found too, in up to ``directories`` directories below each.
        names: The tables that are wanted, by their own names.
        tables: Tables by name, the only ones of the catalog; without a catalog by location.
    """

    catalog: str | None = None
    catalog_properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    namespace: str | None = None
    roots: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ("*",)
    directories: int = MOST_DIRECTORIES
    names: NamePatterns = EVERY_NAME
    tables: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What it is called where it cannot be looked into."""
        return self.namespace or self.catalog or ", ".join(self.roots or self.tables)

    def parts(self) -> list[Place]:
        """What can be looked into by itself: the catalog or the tables without one, and each root."""
        rest = [dataclasses.replace(self, roots=())] if self.catalog is not None or self.tables else []
        roots = dict.fromkeys(self.roots)
        return rest + [
            Place(roots=(root,), patterns=self.patterns, directories=self.directories, names=self.names)
            for root in roots
        ]


def each_once(found: Iterable[FoundTable], known: set[Hashable]) -> Iterator[FoundTable]:
    """
    The tables whose directory is not in ``known`` yet; adds it.

    Roots may lie within each other, and be one directory by other names.
    """
    for each in found:
        place = place_of(each.name)
        if place not in known:
            known.add(place)
            yield each


def found_below(tables: Tables, root: str, directories: int = MOST_DIRECTORIES) -> Iterator[FoundTable]:
    """What `Tables.tables_below` finds; if that is nothing, NotFoundError unless the root is a directory."""
    found = None
    for found in tables.tables_below(root, directories):
        yield found
    if found is None:  # a directory that is gone looks like an empty one
        _check_directory(root)


def tables_in_each(tables: Tables, namespaces: Iterable[str]) -> Iterator[FoundTable]:
    """The tables of these namespaces; one that cannot be listed comes with its error."""
    for namespace in namespaces:
        try:
            yield from tables.tables_in(namespace)
        except PuffinError as exc:
            yield FoundTable.unlisted(namespace, None, exc)


def _own_name(table: str, *, dotted: bool) -> str:
    return table.rpartition(".")[2].strip("`") if dotted else table.rstrip("/").rpartition("/")[2]


def table_key(name: str) -> str:
    """The same text for every spelling of a table's name: the absolute path of a local directory, or the name."""
    try:
        path = local_path(name) if "/" in name else None
    except UsageError:  # such as file:here/there
        return name
    return name.rstrip("/") if path is None else os.path.abspath(path)  # noqa: PTH100 - a Path would keep the dots


def tables_at(place: Place, tables: Tables | None = None) -> Iterator[FoundTable]:
    """
    Find the wanted tables of a place, one by one; ``tables`` lists them, a catalog that is open already if it has one.

    What is below several roots comes once, with its name below the first.
    What cannot be listed may hold wanted tables, whatever its name; only a directory that is excluded itself cannot.
    Raises UsageError, SetupError, StorageError or UnsupportedError if the catalog or a root cannot be used, and
    NotFoundError if a root is not a directory.
    """
    for each in _all_at(place, tables):
        dotted = each.root is None
        if each.error is None:
            is_wanted = place.names.take(each.name, dotted=dotted)
        else:
            is_wanted = dotted or not place.names.excludes(each.name, dotted=False)
        if is_wanted:
            yield each


def _all_at(place: Place, tables: Tables | None) -> Iterator[FoundTable]:
    known = set[Hashable]()
    tables = tables or Tables(place.catalog, place.catalog_properties)
    located = tables if place.catalog is None else Tables()
    for name in dict.fromkeys(place.tables):
        root = name if place.catalog is None else None
        named = FoundTable(name, root, None, functools.partial(tables.load, name))
        yield from (named,) if root is None else each_once((named,), known)
    for root in place.roots:
        yield from each_once(list(found_below(located, root, place.directories)), known)
    if place.catalog is None or place.tables:
        return
    if place.namespace is not None:
        yield from tables.tables_in(place.namespace)
    else:
        matched = (
            each for each in tables.namespaces() if any(fnmatchcase(each, pattern) for pattern in place.patterns)
        )
        yield from tables_in_each(tables, matched)


def _check_directory(root: str) -> None:
    store = store_for(root)
    if store.find(root) is not None:
        raise NotFoundError(f"{root}: expected a directory, found a file")
    if not store.exists(root):
        raise NotFoundError(f"{root}: no such directory")
