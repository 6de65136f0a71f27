"""
``make demo``: the main job on real data, by the commands a user would type.

Four tables are built, the statistics job is run on them, and what it committed is looked up again and held
against exact counts. TPC-H lives in a catalog (SQLite), one of its tables as a Delta table too, whose sketches are
the same to the byte; the flights live in a directory without a catalog and were written by Spark with Iceberg's own
runtime. When they have lost some of their rows to a row-level delete, their statistics are brought up to date from the
deleted rows alone. In the end the statistics file is dumped, and Spark's optimizer is asked what it makes of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from demo.data import flights, tpch
from demo.tables import build_catalog_table, build_delta, build_flights, open_catalog, optimizer_counts, spark_session
from puffin.format import THETA_V1, PuffinReader
from puffin.storage import open_source

HOME = Path(".demo")
SCALE = float(os.environ.get("DEMO_SCALE", "1"))
SNAPSHOTS = 3
CANCELLED = "carrier = 'AA'"


def main() -> None:
    """Build, analyze, look up, dump."""
    started = time.monotonic()
    warehouse = (HOME / "warehouse").resolve()
    shutil.rmtree(warehouse, ignore_errors=True)
    warehouse.mkdir(parents=True)
    files = tpch(HOME / "data", SCALE)
    statistics = catalog_tables(warehouse, files)
    delta_table(warehouse / "orders_delta", files["orders"], statistics)
    flights_table(warehouse)
    say(f"done in {time.monotonic() - started:.0f} s")


def catalog_tables(warehouse: Path, files: Mapping[str, Path]) -> str:
    """TPC-H in a SQLite catalog; returns where the statistics of orders are."""
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{warehouse}/catalog.db",
        "warehouse": f"file://{warehouse}",
    }
    # For the commands, which are processes of their own: pyiceberg reads its configuration once, at the start.
    os.environ |= {f"PYICEBERG_CATALOG__DEMO__{key.upper()}": value for key, value in properties.items()}
    say(f"TPC-H at scale factor {SCALE:g} into a SQLite catalog, in {SNAPSHOTS} snapshots each")
    catalog = open_catalog("demo", properties)
    for name, path in files.items():
        build_catalog_table(catalog, f"tpch.{name}", path, snapshots=SNAPSHOTS)
    say("the statistics job: every primitive column, on Spark's executors although it is small, committed")
    puffin("analyze", "tpch.lineitem", "tpch.orders", "--catalog", "demo", "--driver-bytes", "0")
    say("looked up again from table metadata, beside the exact counts")
    for name, path in files.items():
        compare(["--catalog", "demo", f"tpch.{name}"], f"read_parquet('{path}')", {})
    return catalog.load_table("tpch.orders").metadata.statistics[-1].statistics_path


def delta_table(directory: Path, orders: Path, iceberg_statistics: str) -> None:
    """The orders of TPC-H as a Delta table."""
    say(f"orders once more, as a Delta table in {SNAPSHOTS} versions: the same command, and the same sketches")
    build_delta(directory, orders, versions=SNAPSHOTS)
    puffin("analyze", str(directory))
    compare([str(directory)], f"read_parquet('{orders}')", {})
    same_sketches(iceberg_statistics, directory)


def flights_table(warehouse: Path) -> None:
    """The flights in a directory, before and after some are deleted."""
    say(f"flights of 2013 into a directory, by Spark, in {SNAPSHOTS} snapshots; so few rows are read without executors")
    flown = flights()
    directory = warehouse / "nyc" / "flights"
    spark = spark_session(warehouse)
    try:
        build_flights(spark, flown, HOME / "data", SNAPSHOTS)
        puffin("analyze", str(directory))
        compare([str(directory)], "flown", {"flown": flown})

        say(f"DELETE WHERE {CANCELLED}, by Spark: only what went is read and subtracted")
        spark.sql(f"DELETE FROM demo.nyc.flights WHERE {CANCELLED}")
        puffin("analyze", str(directory), "--mode", "incremental")
        compare([str(directory)], f"(SELECT * FROM flown WHERE NOT {CANCELLED})", {"flown": flown})

        say("the statistics file of the flights")
        puffin("dump", str(newest_statistics(directory / "metadata")))

        say("what Spark's optimizer reads from the table metadata (cost-based optimization on)")
        for column, count in optimizer_counts(spark, "demo.nyc.flights").items():
            print(f"  {column:<16} distinctCount={count}")
    finally:
        spark.stop()


def newest_statistics(directory: Path) -> Path:
    """The statistics file that was written last."""
    return max(directory.glob("*.stats"), key=lambda path: path.stat().st_mtime)


def same_sketches(iceberg_statistics: str, delta: Path) -> None:
    """Fail unless the newest statistics of a Delta table have the same sketches as those of an Iceberg table."""
    newest = newest_statistics(delta / "_delta_log" / "_puffin_sidecar")
    ours, theirs = (sketches(path) for path in (str(newest), iceberg_statistics.removeprefix("file://")))
    if not ours or ours != theirs:
        raise SystemExit("the sketches of the Delta and the Iceberg table differ")
    print(f"  {len(ours)} sketches, each equal to the byte to that of the Iceberg table")


def sketches(path: str) -> dict[tuple[int, ...], bytes]:
    """The theta sketches of a statistics file by field ids."""
    with open_source(path) as source:
        reader = PuffinReader(source)
        return {blob.fields: reader.read(blob) for blob in reader.file_metadata.blobs if blob.type == THETA_V1}


def say(text: str) -> None:
    """A heading."""
    print(f"\n# {text}", flush=True)


def puffin(*args: str) -> None:
    """Run the command line, showing the call."""
    print(f"$ puffin {' '.join(args)}", flush=True)
    subprocess.run([sys.executable, "-m", "puffin", *args], check=True)


def compare(table: list[str], relation: str, tables: dict[str, pa.Table]) -> None:
    """Print each column's NDV beside DuckDB's exact count, and fail if a bound is far off."""
    print(f"$ puffin ndv {' '.join(table)} --json", flush=True)
    told = subprocess.run(
        [sys.executable, "-m", "puffin", "ndv", *table, "--json"], check=True, stdout=subprocess.PIPE, text=True
    )
    columns = json.loads(told.stdout)["columns"]
    connection = duckdb.connect()
    for name, data in tables.items():
        connection.register(name, data)
    # Empty strings are values to SQL and none to a sketch, in every engine.
    counts = ", ".join(f"""count(DISTINCT nullif("{c["column"]}"::VARCHAR, ''))""" for c in columns)
    exact = connection.execute(f"SELECT {counts} FROM {relation}").fetchone()
    if exact is None:
        raise SystemExit(f"{relation}: no counts")
    print(f"  {'column':<16} {'ndv':>10} {'exact':>10} {'error':>8}")
    for column, truth in zip(columns, exact, strict=True):
        error = (column["ndv"] - truth) / max(1, truth)
        print(f"  {column['column']:<16} {column['ndv']:>10,} {truth:>10,} {error:>8.2%}")
        if abs(error) > 0.06 or (column["exact"] and error != 0):
            raise SystemExit(f"{column['column']}: expected about {truth}, found {column['ndv']}")


if __name__ == "__main__":
    main()
