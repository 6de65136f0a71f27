"""
The files of a Delta log by name, and which of them make a version (protocol, "File Types").

The listing alone shows which checkpoints are complete, so ``_last_checkpoint`` is never read: it may be right, stale,
broken or missing. Files that reading does not need are ignored: checksums, log compactions, staged commits and others.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping

from puffin.delta.log.actions import Metadata, Protocol
from puffin.errors import CorruptMetadataError, SnapshotNotFound, TableNotFound
from puffin.storage import FileInfo, Store, join

LOG = "_delta_log"

_COMMIT = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint(?:\.[0-9A-Fa-f-]{36}\.json|(?:\.[0-9A-Fa-f-]{36})?\.parquet)")
_CHECKPOINT_PART = re.compile(r"([0-9]{20})\.checkpoint\.([0-9]{10})\.([0-9]{10})\.parquet")


@dataclasses.dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete version in one file, or in all the parts of a multi-part checkpoint."""

    version: int
    parts: tuple[FileInfo, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class CheckpointContent:
    """
    A version as its checkpoint describes it, beside its files.

    ``protocol`` and ``metadata`` are None before any commit; ``sidecars`` are URIs of files with more of its files.
    """

    protocol: Protocol | None
    metadata: Metadata | None
    sidecars: tuple[str, ...]


BEFORE_ANY_COMMIT = Checkpoint(-1, ())
"""The empty checkpoint from which all commits are replayed."""
NO_CONTENT = CheckpointContent(None, None, ())
"""What it has."""


@dataclasses.dataclass(frozen=True, slots=True)
class LogFiles:
    """One listing of a log: the log entries by version, and complete checkpoints, newest first."""

    directory: str
    commits: Mapping[int, FileInfo]
    checkpoints: tuple[Checkpoint, ...]

    @property
    def newest(self) -> int:
        """The newest version that has a log entry or a checkpoint."""
        return max((*self.commits, *(checkpoint.version for checkpoint in self.checkpoints)))

    def starts(self, version: int) -> tuple[Checkpoint, ...]:
        """
        Each checkpoint that makes the version together with later commits, newest first.

        All versions from the last of them on can be made.

        Raises:
            SnapshotNotFound: The version does not exist yet, or no longer.
            CorruptMetadataError: A log entry is missing that newer versions need too.
        """
        if not 0 <= version <= self.newest:
            raise SnapshotNotFound(f"{self.directory}: no version {version}; the newest is {self.newest}")
        if starts := self._starts(version):
            return starts
        if left := self._starts(self.newest):
            raise SnapshotNotFound(
                f"{self.directory}: version {version} can no longer be made: its log entries have been cleaned up; "
                f"the oldest that can is {max(left[-1].version, 0)}"
            )
        missing = commit_name(self._first_in_a_row(version) - 1)
        raise CorruptMetadataError(
            f"{join(self.directory, missing)}: expected this log entry, or a complete checkpoint between it and "
            f"version {version}, found neither"
        )

    def first_since(self, version: int) -> int:
        """The oldest version from this one on that can be made; the newest if there is none."""
        if 0 <= version <= self.newest and self._starts(version):
            return version
        # After a gap, a version needs a checkpoint from after the gap.
        return min((c.version for c in self.checkpoints if c.version > version), default=self.newest)

    def _starts(self, version: int) -> tuple[Checkpoint, ...]:
        first = self._first_in_a_row(version)
        found = (*self.checkpoints, BEFORE_ANY_COMMIT)
        return tuple(checkpoint for checkpoint in found if first - 1 <= checkpoint.version <= version)

    def _first_in_a_row(self, version: int) -> int:
        """The first of the consecutive commits that end with this version; the next version if it has no commit."""
        while version in self.commits:
            version -= 1
        return version + 1


def commit_name(version: int) -> str:
    return f"{version:020d}.json"


def list_log(location: str, store: Store) -> LogFiles:
    """List the log of the table at a location; TableNotFound if there is none or it is empty."""
    directory = join(location, LOG)
    files = store.list(directory)
    commits = {int(match[1]): file for file in files if (match := _COMMIT.fullmatch(file.name))}
    checkpoints = _checkpoints(files)
    if not commits and not checkpoints:
        raise TableNotFound(f"{directory}: expected a Delta log, found no log entry and no complete checkpoint")
    return LogFiles(directory, commits, checkpoints)


def _checkpoints(files: Iterable[FileInfo]) -> tuple[Checkpoint, ...]:
    whole: list[Checkpoint] = []
    in_parts: dict[tuple[int, int], dict[int, FileInfo]] = {}
    for file in files:
        if match := _CHECKPOINT.fullmatch(file.name):
            whole.append(Checkpoint(int(match[1]), (file,)))
        elif match := _CHECKPOINT_PART.fullmatch(file.name):
            version, part, parts = map(int, match.groups())
            if 1 <= part <= parts:
                in_parts.setdefault((version, parts), {})[part] = file
    for (version, parts), found in in_parts.items():
        if len(found) == parts:
            whole.append(Checkpoint(version, tuple(found.values())))
    return tuple(sorted(whole, key=lambda checkpoint: checkpoint.version, reverse=True))
