"""The public surface: which names are exported, and what importing it loads."""

import importlib
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import puffin
from puffin import errors

ROOT = Path(__file__).parent.parent
PACKAGES = ["puffin", "puffin.format", "puffin.storage", "puffin.lookup", "stats_jobs"]
HEAVY = {"pyspark", "pyiceberg", "deltalake", "pandas", "pyarrow", "numpy", "datasketches", "rich"}


@pytest.mark.parametrize("package", PACKAGES)
def test_all_names_exist_and_are_sorted(package: str) -> None:
    """``__all__`` is in ruff's order and has no duplicates."""
    module = importlib.import_module(package)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_contracted_names_are_exported() -> None:
    assert {"PuffinReader", "PuffinWriter", "Blob", "ThetaSketch", "load_table", "ndv", "PuffinError"} <= set(
        puffin.__all__
    )


def test_unknown_name_is_an_attribute_error() -> None:
    """Lazy loading must not turn a misspelt name into something else."""
    with pytest.raises(AttributeError, match="no attribute 'PuffinRaeder'"):
        _ = puffin.PuffinRaeder


def test_import_loads_nothing_heavy() -> None:
    """A planner that imports the package pays only for what it uses."""
    code = "import sys, puffin; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not HEAVY & set(loaded)


def test_every_error_has_one_root_and_is_in_the_documented_tree() -> None:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception)]
    assert all(issubclass(c, errors.PuffinError) for c in classes)
    assert all(c.__name__ in str(errors.__doc__) for c in classes)


@pytest.mark.parametrize(
    "error",
    [
        errors.CorruptPuffinError("head-magic", offset=0, expected=b"PFA1", found=b"PAR1"),
        errors.MissingDependencyError("pyspark", "spark"),
        errors.CorruptDataFileError("f.parquet: cut short"),
    ],
)
def test_errors_survive_pickling(error: errors.PuffinError) -> None:
    """An executor's error reaches the driver unchanged."""
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_programs_beside_the_package_import_what_is_there() -> None:
    """No other test runs the benchmarks, and nothing type-checks them."""
    files = [path for room in ("benchmarks", "demo") for path in sorted((ROOT / room).rglob("*.py"))]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files]
    code = f"import importlib\nfor name in {names}: importlib.import_module(name)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
