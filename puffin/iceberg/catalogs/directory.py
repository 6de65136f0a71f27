"""
File-system tables: a directory with numbered versions in ``metadata/``, and no catalog.

``version-hint.text`` names the current version. Writers write it after the version itself, so it may be missing or
stale, and the reader tries the following versions too. A commit writes a new version file that must not exist yet; the
store's put-if-absent makes it atomic (spec, "File System Tables").
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from puffin.errors import (
    ConflictError,
    CorruptMetadataError,
    FileNotFound,
    PuffinError,
    TableNotFound,
    UnsupportedTableError,
)
from puffin.iceberg.metadata.document import encode_document, read_current_state, read_state
from puffin.iceberg.stores import delete_quietly
from puffin.iceberg.table import IcebergSnapshot, IcebergTableInFiles
from puffin.storage import FileInfo, Store, is_same_place, join, store_for
from puffin.tables.base import SnapshotSelector
from puffin.tables.snapshot import CURRENT
from puffin.tables.state import TableState

if TYPE_CHECKING:
    from puffin.iceberg.commit.patch import NextVersion

HINT = "version-hint.text"
_LONGEST_HINT = 4096  # bytes
_HINT_CHECKSUM = f".{HINT}.crc"
# Versions are plain or gzip; older Iceberg put the compression last.
_EXTENSIONS = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_ANY_EXTENSION = "|".join(map(re.escape, _EXTENSIONS))
_OWN_VERSION = re.compile(rf"v([0-9]{{1,10}})({_ANY_EXTENSION})")
_CATALOG_VERSION = re.compile(rf"([0-9]{{1,10}})-[^/]*?(?:{_ANY_EXTENSION})")
# The hint is a number; some writers put a file's name there, with or without an extension.
_HINTED_VERSION = re.compile(rf"v?([0-9]{{1,10}})(?:{_ANY_EXTENSION})?")


class IcebergDirectory(IcebergTableInFiles):
    """An Iceberg table by its directory, which is its name."""

    def __init__(self, directory: str, store_for: Callable[[str], Store] = store_for) -> None:
        super().__init__(directory, store_for)
        self._metadata = join(directory.rstrip("/"), "metadata")
        self._files = store_for(directory)

    def open(self, selector: SnapshotSelector = CURRENT) -> IcebergSnapshot:
        return self._bound(read_current_state(self._current, self._read), selector)

    def refresh(self, opened: IcebergSnapshot, selector: SnapshotSelector) -> IcebergSnapshot:
        return opened.of(selector) if self._current() == opened.state.metadata_file else self.open(selector)

    def check_committable(self, state: TableState, *, ask_store: bool) -> None:
        """Refuse a catalog's table, the copy of a table, and a store that cannot swap versions."""
        _own_version(state)
        # A copy still names the original's location, so its statistics would go there.
        if not is_same_place(self.name, state.location):
            raise UnsupportedTableError(
                f"{self.name}: expected this table's metadata, found that of {state.location} (a copy?)"
            )
        if ask_store:
            self._files.check_put_if_absent(join(self._metadata, HINT))

    def _follow(self, base: TableState, change: Callable[[TableState], NextVersion]) -> None:
        own = _own_version(base)
        version, extension = int(own[1]) + 1, own[2]
        # A free name is not enough: the next version may have come and been deleted with the log that named it.
        if self._existing(version) is not None or self._current() != base.metadata_file:
            raise ConflictError(f"{self.name}: another writer committed after {base.metadata_location}")
        logged = dataclasses.replace(base, metadata_location=f"{base.location}/metadata/{own[0]}")
        following = change(logged)
        data = encode_document(following.document, compress=extension != _EXTENSIONS[0])
        # No other writer would write the same, since the path of the entry is new.
        self._files.put_once(join(self._metadata, f"v{version}{extension}"), data)
        self._write_hint(version)
        for location in following.superseded:
            delete_quietly(location, self._store_for)

    def _read(self, file: FileInfo) -> TableState:
        return dataclasses.replace(read_state(file.uri, self._files), metadata_file=file)

    def _current(self) -> FileInfo:
        hint = self._hint()
        if numbered := _HINTED_VERSION.fullmatch(hint):
            return self._newest_from(int(numbered[1])) or self._newest_listed()
        name = hint if hint.endswith(_EXTENSIONS) else f"{hint}{_EXTENSIONS[0]}"
        named = self._files.find(join(self._metadata, name)) if _CATALOG_VERSION.fullmatch(name) else None
        return named or self._newest_listed()

    def _hint(self) -> str:
        try:
            return self._files.read(join(self._metadata, HINT), _LONGEST_HINT).decode().strip()
        except (FileNotFound, CorruptMetadataError, UnicodeDecodeError):
            return ""

    def _newest_from(self, version: int) -> FileInfo | None:
        newest = None
        while (found := self._existing(version)) is not None:
            newest, version = found, version + 1
        return newest

    def _existing(self, version: int) -> FileInfo | None:
        files = (self._files.find(join(self._metadata, f"v{version}{extension}")) for extension in _EXTENSIONS)
        return next((file for file in files if file is not None), None)

    def _newest_listed(self) -> FileInfo:
        found: list[tuple[bool, int, float, str, FileInfo]] = []
        for file in self._files.list(self._metadata):
            for own, pattern in ((True, _OWN_VERSION), (False, _CATALOG_VERSION)):
                if match := pattern.fullmatch(file.name):
                    found.append((own, int(match[1]), file.mtime.timestamp() if file.mtime else 0.0, file.uri, file))
        if not found:
            raise TableNotFound(f"{self.name}: no Iceberg metadata file in {self._metadata}")
        return max(found)[-1]

    def _write_hint(self, version: int) -> None:
        # The commit is done. A stale hint costs readers one more look, but a wrong checksum makes Hadoop readers fail.
        delete_quietly(join(self._metadata, _HINT_CHECKSUM), self._store_for)
        try:
            self._files.replace(join(self._metadata, HINT), str(version).encode())
        except PuffinError:
            return


def _own_version(state: TableState) -> re.Match[str]:
    own = _OWN_VERSION.fullmatch(state.metadata_location.rpartition("/")[2])
    if own is None:
        raise UnsupportedTableError(
            f"{state.metadata_location} was written by a catalog, and a commit that bypasses it would be lost: "
            "name the table in that catalog (--catalog, in Python catalog, or catalogs of a policy); without a commit, "
            "puffin analyze --no-commit (in Python commit=False) and puffin index work on it"
        )
    return own
