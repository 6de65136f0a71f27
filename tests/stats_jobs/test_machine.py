"""The limits of containers, as both versions of control groups have them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stats_jobs import machine

GIGABYTE = 1 << 30
IN_CONTAINER = "0::/\n"
IN_SERVICE = "0::/system.slice/puffin.service\n"
OF_VERSION_1 = "9:name=systemd:/\n4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/\n"


@pytest.mark.parametrize(
    ("groups", "files", "cores", "memory"),
    [
        (IN_CONTAINER, {}, 8, 64),
        (IN_CONTAINER, {"cpu.max": "max 100000", "memory.max": "max"}, 8, 64),
        (IN_CONTAINER, {"cpu.max": "150000 100000", "memory.max": f"{4 * GIGABYTE}"}, 2, 4),
        (IN_CONTAINER, {"cpu.max": "5000 100000"}, 1, 64),
        (IN_CONTAINER, {"cpu.max": "6400000 100000", "memory.max": f"{99 * GIGABYTE}"}, 8, 64),
        (IN_SERVICE, {"system.slice/puffin.service/cpu.max": "300000 100000"}, 3, 64),
        (IN_SERVICE, {"system.slice/cpu.max": "100000 100000", "system.slice/memory.max": f"{GIGABYTE}"}, 1, 1),
        (OF_VERSION_1, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8, 64),
        (OF_VERSION_1, {"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2, 64),
        (OF_VERSION_1, {"memory/docker/abc/memory.limit_in_bytes": f"{2 * GIGABYTE}"}, 8, 2),
        (OF_VERSION_1, {"memory/memory.limit_in_bytes": "9223372036854771712"}, 8, 64),
    ],
)
def test_limits_of_a_container_count(
    monkeypatch: Any, tmp_path: Path, groups: str, files: Mapping[str, str], cores: int, memory: int
) -> None:
    (tmp_path / "own").write_text(groups)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{content}\n")
    monkeypatch.setattr(machine, "_ROOT", tmp_path)
    monkeypatch.setattr(machine, "_GROUPS", tmp_path / "own")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(8)))
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 16 * GIGABYTE // 1024, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert (machine.cores(), machine.memory()) == (cores, memory * GIGABYTE)


def test_system_without_control_groups_has_its_own_cores(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "_GROUPS", tmp_path / "none")
    assert machine.cores() == len(os.sched_getaffinity(0))
