"""Processes of Python's own, begun from nothing: what they import and how much memory they take is theirs alone."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import resource
import subprocess
import sysconfig
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")

PROGRAM = str(Path(sysconfig.get_path("scripts"), "puffin"))
"""The command that users call."""


def warm_processes(count: int, initializer: Callable[..., None] | None = None, *args: Any) -> ProcessPoolExecutor:
    """A pool that keeps its processes; ``initializer(*args)`` is called once in each."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(count, mp_context=context, initializer=initializer, initargs=args)


def in_fresh_process(function: Callable[..., Result], *args: Any) -> Result:
    """Return what ``function(*args)`` returns in a process that has done nothing before and does nothing after."""
    with warm_processes(1) as pool:
        return pool.submit(function, *args).result()


def processor_seconds(command: Sequence[str]) -> float:
    """Run a program to its end; returns the processor time that it took."""
    before = _of_children()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return _of_children() - before


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def peak_mib(process: int | None = None) -> float:
    """
    The most memory this process, or another one, has had resident so far.

    Not ``ru_maxrss``: a process inherits that from the one which started it.
    """
    return _memory_mib("VmHWM:", process)


def resident_mib(process: int) -> float:
    """The memory that a process has resident now."""
    return _memory_mib("VmRSS:", process)


def _memory_mib(field: str, process: int | None) -> float:
    status = Path("/proc", "self" if process is None else str(process), "status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Descendant:
    """
    A process that this one, or a descendant, has started: its id and program, and what it and its ended children took.
    """

    process: int
    program: str
    seconds: float
    peak_mib: float


def descendants() -> list[Descendant]:
    """Those that run now."""
    said = {int(path.name): _stat(path) for path in Path("/proc").iterdir() if path.name.isdecimal()}
    ours, ticks = {os.getpid()}, os.sysconf("SC_CLK_TCK")
    while more := {process for process, stat in said.items() if stat and int(stat[1]) in ours} - ours:
        ours |= more
    found = []
    for process in ours - {os.getpid()}:
        with contextlib.suppress(OSError, ValueError):  # one that has ended meanwhile
            program = Path(f"/proc/{process}/comm").read_text().strip()
            seconds = sum(map(int, said[process][11:15])) / ticks
            found.append(Descendant(process, program, seconds, peak_mib(process)))
    return found


def _stat(process: Path) -> list[str]:
    """The fields of a process behind its name, from its state on; none if it has ended."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
