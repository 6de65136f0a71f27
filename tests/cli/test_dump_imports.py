"""``puffin dump`` of a small file finishes without loading the larger libraries."""

import subprocess
import sys

import pyarrow as pa
import pytest

from puffin.format import DELETION_VECTOR_V1, LZ4, THETA_V1, ZSTD
from puffin.format.deletion_vector import DeletionVector
from puffin.sketches.theta_sketch import ThetaSketch

TABLES_AND_TEXT = {"pyspark", "pyiceberg", "pandas", "pyarrow", "fsspec", "rich"}
ARRAYS = {"numpy", "datasketches", "pyroaring"}
SLOW_PARTS_OF_PYTHON = {"importlib.metadata", "logging", "pathlib", "tempfile"}
CODECS = {"lz4", "zstandard"}
WATCHED = TABLES_AND_TEXT | ARRAYS | SLOW_PARTS_OF_PYTHON | CODECS


def sketch(values: int, lg_k: int = 12) -> bytes:
    return ThetaSketch.from_arrow(pa.array(range(values), pa.int64()), "long", lg_k).to_bytes()


def imported_by(*arguments: object) -> set[str]:
    """Return which of the watched libraries the command loads in its own process."""
    script = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "from puffin.cli import main\n"
        "try:\n"
        "    main(sys.argv[1:])\n"
        "finally:\n"
        "    print(*set(sys.modules) - before, file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", script, *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout
    return WATCHED & set(run.stderr.split())


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize(
    ("payload", "codec", "needed"),
    [
        pytest.param(sketch(0), None, set(), id="empty"),
        pytest.param(sketch(4096), None, set(), id="exact"),
        pytest.param(sketch(100_000), None, set(), id="estimating"),
        pytest.param(sketch(1000, lg_k=7), None, set(), id="estimating-by-128"),
        pytest.param(sketch(1000, lg_k=6), None, {"datasketches", "numpy"}, id="estimating-by-64"),
        pytest.param(sketch(4096), ZSTD, {"zstandard"}, id="zstd"),
        pytest.param(sketch(4096), LZ4, {"lz4"}, id="lz4"),
    ],
)
def test_dump_of_a_sketch_loads_only_what_it_needs(make, tmp_path, payload, codec, needed, options):
    """It needs no library, except for sketches that retain few of many values."""
    file = tmp_path / "file.puffin"
    file.write_bytes(make.file(make.blob(THETA_V1, payload, codec)))
    assert imported_by("dump", file, *options) == needed


def test_dump_of_a_deletion_vector_loads_only_its_libraries(make, tmp_path):
    file = tmp_path / "file.puffin"
    file.write_bytes(make.file(make.blob(DELETION_VECTOR_V1, DeletionVector.from_positions([1]).to_bytes())))
    assert TABLES_AND_TEXT.isdisjoint(imported_by("dump", file))
    assert "datasketches" not in imported_by("dump", file)


@pytest.mark.parametrize("name", ["empty-puffin-uncompressed.bin", "sample-metric-data-uncompressed.bin"])
def test_dump_of_other_blobs_loads_no_library(fixtures, name):
    assert imported_by("dump", fixtures / "puffin-java" / name) == set()


def test_dump_of_a_broken_file_loads_no_library(tmp_path):
    file = tmp_path / "file.puffin"
    file.write_bytes(b"PAR1" * 100)
    with pytest.raises(subprocess.CalledProcessError) as failed:
        imported_by("dump", file)
    assert WATCHED.isdisjoint(failed.value.stderr.split())


@pytest.mark.parametrize(
    "command", [("dump", "memory://bucket/missing"), ("verify", "memory://bucket/missing"), ("ndv", "x")]
)
def test_library_warnings_stay_off_stderr(command):
    """Code that loads noisy libraries silences them; a dump of a local file loads none."""
    script = (
        "import logging, sys\n"
        "from puffin.cli import main\n"
        "try:\n"
        "    main(sys.argv[1:])\n"
        "finally:\n"
        "    logging.getLogger('library').warning('a warning of a library')\n"
    )
    run = subprocess.run([sys.executable, "-c", script, *command], capture_output=True, text=True)
    assert run.returncode == 1
    assert "a warning of a library" not in run.stderr
