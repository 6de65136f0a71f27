"""Finds a table by the name a user gives it. What is stored there decides its kind, never the look of the name."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from puffin.cached import cached_property
from puffin.errors import FileNotFound, PuffinError, StorageError, TableNotFound, UsageError
from puffin.storage import Store, has_escapes, has_query, join, local_path, store_for
from puffin.tables.arguments import NameOrPath
from puffin.tables.snapshot import Table

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from puffin.iceberg.catalogs.sql import SqlDatabase

_METADATA, _DELTA_LOG = "metadata", "_delta_log"
ICEBERG, DELTA = "iceberg", "delta"
MOST_DIRECTORIES = 10_000  # searched below one root


@dataclasses.dataclass(frozen=True, slots=True)
class FoundTable:
    """
    A table that was found, or a directory, namespace or catalog that cannot be listed.

    Attributes:
        name: ``namespace.table`` in a catalog; otherwise the location.
        root: The root that it was found in, its own name if it was named; None in a catalog.
        format: ``"iceberg"`` or ``"delta"``; None with an error, and before a table that was named is loaded.
        load: Loads it as `Tables.load` does, without a second look at what is stored there; raises ``error``.
        error: Why what has this name cannot be listed.
        is_cut: With an error, whether it stands for directories that were not searched, since there are too many.
    """

    name: str
    root: str | None
    format: str | None
    load: Callable[[], Table]
    error: PuffinError | None = None
    is_cut: bool = False

    @classmethod
    def unlisted(cls, name: str, root: str | None, error: PuffinError, *, is_cut: bool = False) -> FoundTable:
        """What cannot be listed, and may hold tables."""
        return cls(name, root, None, functools.partial(_raise, error), error, is_cut)

    @property
    def dotted(self) -> str:
        """The name that patterns match: ``namespace.table``, or the path below the root with dots for slashes."""
        if self.root is None:
            return self.name
        root = self.root.rstrip("/")
        return self.name.removeprefix(root).strip("/").replace("/", ".") or root.rpartition("/")[2]


def load_table(
    table: NameOrPath, *, catalog: str | None = None, catalog_properties: Mapping[str, str] | None = None
) -> Table:
    """
    Open the table of this name.

    Args:
        table: The path or URI of a table directory or an Iceberg metadata file; with ``catalog``, ``namespace.table``.
        catalog: A catalog in pyiceberg's configuration; ``catalog_properties`` override that configuration.

    Raises:
        TableNotFound: No table is there.
        UnsupportedTableError: This version cannot commit to tables of that catalog.
        SetupError: The catalog is not configured.
        UsageError: The name does not fit the catalog, or is a directory's URI with a query.
        StorageError: The storage does not answer.
    """
    return Tables(catalog, catalog_properties).load(table)


class Tables:
    """
    The tables of catalogs, each opened when it is first used; without a catalog, tables by their locations.

    Args:
        others: More catalogs with their properties; the names of their namespaces and tables begin with ``CATALOG:``.
            Those of the first may do so too.
        locations: With a catalog, load a name that contains a slash as a table's location.
        store_for: Opens the files of tables found by location. A catalog's properties open the files of its tables.
        heard: Called whenever a directory or a namespace was listed, of which there may be many without tables.
    """

    def __init__(
        self,
        catalog: str | None = None,
        catalog_properties: Mapping[str, str] | None = None,
        *,
        others: Mapping[str, Mapping[str, str]] | None = None,
        locations: bool = False,
        store_for: Callable[[str], Store] = store_for,
        heard: Callable[[], object] = lambda: None,
    ) -> None:
        if catalog is None and (catalog_properties or others):
            raise UsageError(f"{'catalog_properties' if catalog_properties else 'other catalogs'} need a catalog")
        self.catalog = catalog
        self.others = {name: Tables(name, properties) for name, properties in (others or {}).items()}
        self._properties = dict(catalog_properties or {})
        self._locations = locations
        self._store_for = store_for
        self._heard = heard
        self._opening = threading.Lock()

    def load(self, name: NameOrPath) -> Table:
        """Load the table of this name; raises what `load_table` raises."""
        name = os.fspath(name)
        if self.catalog is None or (self._locations and "/" in name):
            return _table_at(name, self._store_for)
        named, inside = self.split(name)
        if "." not in inside or not all(inside.split(".")):
            hint = "; name a path in a call without --catalog (in Python catalog)" if "/" in name else ""
            raise UsageError(f"{name}: expected namespace.table, since a catalog is named{hint}")
        if any("\ud800" <= char <= "\udfff" for char in name):  # which no library of a catalog can send
            raise TableNotFound(f"{name}: no such table, since its name is not UTF-8")
        from puffin.iceberg.catalogs.named import table_of

        of = self if named is None else named
        table = table_of(of._opened_for_tables(), str(of.catalog), inside)
        table.name = name
        return table

    def tables_below(self, root: NameOrPath, most: int = MOST_DIRECTORIES) -> Iterator[FoundTable]:
        """
        Yield the directories below a root that look like tables or cannot be listed, or the root itself, if it is one.

        The search skips links and directories whose names begin with a dot or an underscore. It takes near directories
        first, and stops after ``most`` directories. If there are more, what comes last is the root with an error and
        ``is_cut``. Raises StorageError if the root cannot be listed.
        """
        root = os.fspath(root)
        store = self._store_for(root)
        waiting, is_cut = [root.rstrip("/") or root], False
        for directory in waiting:  # it grows
            try:
                inside = store.directories(directory)
                found = _format_in(store, directory, inside)
            except (FileNotFound, StorageError) as exc:  # missing is what a server may not open
                if directory is waiting[0]:
                    raise
                # If all of the store is down, each directory would take its time to say so.
                store.directories(waiting[0])
                yield FoundTable.unlisted(directory, root, exc)
                continue
            self._heard()
            if found is not None:
                table_at = _delta_at if found == DELTA else _iceberg_at
                yield FoundTable(directory, root, found, functools.partial(self._below, table_at, directory))
            else:
                room = most - len(waiting)
                below = [join(directory, name) for name in inside if not name.startswith((".", "_"))]
                waiting += below[:room]
                is_cut |= len(below) > room
        if is_cut:
            why = f"expected at most {most:,} directories, found more; name those that the tables are in"
            yield FoundTable.unlisted(root, root, StorageError(f"{root}: {why}"), is_cut=True)

    def tables_in(self, namespace: str) -> list[FoundTable]:
        """The tables of a namespace, sorted by name; raises what `load_table` raises."""
        named, inside = self.split(namespace)
        names = self.of_namespace(namespace) if named is None else map(named.named, named.of_namespace(inside))
        return [FoundTable(name, None, ICEBERG, functools.partial(self.load, name)) for name in names]

    def split(self, name: str) -> tuple[Tables | None, str]:
        """The catalog that a name begins with, None without one, and the rest of the name."""
        catalog, colon, inside = name.partition(":")
        if not colon:
            return None, name
        named = self if catalog == self.catalog else self.others.get(catalog)
        return named, name if named is None else inside

    def named(self, inside: str) -> str:
        """The name of a namespace or a table of this catalog among those of several."""
        return f"{self.catalog}:{inside}"

    def namespaces(self) -> list[str]:
        """The dotted names of the catalog's namespaces, sorted; raises what `load_table` raises."""
        from puffin.iceberg.sdk import list_namespaces

        return list_namespaces(self._opened(), self._heard)

    def namespace_properties(self, namespace: str) -> dict[str, str]:
        """The properties of a namespace, none if it does not exist; raises what `load_table` raises."""
        from puffin.iceberg.sdk import namespace_properties

        return namespace_properties(self._opened(), namespace)

    def of_namespace(self, namespace: str) -> list[str]:
        """The names of a namespace's tables, sorted; raises what `load_table` raises."""
        from puffin.iceberg.sdk import list_tables

        found = list_tables(self._opened(), namespace)
        self._heard()
        return found

    def versions_of_namespace(self, namespace: str) -> dict[str, str]:
        """
        The current metadata files of a namespace's tables by name, where one list of the catalog tells them, else none.

        Raises StorageError if the catalog fails.
        """
        from puffin.iceberg.catalogs.named import listed_versions

        return listed_versions(self._opened(), str(self.catalog), namespace)

    def _below(self, table_at: Callable[[str, Callable[[str], Store]], Table], name: str) -> Table:
        return self.load(name) if has_query(name) else table_at(name, self._store_for)

    def _opened(self) -> Catalog:
        with self._opening:
            return self._catalog

    def _opened_for_tables(self) -> Catalog | SqlDatabase:
        with self._opening:
            return self._database or self._catalog

    @cached_property
    def _database(self) -> SqlDatabase | None:
        from puffin.iceberg.catalogs.named import sql_database

        return sql_database(str(self.catalog), self._properties)

    @cached_property
    def _catalog(self) -> Catalog:
        if self.catalog is None:
            raise UsageError("namespaces need a catalog")
        from puffin.iceberg.catalogs.named import opened_catalog

        return opened_catalog(self.catalog, self._properties)


def _raise(error: PuffinError) -> Table:
    raise error


def _table_at(location: str, store_for: Callable[[str], Store]) -> Table:
    store = store_for(location)
    if local_path(location) is not None and not store.exists(location):
        is_name = "." in location.strip(".") and "/" not in location
        hint = "; for a table of a catalog, pass --catalog (in Python catalog)" if is_name else ""
        if has_escapes(location):
            hint = "; names are not decoded, so write a blank as a blank, not as %20"
        raise TableNotFound(f"{location}: no such file or directory{hint}")
    if store.find(location) is not None:
        from puffin.iceberg.catalogs.file import IcebergMetadataFile

        return IcebergMetadataFile(location, store_for)
    if has_query(location):
        raise UsageError(
            f"{location}: expected a table's location without '?', since its metadata names files without it: "
            "configure the store in the environment (AWS_ENDPOINT_URL), or use a catalog"
        )
    if store.exists(join(location, _DELTA_LOG)):
        return _delta_at(location, store_for)
    from puffin.iceberg.catalogs.directory import HINT

    metadata = join(location, _METADATA)
    # A folder of metadata may have very many files.
    if store.find(join(metadata, HINT)) is None and not store.list(metadata):
        is_inside = location.rstrip("/").rpartition("/")[2] in (_DELTA_LOG, _METADATA)
        below = "; only Iceberg and Delta tables are read; puffin status --root finds those below a directory"
        hint = "; name the directory that it is in" if is_inside else below
        raise TableNotFound(f"{location}: expected a table: _delta_log or metadata in it, found neither{hint}")
    return _iceberg_at(location, store_for)


def _delta_at(location: str, store_for: Callable[[str], Store]) -> Table:
    from puffin.delta.directory import DeltaDirectory

    return DeltaDirectory(location, store_for)


def _iceberg_at(location: str, store_for: Callable[[str], Store]) -> Table:
    from puffin.iceberg.catalogs.directory import IcebergDirectory

    return IcebergDirectory(location, store_for)


def _format_in(store: Store, directory: str, inside: Sequence[str]) -> str | None:
    """The format of the table that a directory with these directories looks like; None if it looks like none."""
    if _DELTA_LOG in inside:
        return DELTA
    if _METADATA not in inside:
        return None
    files = store.list(join(directory, _METADATA))
    return ICEBERG if any(".metadata.json" in file.name for file in files) else None
