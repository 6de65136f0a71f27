"""
File-system tables: a directory whose ``metadata/`` holds numbered versions, and no catalog.

``version-hint.text`` names the current version, but it is written after the version itself, so it may be
missing or stale: from the version it names the next ones are tried. A commit is a new version file that must
not exist yet; the store's put-if-absent is what makes it atomic (spec, "File System Tables").
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Mapping

from puffin.errors import ConflictError, FileNotFound, PuffinError, TableNotFound, UnsupportedTableError
from puffin.storage import Store, join, local_path, store_for
from puffin.tables.base import StatisticsEntry, TableState
from puffin.tables.iceberg_metadata import decode_document, encode_document, parse_state
from puffin.tables.iceberg_patch import version_of, with_statistics

HINT = "version-hint.text"
_HINT_CHECKSUM = f".{HINT}.crc"
# A version is written plain or gzip; older Iceberg put the compression last.
_EXTENSIONS = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_OWN_VERSION = re.compile(r"v(\d+)(\.gz\.metadata\.json|\.metadata\.json\.gz|\.metadata\.json)")
_CATALOG_VERSION = re.compile(r"(\d+)-[^/]*?(?:\.gz\.metadata\.json|\.metadata\.json\.gz|\.metadata\.json)")


class IcebergDirectory:
    """
    An Iceberg table by its directory.

    Attributes:
        name: The directory, as it was given.
        io_properties: Empty: such a table has no catalog to get credentials from.
    """

    def __init__(self, directory: str) -> None:
        self.name = directory
        self.io_properties: Mapping[str, str] = {}
        self._metadata = join(directory.rstrip("/"), "metadata")
        self._files = store_for(directory)

    def load(self) -> TableState:
        """
        The table as it is now.

        Raises:
            TableNotFound: There is no metadata file.
            CorruptMetadataError, UnsupportedTableError: It is not metadata that this version understands.
        """
        location = self._current()
        return parse_state(decode_document(self._files.read(location), location), location)

    def store(self, uri: str) -> Store:
        """The store that holds one of the table's files."""
        return store_for(uri)

    def commit(self, base: TableState, entry: StatisticsEntry) -> TableState:
        """
        Write the version after ``base``; returns ``base``, since no other can come between.

        Raises:
            ConflictError: That version exists already.
            UnsupportedTableError: The table belongs to a catalog, which would not notice.
            UnsupportedError: The store cannot write a file only if it does not exist yet.
        """
        own = _OWN_VERSION.fullmatch(base.metadata_location.rpartition("/")[2])
        if own is None:
            raise UnsupportedTableError(
                f"{self.name}: {base.metadata_location} was written by a catalog, and a commit behind its back would "
                "be lost: name the table with --catalog, or use --no-commit"
            )
        self._check_at_home(base)
        version, extension = int(own[1]) + 1, own[2]
        if self._existing(version) is not None:
            raise ConflictError(f"{self.name}: version {version} exists already")
        logged = dataclasses.replace(base, metadata_location=f"{base.location}/metadata/{own[0]}")
        following = with_statistics(logged, entry, time.time_ns() // 1_000_000)
        data = encode_document(following.document, compress=extension != _EXTENSIONS[0])
        self._files.put_if_absent(join(self._metadata, f"v{version}{extension}"), data)
        self._write_hint(version)
        for location in following.superseded:
            _delete_quietly(self.store(location), location)
        return base

    def _check_at_home(self, base: TableState) -> None:
        # A copy of a table still names the original's files: its statistics would be written over there.
        here, home = local_path(self.name), local_path(base.location)
        if here is not None and (home is None or here.resolve() != home.resolve()):
            raise UnsupportedTableError(
                f"{self.name}: expected a table at this place, found metadata of {base.location}"
            )

    def _current(self) -> str:
        hint = self._hint()
        if hint is not None and not hint.isdecimal():
            # Some writers put a whole file name there, with or without its extension.
            named = join(self._metadata, hint if hint.endswith(_EXTENSIONS) else f"{hint}{_EXTENSIONS[0]}")
            if self._files.exists(named):
                return named
        at = self._existing(int(hint)) if hint is not None and hint.isdecimal() else None
        if at is None:
            return self._newest_listed()
        while (following := self._existing(version_of(at) + 1)) is not None:
            at = following
        return at

    def _hint(self) -> str | None:
        try:
            return self._files.read(join(self._metadata, HINT)).decode().strip()
        except (FileNotFound, UnicodeDecodeError):
            return None

    def _existing(self, version: int) -> str | None:
        locations = (join(self._metadata, f"v{version}{extension}") for extension in _EXTENSIONS)
        return next((location for location in locations if self._files.exists(location)), None)

    def _newest_listed(self) -> str:
        found: list[tuple[bool, int, float, str]] = []
        for file in self._files.list(self._metadata):
            for own, pattern in ((True, _OWN_VERSION), (False, _CATALOG_VERSION)):
                if match := pattern.fullmatch(file.name):
                    found.append((own, int(match[1]), file.mtime.timestamp() if file.mtime else 0.0, file.uri))
        if not found:
            raise TableNotFound(f"{self.name}: no Iceberg metadata file in {self._metadata}")
        return max(found)[-1]

    def _write_hint(self, version: int) -> None:
        # The commit is done: a stale hint costs later readers a look, a wrong checksum beside it fails Hadoop's.
        checksum = join(self._metadata, _HINT_CHECKSUM)
        _delete_quietly(self._files, checksum)
        try:
            self._files.replace(join(self._metadata, HINT), str(version).encode())
        except PuffinError:
            return


def _delete_quietly(store: Store, uri: str) -> None:
    try:
        store.delete(uri)
    except PuffinError:
        return
