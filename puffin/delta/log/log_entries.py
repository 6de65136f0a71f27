"""
Reads and parses several log entries at a time, and keeps the latest ones.

Log entries never change, so what was parsed stays true; their number is limited by the actions that they have.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from puffin.delta.log.actions import Commit, parse_commit
from puffin.storage import FileInfo, LocalStore, Store

_READERS = 8  # of log entries, at the same time
_KEPT_ACTIONS = 200_000  # on files, plus one for each kept log entry


class LogEntries:
    """The log entries of a table."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        # The key is the whole file info, since a recreated table has other entries of the same name.
        self._kept: dict[FileInfo, Commit] = {}
        self._kept_actions = 0

    def read(self, entries: list[tuple[int, FileInfo]]) -> list[Commit]:
        with self._lock:
            found = {file: self._kept[file] for _, file in entries if file in self._kept}
        missing = [(version, file) for version, file in entries if file not in found]
        # A local file is read in less time than a thread takes to start.
        if len(missing) > (_READERS if isinstance(self._store, LocalStore) else 1):
            from puffin.work_off import work_off  # with what it imports, it takes longer than a small log

            parts = work_off(deque(missing), self._parsed, threads=_READERS, alone_seconds=0, name="puffin-log")
        else:
            parts = [self._parsed(missing)]
        parsed = {file: commit for part in parts for file, commit in part.items()}
        for _, file in missing:  # in their order, so that the latest are kept
            self._keep(file, parsed[file])
        found |= parsed
        return [found[file] for _, file in entries]

    def kept(self, entries: Iterable[tuple[int, FileInfo]]) -> dict[int, Commit]:
        """Those of these entries that need not be read, by version."""
        with self._lock:
            return {version: self._kept[file] for version, file in entries if file in self._kept}

    def _parsed(self, entries: Iterable[tuple[int, FileInfo]]) -> dict[FileInfo, Commit]:
        return {file: parse_commit(self._store.read(file.uri), version, file.uri) for version, file in entries}

    def _keep(self, file: FileInfo, commit: Commit) -> None:
        with self._lock:
            if file not in self._kept:
                self._kept[file] = commit
                self._kept_actions += _actions(commit)
            while self._kept_actions > _KEPT_ACTIONS:
                oldest = next(iter(self._kept))
                self._kept_actions -= _actions(self._kept.pop(oldest))


def _actions(commit: Commit) -> int:
    return len(commit.adds) + len(commit.removes) + 1
