"""
Replays the Delta log: from its files to a version's protocol, metadata, live files and time.

A version is the newest checkpoint up to it, changed by the commits after that (protocol, "Action Reconciliation"). An
unreadable checkpoint matters only if the commits and checkpoints before it have been cleaned up, since it repeats what
the log said before.
"""

from __future__ import annotations

import bisect
import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from puffin.cached import cached_property
from puffin.delta.log.actions import (
    AddFile,
    Commit,
    FileKey,
    FileWithStatistics,
    Metadata,
    Protocol,
    read_file_statistics,
)
from puffin.delta.log.log_entries import LogEntries
from puffin.delta.log.log_files import NO_CONTENT, Checkpoint, CheckpointContent, LogFiles, commit_name, list_log
from puffin.delta.log.protocol import in_commit_timestamps_enabled
from puffin.errors import CorruptMetadataError, FileNotFound, SnapshotNotFound, UnsupportedError
from puffin.storage import FileInfo, Store, join
from puffin.tables.base import natural_number

if TYPE_CHECKING:
    from puffin.delta.log.checkpoints import Outline

Changed: TypeAlias = dict[FileKey, AddFile | None]
"""Files that commits are about, each as its last action has it; None if that removed it."""

_Result = TypeVar("_Result")

_IN_COMMIT_TIMESTAMPS_SINCE = "delta.inCommitTimestampEnablementVersion"

_EPOCH = datetime.datetime.fromtimestamp(0, datetime.timezone.utc)


class DeltaLog:
    def __init__(self, location: str, store: Store) -> None:
        self.location = location
        self.store = store
        self._entries = LogEntries(store)

    def segment(self, version: int | None = None) -> LogSegment:
        """
        The part of the log that makes a version, by default the newest; raises what `LogFiles.starts` raises.

        If the log entries of the version have been cleaned up, but only notes lead from it to a checkpoint, the segment
        ends there: it has the same rows.
        """
        try:
            return self._listed(version)
        except CorruptMetadataError:
            # A listing is not atomic: it may see a file written meanwhile and miss an earlier one.
            return self._listed(version)

    def _listed(self, version: int | None) -> LogSegment:
        files = list_log(self.location, self.store)
        wanted = files.newest if version is None else version
        made = files.first_since(wanted)
        if wanted < made:
            segment = LogSegment(files, made, self.store, self._entries)
            if segment.only_adds_notes_to(wanted):
                return segment
        return LogSegment(files, wanted, self.store, self._entries)


class LogSegment:
    """
    The checkpoints and commits that make a version, as the log was when it was listed.

    Methods that read the log raise CorruptMetadataError for a file that cannot be parsed, FileNotFound for a missing
    file, UnsupportedTableError for a table whose files are not Parquet, and StorageError.

    Attributes:
        newest_version: The newest version in the log.
        oldest_version: Every version from this one up to the segment's can be made.
        checkpoint_version: The newest checkpoint that the version can be made from; None if there is none.
    """

    def __init__(self, files: LogFiles, version: int, store: Store, entries: LogEntries) -> None:
        self._files = files
        self._store = store
        self._entries = entries
        self._starts = files.starts(version)
        self._contents: dict[Checkpoint, CheckpointContent] = {}
        self.version = version
        self.newest_version = files.newest
        self.oldest_version = max(self._starts[-1].version, 0)
        self.checkpoint_version = self._starts[0].version if self._starts[0].parts else None

    def at(self, version: int) -> LogSegment:
        """The segment of another version in the same listing; raises what `DeltaLog.segment` raises."""
        return LogSegment(self._files, version, self._store, self._entries)

    def first_since(self, version: int) -> int:
        """The oldest version from this one on that can still be made."""
        if self.oldest_version <= version <= self.version:
            return version
        return self._files.first_since(version)

    def only_adds_notes_to(self, version: int) -> bool:
        """Whether every later version up to this one has its log entry left, and that is a note."""
        later = range(version + 1, self.version + 1)
        commits = self.commits_left(later)
        return len(commits) == len(later) and all(commit.is_note for commit in commits.values())

    def is_newest(self) -> bool:
        """Whether nothing was committed since the log was listed, and no recreated table has replaced this one."""
        newest = self._files.commits.get(self.newest_version)
        if newest is None:
            return False  # only a checkpoint of it is left
        is_there = self._store.find(newest.uri) == newest
        following = join(self._files.directory, commit_name(self.newest_version + 1))
        return is_there and not self._store.exists(following)

    @cached_property
    def protocol_and_metadata(self) -> tuple[Protocol, Metadata]:
        """The table's description at this version, read once; reads no more of a checkpoint than necessary."""
        start, content = self._start
        protocol, metadata = content.protocol, content.metadata
        for commit in self.commits(after=start.version):
            protocol, metadata = commit.protocol or protocol, commit.metadata or metadata
        if protocol is None or metadata is None:
            raise CorruptMetadataError(
                f"{self._files.directory}: expected a protocol and a metaData action up to version {self.version}, "
                f"found no {'protocol' if protocol is None else 'metaData'}"
            )
        return protocol, metadata

    def fold_files(
        self, fold: Callable[[Iterator[FileWithStatistics]], _Result], *, with_statistics: bool = False
    ) -> _Result:
        """
        What ``fold`` returns for the version's live files, of which only a few are in memory at a time.

        The newest action counts for each path with its deletion vector. ``fold`` is called again, with the files of an
        older checkpoint, if one turns out to be unreadable.
        """
        return self._first_readable(lambda start: fold(self._live_files(start, with_statistics=with_statistics)))

    def outline(self, most_rows: int, least_files: int, worth_bytes: int) -> tuple[Outline, Changed] | None:
        """
        The files of the checkpoint that the version begins with, and what commits say after it.

        Args:
            most_rows, least_files: As `puffin.delta.log.checkpoints.outline_of`.
            worth_bytes: A checkpoint of fewer is not read, unless it has sidecars.

        Returns:
            None as `puffin.delta.log.checkpoints.outline_of`, and if the checkpoint cannot be read.
        """
        try:
            start, content = self._start
            if not content.sidecars and sum(part.size for part in start.parts) < worth_bytes:
                return None
            from puffin.delta.log.checkpoints import outline_of

            outline = outline_of(start, content, self._store, most_rows, least_files)
        except (CorruptMetadataError, FileNotFound):
            return None  # `fold_files` tells why, or does with an older checkpoint
        return None if outline is None else (outline, self._changed_since(start))

    def commit(self, version: int) -> Commit:
        """The log entry of a version; SnapshotNotFound if it does not exist, or no longer."""
        return self._commits_of([version])[0]

    def commits(self, after: int) -> list[Commit]:
        """The log entries after a version up to this one, oldest first; raises what `commit` raises."""
        return self._commits_of(range(after + 1, self.version + 1))

    def commits_left(self, versions: Iterable[int]) -> dict[int, Commit]:
        """The log entries of these versions that have not been cleaned up."""
        left = [version for version in versions if version in self._files.commits]
        return dict(zip(left, self._commits_of(left), strict=True))

    def checksum(self, version: int) -> str | None:
        """What tells the log entry of a version from others of this version; None if it has been cleaned up."""
        try:
            return next((commit.checksum for commit in self.commits_left([version]).values()), None)
        except FileNotFound:  # since the log was listed
            return None

    def commits_at_hand(self) -> dict[int, Commit]:
        """The log entries up to this version that were read before and are still in memory."""
        return self._entries.kept((v, file) for v, file in self._files.commits.items() if v <= self.version)

    def timestamp_ms(self, version: int) -> int:
        """
        When a version was committed, in milliseconds since the epoch, UTC.

        That is the in-commit timestamp if the table has them at this version. Otherwise it is the modification time of
        the log entry's file, but always later than the version before; if the store gives no times, the number only
        keeps the order.

        Raises SnapshotNotFound if the log entry does not exist, or no longer.
        """
        file = self._file(version)
        if version < self._in_commit_timestamps_since:
            return self._file_times[version]
        at = self.commit(version).in_commit_timestamp_ms
        if at is None:
            raise CorruptMetadataError(f"{file.uri}: expected commitInfo.inCommitTimestamp, found none")
        return at

    def version_at(self, timestamp_ms: int) -> int:
        """
        The newest version not newer than a time, among those up to this one that can be made and have a time.

        Raises SnapshotNotFound if all are newer, UnsupportedError if the store gives no times for log entries.
        """
        oldest = self.oldest_version + (self.oldest_version not in self._files.commits)
        after = self.version + 1
        since = min(max(self._in_commit_timestamps_since, oldest), after)
        # A copied log has files younger than later commits, so the two ranges are never mixed.
        if since < after and self.timestamp_ms(since) <= timestamp_ms:
            versions = range(since, after)
        else:
            versions = range(oldest, since)
            if any(self._files.commits[version].mtime is None for version in versions):
                raise UnsupportedError(
                    f"{self._files.directory}: the store does not say when files were written, which is all that tells "
                    "the time of a version of this table"
                )
        found = bisect.bisect_right(versions, timestamp_ms, key=self.timestamp_ms)
        if oldest == after:
            raise SnapshotNotFound(f"{self._files.directory}: no log entry is left, which would tell a version's time")
        if found == 0:
            raise SnapshotNotFound(f"{self._files.directory}: no version is that old; the oldest left is {oldest}")
        return versions[found - 1]

    def _live_files(self, start: Checkpoint, *, with_statistics: bool) -> Iterator[FileWithStatistics]:
        live = self._changed_since(start)
        texts = self._statistics_since(start) if with_statistics else {}
        for file, text in self._checkpoint_files(start, with_statistics=with_statistics):
            key = file.key
            if key not in live:
                yield file, text
            elif text is not None:
                texts.setdefault(key, text)
        yield from ((file, texts.get(key)) for key, file in live.items() if file is not None)

    def _changed_since(self, start: Checkpoint) -> Changed:
        """The files that commits after a checkpoint are about; None for those that they removed."""
        changed: Changed = {}
        for commit in self.commits(after=start.version):
            changed.update((file.key, None) for file in commit.removes)
            changed.update((file.key, file) for file in commit.adds)
        return changed

    def _checkpoint_files(self, start: Checkpoint, *, with_statistics: bool) -> Iterator[FileWithStatistics]:
        """The files of a checkpoint, each once, even if a broken checkpoint repeats one."""
        if not start.parts:
            return
        from hashlib import blake2b

        from puffin.delta.log.checkpoints import checkpoint_files

        seen: set[bytes] = set()  # a digest has a third of the bytes that a path has
        content = self._content(start)
        for found in checkpoint_files(start, content, self._store, with_statistics=with_statistics):
            digest = blake2b(repr(found[0].key).encode("utf-8", "surrogatepass"), digest_size=16).digest()
            if digest not in seen:
                seen.add(digest)
                yield found

    def _statistics_since(self, start: Checkpoint) -> dict[FileKey, str]:
        """The statistics of files that commits after a checkpoint added, live or not, as JSON strings."""
        found: dict[FileKey, str] = {}
        for version in range(start.version + 1, self.version + 1):
            uri = self._file(version).uri
            found.update(read_file_statistics(self._store.read(uri), uri))
        return found

    @cached_property
    def _start(self) -> tuple[Checkpoint, CheckpointContent]:
        return self._first_readable(lambda start: (start, self._content(start)))

    def _first_readable(self, read: Callable[[Checkpoint], _Result]) -> _Result:
        """What the newest readable checkpoint gives; without one, raises the error of the newest checkpoint."""
        errors: list[CorruptMetadataError | FileNotFound] = []
        for start in self._starts:
            try:
                return read(start)
            except (CorruptMetadataError, FileNotFound) as exc:
                errors.append(exc)
        raise errors[0]

    def _content(self, start: Checkpoint) -> CheckpointContent:
        if not start.parts:
            return NO_CONTENT
        if start not in self._contents:
            from puffin.delta.log.checkpoints import read_checkpoint  # slow to import, and young logs have none

            self._contents[start] = read_checkpoint(start, self._files.directory, self._store)
        return self._contents[start]

    def _commits_of(self, versions: Iterable[int]) -> list[Commit]:
        return self._entries.read([(version, self._file(version)) for version in versions])

    def _file(self, version: int) -> FileInfo:
        try:
            return self._files.commits[version]
        except KeyError:
            raise SnapshotNotFound(
                f"{self._files.directory}: no log entry of version {version} (it never existed, or was cleaned up)"
            ) from None

    @cached_property
    def _in_commit_timestamps_since(self) -> int:
        """The first version with an in-commit timestamp; the version after this one if there is none."""
        protocol, metadata = self.protocol_and_metadata
        if not in_commit_timestamps_enabled(protocol, metadata.configuration):
            return self.version + 1
        text = metadata.configuration.get(_IN_COMMIT_TIMESTAMPS_SINCE, "0")
        if (since := natural_number(text)) is None:
            raise CorruptMetadataError(
                f"{self._files.directory}: {_IN_COMMIT_TIMESTAMPS_SINCE}: expected a version, found {text[:40]!r}"
            )
        return since

    @cached_property
    def _file_times(self) -> Mapping[int, int]:
        times: dict[int, int] = {}
        at = -1
        for version, file in sorted(self._files.commits.items()):
            written = 0 if file.mtime is None else (file.mtime - _EPOCH) // datetime.timedelta(milliseconds=1)
            times[version] = at = max(written, at + 1)
        return times
