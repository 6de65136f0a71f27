"""
Which tables a caller may name.

The server serves a path only if it is below an allowed root after symbolic links and ``..`` are resolved. It serves an
object store's URI only if store (``s3a`` is ``s3``), authority and leading segments match a root, and no segment is one
that some file system resolves. Whatever is outside gets the same refusal, whether it exists or not.

Anyone who can write below a root can write any path into a table's metadata. So the same rules hold for every opened
file: `Roots.confine` stands between stores and file systems. A catalog is responsible for its own tables.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from puffin.errors import FileNotFound, StorageError, TableNotFound, UsageError
from puffin.server.problems import Problem
from puffin.storage import local_path
from puffin.storage.uri import SplitUri, has_controls, local_name, split, store_scheme

_METADATA_DIRECTORIES = ("metadata", "_delta_log")
_LONGEST_NAME = 4096  # PATH_MAX


class Roots:
    """
    The places below which tables are served: directories, or URI prefixes that end at the end of a segment.

    Raises UsageError if one is relative, is no directory, or is a URI that some file system does not take literally.
    """

    def __init__(self, uris: Sequence[str]) -> None:
        self.uris = tuple(uris)
        self._directories: list[str] = []
        self._prefixes: list[SplitUri] = []
        for uri in uris:
            path = local_path(uri)
            parts = split(uri)
            if path is not None:
                if not path.is_absolute() or not path.is_dir():
                    found = (
                        "a relative path" if not path.is_absolute() else "a file" if path.exists() else "nothing there"
                    )
                    raise UsageError(f"{uri}: expected an absolute path or URI of a directory to serve, found {found}")
                self._directories.append(os.path.realpath(path))
            elif parts is not None and _is_literal(parts):
                self._prefixes.append(parts)
            else:
                raise UsageError(f"{uri}: expected a URI to serve without '.', '..', '//', '?' and backslashes")

    def confine(self, uri: str) -> str:
        """What to open: a path with its links resolved, or a URI itself; FileNotFound if it is outside all roots."""
        if 0 < len(uri) <= _LONGEST_NAME and not has_controls(uri):
            with contextlib.suppress(UsageError):  # a file of another host
                path = local_name(uri)
                if path is None and self._has_uri(uri):
                    return uri
                if path is not None and self._has(resolved := os.path.realpath(path)):
                    return resolved
        raise FileNotFound(
            f"{uri[:_LONGEST_NAME]}: expected a file that this server may open, found one outside of its roots"
        )

    def check(self, table: str) -> None:
        """Check that a table is served: Problem 403 if it is outside all roots, TableNotFound if it is missing."""
        try:
            place = self.confine(table)
            if local_name(place) is not None:
                try:
                    Path(place).stat()
                except OSError as exc:  # missing, too long a name, a loop of links: no table in any case
                    raise TableNotFound(f"{table}: no such file or directory") from exc
                for below in _METADATA_DIRECTORIES:
                    self.confine(f"{place}/{below}")
        except FileNotFound:
            raise Problem(403, "forbidden", "the table is outside of what this server serves") from None

    def check_present(self) -> None:
        """Raise StorageError if a local root is missing."""
        for directory in self._directories:
            if not Path(directory).is_dir():
                raise StorageError(f"{directory}: expected a directory, since it is an allowed root")

    def _has_uri(self, uri: str) -> bool:
        parts = split(uri)
        return parts is not None and _is_literal(parts) and any(_is_below(parts, root) for root in self._prefixes)

    def _has(self, resolved: str) -> bool:
        return any(os.path.commonpath((root, resolved)) == root for root in self._directories)


def _is_literal(parts: SplitUri) -> bool:
    """Whether every file system takes the path literally, however it treats dots and double slashes."""
    segments = parts.path.removeprefix("/").removesuffix("/").split("/")
    unclear = {".", ".."} if segments == [""] else {"", ".", ".."}
    return not parts.query and "\\" not in parts.path and unclear.isdisjoint(segments)


def _is_below(parts: SplitUri, root: SplitUri) -> bool:
    # Hadoop and its engines have several schemes for one store, which open the same objects.
    same_store = (store_scheme(parts.scheme), parts.authority) == (store_scheme(root.scheme), root.authority)
    return same_store and f"{parts.path.rstrip('/')}/".startswith(f"{root.path.rstrip('/')}/")
