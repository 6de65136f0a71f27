"""
The cores and the memory that this process may use: those of the machine, or less in a container.

Linux limits a container by control groups. Those of version 2 have their files below one root, those of version 1 below
one for each controller. A limit of a group above counts too. In a container the root is most often its own group.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_ROOT = Path("/sys/fs/cgroup")
_GROUPS = Path("/proc/self/cgroup")  # a line for each hierarchy: its number, its controllers, and our group in it


def cores() -> int:
    """How many threads can run at a time, at least 1; part of a core counts as one."""
    found = float(len(os.sched_getaffinity(0)))
    for group in _groups("cpu"):
        share = _numbers(group / "cpu.max")
        share = share or [*_numbers(group / "cpu.cfs_quota_us"), *_numbers(group / "cpu.cfs_period_us")]
        if len(share) == 2 and min(share) > 0:  # the quota is -1 without a limit
            found = min(found, share[0] / share[1])
    return max(1, math.ceil(found))


def memory() -> int:
    """In bytes."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for group in _groups("memory"):
        limit = _numbers(group / "memory.max") or _numbers(group / "memory.limit_in_bytes")
        found = min(found, *limit) if limit else found
    return found


def _groups(controller: str) -> Iterator[Path]:
    """The directories of the groups that this process is in, by a controller; some may not exist."""
    try:
        lines = _GROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            root = _ROOT / controller if controllers else _ROOT
            group = PurePosixPath(path)
            for each in (group, *group.parents):
                yield root / each.relative_to("/")


def _numbers(file: Path) -> list[int]:
    """The numbers in a file; none if there is no such limit."""
    try:
        return [int(number) for number in file.read_text().split()]
    except (OSError, ValueError):  # ValueError: "max"
        return []
