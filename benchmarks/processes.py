"""Processes of Python's own, begun from nothing: what they import and how much memory they take is theirs alone."""

from __future__ import annotations

import multiprocessing
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


def peak_mib() -> float:
    """
    The most memory this process has had resident so far.

    Not ``ru_maxrss``: a process inherits that from the one which started it.
    """
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024
