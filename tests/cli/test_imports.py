"""What commands load: a dump of a small file, and ``puffin ndv`` of a table directory, none of the larger libraries."""

import importlib.util
import subprocess
import sys
from collections.abc import Set

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog

from puffin.format import DELETION_VECTOR_V1, LZ4, THETA_V1, ZSTD
from puffin.format.deletion_vector import DeletionVector
from puffin.sketches.theta_sketch import ThetaSketch

TABLES_AND_TEXT = {"pyspark", "pyiceberg", "pandas", "pyarrow", "fsspec", "rich"}
ARRAYS = {"numba", "numpy", "datasketches", "pyroaring"}
SLOW_PARTS_OF_PYTHON = {
    *("asyncio", "concurrent.futures", "decimal", "email", "gzip"),
    *("hashlib", "importlib.metadata", "logging", "pathlib", "tempfile"),
}
CODECS = {"deflate", "lz4", "zstandard"}
WATCHED = TABLES_AND_TEXT | ARRAYS | SLOW_PARTS_OF_PYTHON | CODECS


def sketch(values: int, lg_k: int = 12) -> bytes:
    return ThetaSketch.from_arrow(pa.array(range(values), pa.int64()), "long", lg_k).to_bytes()


def imported_by(*arguments: object, watched: Set[str] = frozenset(WATCHED)) -> Set[str]:
    """Return which of the watched modules the command loads in its own process."""
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
    return watched & set(run.stderr.split())


@pytest.mark.parametrize(
    ("options", "payload", "codec", "needed"),
    [
        pytest.param([], sketch(0), None, set(), id="empty"),
        pytest.param(["--json"], sketch(4096), None, set(), id="exact"),
        pytest.param([], sketch(100_000), None, set(), id="estimating"),
        pytest.param(["--json"], sketch(100_000), None, set(), id="estimating, as JSON"),
        pytest.param([], sketch(1000, lg_k=7), None, set(), id="estimating by 128"),
        pytest.param(["--json"], sketch(1000, lg_k=6), None, {"datasketches", "numpy"}, id="estimating by 64"),
        pytest.param([], sketch(4096), ZSTD, {"zstandard"}, id="zstd"),
        pytest.param(["--json"], sketch(4096), LZ4, {"lz4"}, id="lz4"),
    ],
)
def test_dump_of_a_sketch_loads_only_what_it_needs(make, tmp_path, options, payload, codec, needed):
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


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_ndv_of_an_iceberg_directory_loads_no_library(golden_tables, options):
    assert imported_by("ndv", golden_tables / "t_types", "i", *options) <= {"logging", "pathlib"}


def test_ndv_of_a_delta_directory_without_a_checkpoint_loads_no_library(puffin, tmp_path):
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": range(3)}))
    assert puffin("analyze", tmp_path / "t").code == 0
    assert imported_by("ndv", tmp_path / "t", "id") <= {"logging", "pathlib"}


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


def test_analyze_of_a_current_table_of_a_sql_catalog_loads_neither_its_class_nor_readers(puffin, tmp_path):
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    catalog = load_catalog("sql", **properties)
    catalog.create_namespace("db")
    rows = pa.table({"id": range(3)})
    catalog.create_table("db.t", schema=rows.schema).append(rows)
    command = ("analyze", "db.t", "--catalog", "sql", *(f"--catalog-property={k}={v}" for k, v in properties.items()))
    assert puffin(*command).code == 0
    slow = {"numba", "puffin.files.task_reader", "pyarrow.parquet", "pyiceberg.catalog", "pyspark", "rich"}
    assert imported_by(*command, watched=slow) == set()


def test_analyze_of_a_small_table_of_parquet_loads_no_other_reader_and_no_spark(tmp_path):
    """Nor pandas, which pyarrow would load: it is installed here, as it is where these commands are slow."""
    assert importlib.util.find_spec("pandas")
    pq.write_table(pa.table({"id": range(3)}), tmp_path / "data.parquet")
    deltalake.convert_to_deltalake(tmp_path)
    needless = {
        *("numba", "pandas", "pyiceberg", "pyspark", "rich"),
        *("puffin.files.avro.avro_file", "puffin.files.orc.orc_file", "puffin.files.deletes.equality_deletes"),
        *("stats_jobs.connect", "stats_jobs.spark_table"),
    }
    script = (
        "import atexit, sys, puffin.cli\n"
        "from puffin.cli import program\n"
        "run = program.run\n"
        "def watched(args):\n"
        "    atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "    return run(args)\n"
        "program.run = watched\n"
        "puffin.cli.main()\n"
    )
    command = [sys.executable, "-c", script, "analyze", tmp_path]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stderr.split()
    assert "puffin.files.parquet.parquet_file" in loaded
    assert needless & set(loaded) == set()
