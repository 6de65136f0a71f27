"""What figures depend on besides the code: the machine, and the versions of everything that took part."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path

from benchmarks.run import ROOT
from benchmarks.session import iceberg_jar

_DISTRIBUTIONS = ("pyspark", "pyarrow", "numpy", "datasketches", "duckdb", "pyiceberg", "tpchgen-cli", "click", "rich")


def machine() -> dict[str, str]:
    """Processor, cores, memory, and how busy the machine is now."""
    return {
        "processor": _first(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()),
        "cores": str(os.cpu_count()),
        "memory": f"{int(_first(r'MemTotal: *([0-9]+)', Path('/proc/meminfo').read_text())) / 1024**2:.1f} GiB",
        "load average": f"{os.getloadavg()[0]:.2f}",
    }


def versions() -> dict[str, str]:
    """The version of each part, by its name."""
    return {
        "puffin-sidecar": f"{metadata.version('puffin-sidecar')} ({_commit()})",
        "Python": platform.python_version(),
        "Java": _first(r'version "([^"]*)"', _said(_java(), "-version")),
        "Iceberg": iceberg_jar().stem,
        **{name: metadata.version(name) for name in _DISTRIBUTIONS},
    }


def _commit() -> str:
    commit = _said("git", "-C", str(ROOT), "describe", "--always", "--dirty")
    return commit or "no commit"


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def _said(*command: str) -> str:
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found.group(1).strip() if found else "unknown"
