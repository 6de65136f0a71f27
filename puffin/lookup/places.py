"""Where tables are, a catalog or directories, and the tables that are found there."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

from puffin.errors import NotFoundError, PuffinError, UsageError
from puffin.load import MOST_DIRECTORIES, Tables
from puffin.storage import local_path, place_of, store_for
from puffin.tables.snapshot import Table


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
    """

    catalog: str | None = None
    catalog_properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    namespace: str | None = None
    roots: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ("*",)
    directories: int = MOST_DIRECTORIES
    names: NamePatterns = EVERY_NAME


@dataclasses.dataclass(frozen=True, slots=True)
class FoundTable:
    """
    A table that was found, or a namespace or directory that cannot be listed.

    Attributes:
        name: ``namespace.table`` in a catalog; otherwise the location.
        root: The root that it was found in; None in a catalog.
        load: Loads it.
        error: Why the namespace or directory of this name cannot be listed.
    """

    name: str
    root: str | None
    load: Callable[[], Table]
    error: PuffinError | None = None

    @property
    def dotted(self) -> str:
        """The name that patterns match: ``namespace.table``, or the path below the root with dots for slashes."""
        if self.root is None:
            return self.name
        root = self.root.rstrip("/")
        return self.name.removeprefix(root).strip("/").replace("/", ".") or root.rpartition("/")[2]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Found = TypeVar("_Found", bound=_Named)


def each_once(found: Iterable[_Found], known: set[Hashable]) -> Iterator[_Found]:
    """
    Those whose directories are not ``known`` yet, which they are from then on.

    Roots may lie within each other, and be one directory by other names.
    """
    for each in found:
        place = place_of(each.name)
        if place not in known:
            known.add(place)
            yield each


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
    Find the wanted tables of a place, one by one; ``tables`` are those of its catalog, if it is open already.

    What is below several roots comes once, with its name below the first.
    What cannot be listed may hold wanted tables, whatever its name; only a directory that is excluded itself cannot.
    Raises UsageError, SetupError or StorageError if the catalog or a root cannot be used, and NotFoundError if a
    root is not a directory.
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
    located, known = Tables(), set[Hashable]()
    for root in dict.fromkeys(place.roots):
        below = located.tables_below(root, place.directories)
        found = [FoundTable(each.name, root, each.load, each.error) for each in below]
        if not found:
            _check_directory(root)
        yield from each_once(found, known)
    if place.catalog is None:
        return
    tables = tables or Tables(place.catalog, place.catalog_properties)
    if place.namespace is not None:
        yield from (_found(tables, name) for name in tables.of_namespace(place.namespace))
        return
    for namespace in tables.namespaces():
        if not any(fnmatchcase(namespace, pattern) for pattern in place.patterns):
            continue
        try:
            names = tables.of_namespace(namespace)
        except PuffinError as exc:
            yield dataclasses.replace(_found(tables, namespace), error=exc)
        else:
            yield from (_found(tables, name) for name in names)


def _check_directory(root: str) -> None:
    store = store_for(root)
    if store.find(root) is not None:
        raise NotFoundError(f"{root}: expected a directory, found a file")
    if not store.exists(root):
        raise NotFoundError(f"{root}: no such directory")


def _found(tables: Tables, name: str) -> FoundTable:
    return FoundTable(name, None, lambda: tables.load(name))
