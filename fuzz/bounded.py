"""
Every target for a few seconds, without a fuzzing library: ``python -m fuzz.bounded MUTATIONS``.

Each gets its sound bytes, its corpus and so many mutations of them, always the same. The process may allocate 512 MB
more than it has after the imports, so that an input that would take a gigabyte ends in a MemoryError. Standard output
is one JSON document, an object by target.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from fuzz.mutations import mutations
from fuzz.seeds import seeds
from fuzz.targets import TARGETS, Target

MEGABYTES = 512
"""What an input may take."""

_MOST_SHOWN = 3
_LARGEST_SHOWN = 4096


def main(count: int) -> None:
    """Print what became of every target."""
    inputs = {name: seeds(name) for name in TARGETS}
    _allow(8 * MEGABYTES)  # compilers take some
    for name, target in TARGETS.items():  # whatever is imported or compiled when it is first needed
        for data in inputs[name]:
            _outcome(target, data)
    _allow(MEGABYTES)
    print(json.dumps({name: _run(name, inputs[name], count) for name in TARGETS}))


def _run(name: str, inputs: list[bytes], count: int) -> dict[str, Any]:
    wrong: list[str] = []
    tried, slowest = 0, 0.0
    for data in (*inputs, *mutations(inputs, count, seed=len(name))):
        started = time.process_time()
        error = _outcome(TARGETS[name], data)
        slowest = max(slowest, time.process_time() - started)
        tried += 1
        if error is not None and len(wrong) < _MOST_SHOWN:
            wrong.append(f"{error} for {data[:_LARGEST_SHOWN]!r}")
    return {"tried": tried, "slowest-seconds": slowest, "wrong": wrong}


def _outcome(target: Target, data: bytes) -> str | None:
    """What the target should not have raised, or None."""
    try:
        target(data)
    except Exception as exc:  # noqa: BLE001 - whatever it is, it is the finding
        return f"{type(exc).__name__}: {exc}"
    return None


def _allow(megabytes: int) -> None:
    """Let the process take no more than this beyond what it has."""
    allowed = _address_space() + megabytes * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))


def _address_space() -> int:
    """Bytes of address space that the process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


if __name__ == "__main__":
    main(int(sys.argv[1]))
