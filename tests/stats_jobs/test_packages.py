"""The archive of our packages that executors get, in processes that import from it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from puffin import kernels
from puffin.kernels.packed import unpacked
from stats_jobs.cluster import zipped_packages

LOADED = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
from puffin import kernels
from puffin.kernels.packed import unpacked
assert kernels.load_kernels()
modules = [importlib.import_module(f"puffin.kernels.{name}") for name in kernels.MODULES]
stats = [each.stats for module in modules for each in vars(module).values() if hasattr(each, "stats")]
counts = [sum(sum(getattr(each, kind).values()) for each in stats) for kind in ("cache_hits", "cache_misses")]
print(json.dumps([kernels.__file__, modules[0].__file__, *counts]))
"""

TASKS = """
import sys
sys.path.insert(0, sys.argv[1])
import puffin.files.task_reader, stats_jobs.connect_tasks, stats_jobs.execute, stats_jobs.merge, stats_jobs.packed
print(stats_jobs.execute.__file__)
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert kernels.load_kernels(), "the compiled kernels are tested too: install numba"
    return Path(shutil.copy(zipped_packages(), tmp_path_factory.mktemp("packages")))


def loaded(archive: Path) -> tuple[str, str, int, int]:
    """Where a new process finds the package and a kernel, how many kernels it takes from the cache, and compiles."""
    run = subprocess.run([sys.executable, "-c", LOADED, archive], check=True, capture_output=True, text=True)
    package, kernel, hits, misses = json.loads(run.stdout)
    assert Path(package).is_relative_to(archive)
    return package, kernel, hits, misses


def test_executors_take_compiled_kernels_from_the_archive(archive: Path) -> None:
    for _ in range(2):
        _, kernel, hits, misses = loaded(archive)
        assert Path(kernel).parent == Path(f"{archive}.kernels")
        assert hits > 10
        assert misses == 0


def test_archive_whose_place_cannot_be_written_stays_packed(archive: Path, tmp_path: Path) -> None:
    place = tmp_path / archive.name
    place.write_bytes(archive.read_bytes())
    Path(f"{place}.kernels").symlink_to("nowhere/at/all")
    assert unpacked(str(place)) is None
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_executors_need_nothing_of_ours_beside_the_archive(archive: Path) -> None:
    """Workers of the Spark that tests share take our packages from the checkout."""
    run = subprocess.run([sys.executable, "-c", TASKS, archive], check=True, capture_output=True, text=True)
    assert Path(run.stdout.strip()).is_relative_to(archive)
