"""
Which tables are being run on this machine, so that another instance does not read the same.

A claim is a lock on an empty file, which the system gives up when the process ends, however that happens. It saves work
and nothing else: instances that do not see each other's claims harm no table.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_log = logging.getLogger(__name__)


class Claims:
    """Claims in this user's directory for temporary files, and in another that instances share, if there is one."""

    def __init__(self, shared: str | None) -> None:
        self._directories: list[Path] = []
        try:
            self._directories.append(Path(tempfile.gettempdir(), f"puffin-autopilot-{os.getuid()}"))
        except OSError as exc:
            _log.info("tables are not claimed in a directory for temporary files: %s", exc)
        if shared is not None:
            self._directories.append(Path(shared, "running"))

    @contextlib.contextmanager
    def hold(self, table: str) -> Iterator[bool]:
        """Claim the table at a location in the block; yields whether no other instance has claimed it."""
        digest = hashlib.sha256(table.encode(errors="surrogatepass")).hexdigest()  # the name may be no UTF-8
        name = f"{digest[:32]}.lock"
        with contextlib.ExitStack() as held:
            yield all(held.enter_context(_claim(directory / name)) for directory in self._directories)


@contextlib.contextmanager
def _claim(file: Path) -> Iterator[bool]:
    """Lock a file in the block; yields False if another process has, and True if the file cannot be made."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        _log.info("%s: the table is not claimed: %s", file, exc)
        yield True
        return
    try:
        if not _lock(descriptor):
            yield False
            return
        try:
            yield True
        finally:
            # A process that has opened it by now locks a deleted file: both may run the table, which only wastes work.
            with contextlib.suppress(OSError):  # the run has ended, and a file without a lock claims nothing
                file.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as exc:
        _log.info("the table is not claimed: %s", exc)
    return True
