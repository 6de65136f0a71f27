"""
Kernels for processes that import this package from an archive, as executors do.

numba keeps what it has compiled beside the source, and reuses it while the source is unchanged, which some versions
judge by its modification time. An archive has no place for that, so each of these processes would compile for ten
seconds or more. So the archive includes numba's cache files, and the first process that needs kernels unpacks them
beside the archive. For another processor, or by another version of numba, they are compiled again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zipfile import ZipFile

_SOURCES = Path(__file__).parent
_ROOT = _SOURCES.parent.parent
_IN_ARCHIVE = "puffin/kernels/"
_TIMES = "times.json"


def add_compiled(archive: ZipFile, modules: Sequence[str]) -> None:
    """Add the compiled kernels of modules, beside their sources, and the times of these."""
    from zipfile import ZipInfo

    times = {source.name: source.stat().st_mtime_ns for source in sorted(_SOURCES.glob("*.py"))}
    if not all(_is_compiled(module, times[f"{module}.py"]) for module in modules) and os.access(_SOURCES, os.W_OK):
        # In a process of its own, since numba takes memory that this one need not have.
        command = [sys.executable, "-c", "from puffin.kernels import load_kernels; load_kernels()"]
        subprocess.run(command, check=False, capture_output=True, cwd=_ROOT)  # noqa: S603 - this very Python
    for kept in sorted(_SOURCES.glob("__pycache__/*.nb[ci]")):
        archive.write(kept, f"{_IN_ARCHIVE}{kept.relative_to(_SOURCES)}")
    archive.writestr(ZipInfo(_IN_ARCHIVE + _TIMES), json.dumps(times))  # without the time at which it is written


def unpacked(archive: str) -> Path | None:
    """The kernels of an archive as files in a directory beside it; None if nothing can be written there."""
    from zipfile import ZipFile

    place = Path(f"{archive}.kernels")
    if place.exists():
        return place
    try:
        with tempfile.TemporaryDirectory(dir=place.parent) as new, ZipFile(archive) as source:
            source.extractall(new, [name for name in source.namelist() if name.startswith(_IN_ARCHIVE)])
            kernels = Path(new, _IN_ARCHIVE)
            for name, time in json.loads((kernels / _TIMES).read_text()).items():
                os.utime(kernels / name, ns=(time, time))
            kernels.rename(place)
    except OSError:  # perhaps another process was faster
        return place if place.exists() else None
    return place


def _is_compiled(module: str, since: int) -> bool:
    return any(kept.stat().st_mtime_ns >= since for kept in _SOURCES.glob(f"__pycache__/{module}.*.nbi"))
