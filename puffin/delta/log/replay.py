"""
Replays the Delta log: from its files to a version's protocol, metadata, live files and time.

A version is the newest checkpoint up to it, changed by the commits after that (protocol, "Action Reconciliation"). An
unreadable checkpoint matters only if the commits and checkpoints before it have been cleaned up, since it repeats what
the log said before. Log entries never change, so a limited number of parsed entries is kept.
"""

from __future__ import annotations

import bisect
import datetime
import functools
import threading
from collections.abc import Iterable, Mapping

from puffin.delta.log.actions import AddFile, Commit, FileKey, Metadata, Protocol, parse_commit, read_file_statistics
from puffin.delta.log.log_files import NO_CONTENT, Checkpoint, CheckpointContent, LogFiles, list_log
from puffin.delta.log.protocol import in_commit_timestamps_enabled
from puffin.errors import CorruptMetadataError, FileNotFound, SnapshotNotFound, UnsupportedError
from puffin.storage import FileInfo, LocalStore, Store, join
from puffin.tables.base import natural_number

_IN_COMMIT_TIMESTAMPS_SINCE = "delta.inCommitTimestampEnablementVersion"

_EPOCH = datetime.datetime.fromtimestamp(0, datetime.timezone.utc)

_READERS = 8  # of log entries, at the same time
_KEPT_ACTIONS = 200_000  # on files, plus one for each kept log entry


class DeltaLog:
    def __init__(self, location: str, store: Store) -> None:
        self.location = location
        self.store = store
        self._entries = _LogEntries(store)

    def segment(self, version: int | None = None) -> LogSegment:
        """The part of the log that makes a version, by default the newest; raises what `LogFiles.starts` raises."""
        try:
            return self._listed(version)
        except CorruptMetadataError:
            # A listing is not atomic: it may see a file written meanwhile and miss an earlier one.
            return self._listed(version)

    def _listed(self, version: int | None) -> LogSegment:
        files = list_log(self.location, self.store)
        return LogSegment(files, files.newest if version is None else version, self.store, self._entries)


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

    def __init__(self, files: LogFiles, version: int, store: Store, entries: _LogEntries) -> None:
        self._files = files
        self._store = store
        self._entries = entries
        self._starts = files.starts(version)
        self.version = version
        self.newest_version = files.newest
        self.oldest_version = max(self._starts[-1].version, 0)
        self.checkpoint_version = self._starts[0].version if self._starts[0].parts else None

    def at(self, version: int) -> LogSegment:
        """The segment of another version in the same listing; raises what `DeltaLog.segment` raises."""
        return LogSegment(self._files, version, self._store, self._entries)

    def first_since(self, version: int) -> int:
        """The oldest version from this one on that can still be made."""
        return self._files.first_since(version)

    def is_newest(self) -> bool:
        """Whether nothing was committed since the log was listed, and no recreated table has replaced this one."""
        newest = self._files.commits.get(self.newest_version)
        if newest is None:
            return False  # only a checkpoint of it is left
        is_there = self._store.find(newest.uri) == newest
        following = join(self._files.directory, f"{self.newest_version + 1:020d}.json")
        return is_there and not self._store.exists(following)

    @functools.cached_property
    def protocol_and_metadata(self) -> tuple[Protocol, Metadata]:
        """The table's description at this version, read once; reads no more of a checkpoint than necessary."""
        start, content = self._start(with_files=False)
        protocol, metadata = content.protocol, content.metadata
        for commit in self.commits(after=start.version):
            protocol, metadata = commit.protocol or protocol, commit.metadata or metadata
        if protocol is None or metadata is None:
            raise CorruptMetadataError(
                f"{self._files.directory}: expected a protocol and a metaData action up to version {self.version}, "
                f"found no {'protocol' if protocol is None else 'metaData'}"
            )
        return protocol, metadata

    def files(self) -> list[AddFile]:
        """The version's live files: the newest action counts for each path with its deletion vector."""
        start, content = self._start(with_files=True)
        live: dict[FileKey, AddFile] = {file.key: file for file in content.files}
        for commit in self.commits(after=start.version):
            for file in commit.removes:
                live.pop(file.key, None)
            live.update((file.key, file) for file in commit.adds)
        return list(live.values())

    def file_statistics(self) -> dict[FileKey, str]:
        """The statistics of files, live or not, as JSON strings from the log."""
        from puffin.delta.log.checkpoints import read_checkpoint_statistics

        start, _ = self._start(with_files=False)
        found = read_checkpoint_statistics(start, self._files.directory, self._store)
        for version in range(start.version + 1, self.version + 1):
            uri = self._file(version).uri
            found.update(read_file_statistics(self._store.read(uri), uri))
        return found

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
        if found == 0:
            raise SnapshotNotFound(f"{self._files.directory}: no version is that old; the oldest left is {oldest}")
        return versions[found - 1]

    def _start(self, *, with_files: bool) -> tuple[Checkpoint, CheckpointContent]:
        """The newest readable checkpoint; without one, raises the error of the newest checkpoint."""
        errors: list[CorruptMetadataError | FileNotFound] = []
        for start in self._starts:
            try:
                return start, self._content(start, with_files=with_files)
            except (CorruptMetadataError, FileNotFound) as exc:
                errors.append(exc)
        raise errors[0]

    def _content(self, start: Checkpoint, *, with_files: bool) -> CheckpointContent:
        if not start.parts:
            return NO_CONTENT
        from puffin.delta.log.checkpoints import read_checkpoint  # slow to import, and young logs have none

        return read_checkpoint(start, self._files.directory, self._store, with_files=with_files)

    def _commits_of(self, versions: Iterable[int]) -> list[Commit]:
        return self._entries.read([(version, self._file(version)) for version in versions])

    def _file(self, version: int) -> FileInfo:
        try:
            return self._files.commits[version]
        except KeyError:
            raise SnapshotNotFound(
                f"{self._files.directory}: no log entry of version {version} (it never existed, or was cleaned up)"
            ) from None

    @functools.cached_property
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

    @functools.cached_property
    def _file_times(self) -> Mapping[int, int]:
        times: dict[int, int] = {}
        at = -1
        for version, file in sorted(self._files.commits.items()):
            written = 0 if file.mtime is None else (file.mtime - _EPOCH) // datetime.timedelta(milliseconds=1)
            times[version] = at = max(written, at + 1)
        return times


class _LogEntries:
    """Reads and parses several log entries at a time, and keeps the latest ones."""

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
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(_READERS) as pool:
                parsed = list(pool.map(self._parse, missing))
        else:
            parsed = [self._parse(entry) for entry in missing]
        for (_, file), commit in zip(missing, parsed, strict=True):
            found[file] = commit
            self._keep(file, commit)
        return [found[file] for _, file in entries]

    def _parse(self, entry: tuple[int, FileInfo]) -> Commit:
        version, file = entry
        return parse_commit(self._store.read(file.uri), version, file.uri)

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
