"""
Processes that read for threads of this one, each with an interpreter lock of its own.

Small column chunks take Python a third of the time, and only one thread of a process can be in Python at a time. So two
threads on two cores are hardly faster than one. A thread that has a process sends its pieces there.

A process takes most of a second to start, in which some hundred megabytes could be read. So processes start only once
the threads have read for longer, in this run and those before, and nobody waits for them. They end if they are not
needed for a while, and with this process. If one ends too soon or cannot read a piece, the thread reads in its
place, so errors are raised where they would be without processes.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from puffin.tables.scan_task import ScanContext
from stats_jobs.machine import cores, memory
from stats_jobs.partial import Partial
from stats_jobs.pieces import Piece, PieceReader

_WORTH_SECONDS = 2.0  # of processor time that threads have read; to start a process takes almost half of it
_MOST = 7
_MEMORY = 1 << 30  # for each process, with this one; it uses about a third of that
_IDLE_SECONDS = 60.0
_PATIENCE_SECONDS = 0.25
_PROGRAM = "import sys; sys.path[:] = sys.argv[3:]; from stats_jobs.reading_process import main; main(*sys.argv[1:3])"

_Settings: TypeAlias = tuple[dict[str, str], str]

logger = logging.getLogger(__name__)


class ReadingProcess:
    """A process that reads pieces, of one run after the other. EOFError or OSError if it has ended."""

    def __init__(self, idle_seconds: float = _IDLE_SECONDS) -> None:
        """Start it; OSError if that fails. It ends when nobody has needed it for so many seconds."""
        import subprocess  # most runs start none
        from multiprocessing import Pipe

        self.settings = _settings()
        self._connection, theirs = Pipe()
        with theirs:
            place = theirs.fileno()
            # No terminal: an interrupt is for this process, and what a library may print is not for its user.
            self._process = subprocess.Popen(  # noqa: S603 - this very Python
                [sys.executable, "-c", _PROGRAM, str(place), str(idle_seconds), *sys.path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[place],
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        self._connection.recv()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def begin(self, context: ScanContext) -> None:
        """Begin a run, or another one."""
        self._connection.send(context)

    def read(self, piece: Piece) -> Partial | None:
        """What a piece has; None if there was an error."""
        self._connection.send(piece)
        found: Partial | None = self._connection.recv()
        return found

    def end(self) -> None:
        """End a run, and close its files."""
        self._connection.send(None)

    def forget(self) -> None:
        """Leave it to another process."""
        self._connection.close()

    def close(self) -> None:
        """End it."""
        self._connection.close()
        self._process.kill()
        self._process.wait()


class ReadingProcesses:
    """The reading processes of this one, and how much its threads read themselves. Threads share them."""

    def __init__(self) -> None:
        self._reset()
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._forget)

    @contextlib.contextmanager
    def read_here(self, *, is_more_left: bool) -> Iterator[None]:
        """The block reads in this process; afterwards processes start if that pays."""
        with self._changed:
            self._here += 1
        before = time.thread_time()
        try:
            yield
        finally:
            with self._changed:
                self._here -= 1
                self._changed.notify()
                self._seconds += time.thread_time() - before
                pays = self._seconds >= _WORTH_SECONDS and is_more_left and not self._is_failed
                missing = max(0, _most() - len(self._all) - self._starting) if pays else 0
                self._starting += missing
            for _ in range(missing):
                threading.Thread(target=self._start_one, name="puffin-starter", daemon=True).start()

    def take(self) -> ReadingProcess | None:
        """
        An idle process for a thread that is to read; None if no other thread reads in this process.

        If all processes are busy and another thread reads here, it waits for one of them, but not for long: the others
        may hang in storage.
        """
        settings = _settings()
        with self._changed:
            if self._all:
                self._changed.wait_for(lambda: self._idle or not self._here, _PATIENCE_SECONDS)
            while self._here and self._idle:
                process = self._idle.pop()
                if process.is_alive and process.settings == settings:
                    return process
                self._drop(process)
        return None

    def give_back(self, process: ReadingProcess) -> None:
        with self._changed:
            if process in self._all:
                self._idle.append(process)
                self._changed.notify()

    def give_up(self, process: ReadingProcess) -> None:
        """Start no others after one that ended while it was needed: memory may be short."""
        with self._changed:
            self._is_failed = True
            self._drop(process)

    def close(self) -> None:
        """End all processes; others may start."""
        with self._changed:
            for process in tuple(self._all):
                self._drop(process)
            self._idle.clear()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._seconds = 0.0
        self._here = 0  # threads that read in this process
        self._idle: list[ReadingProcess] = []
        self._all: set[ReadingProcess] = set()
        self._starting = 0
        self._is_failed = False

    def _forget(self) -> None:
        """Leave the processes to the one of which this is a fork."""
        for process in self._all:
            process.forget()
        self._reset()

    def _drop(self, process: ReadingProcess) -> None:
        self._all.discard(process)
        process.close()

    def _start_one(self) -> None:
        process = None
        try:
            process = ReadingProcess()
            process.wait_until_ready()
        except (OSError, EOFError) as exc:
            logger.info("no process to read with: %s", exc)
            if process is not None:
                process.close()
            process = None
        with self._changed:
            self._starting -= 1
            if process is None:
                self._is_failed = True
            else:
                self._all.add(process)
                self._idle.append(process)


class Lease(contextlib.AbstractContextManager["Lease"]):
    """Where a thread reads during a run: in a process from the moment that it gets one, before that ``here``."""

    def __init__(self, processes: ReadingProcesses, context: ScanContext, here: PieceReader) -> None:
        self._processes = processes
        self._context = context
        self._here = here
        self._process: ReadingProcess | None = None

    def read(self, piece: Piece, *, is_more_left: bool) -> Partial:
        """As `PieceReader.read`; ``is_more_left`` says whether pieces are left after this one."""
        read = self._read_there(piece)
        if read is not None:
            return read
        with self._processes.read_here(is_more_left=is_more_left):
            return self._here.read(piece)

    def _read_there(self, piece: Piece) -> Partial | None:
        try:
            if self._process is None and (process := self._processes.take()) is not None:
                self._process = process
                process.begin(self._context)
            return None if self._process is None else self._process.read(piece)
        except (OSError, EOFError) as exc:
            self._give_up(exc)
            return None

    def _give_up(self, error: Exception) -> None:
        logger.info("a process that read has ended: %s", error)
        if self._process is not None:
            self._processes.give_up(self._process)
            self._process = None

    def __exit__(self, *exc_info: Any) -> None:
        if self._process is None:
            return
        try:
            self._process.end()
        except OSError as exc:
            self._give_up(exc)
        else:
            self._processes.give_back(self._process)


def _settings() -> _Settings:
    """What a process takes over when it starts, and by which it opens files."""
    try:
        return dict(os.environ), str(Path.cwd())
    except OSError:  # the directory is gone
        return dict(os.environ), ""


def _most() -> int:
    """How many processes help this one, by the cores and the memory that it may use."""
    return max(0, min(_MOST, cores() - 1, memory() // _MEMORY - 1))


PROCESSES = ReadingProcesses()
