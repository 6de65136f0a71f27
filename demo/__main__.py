"""
``make demo``: the main job on real data, by the commands a user would type.

Three tables are built, the statistics job is run on them, and what it committed is looked up again and held
against exact counts. TPC-H lives in a catalog (SQLite); the flights live in a directory without a catalog and were
written by Spark with Iceberg's own runtime. When they have lost some of their rows to a row-level delete, their
statistics are brought up to date from the deleted rows alone. In the end the statistics file is dumped, and Spark's
optimizer is asked what it makes of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pyarrow as pa

from demo.data import flights, tpch
from demo.tables import build_catalog_table, build_flights, open_catalog, optimizer_counts, spark_session

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
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{warehouse}/catalog.db",
        "warehouse": f"file://{warehouse}",
    }
    # For the commands, which are processes of their own: pyiceberg reads its configuration once, at the start.
    os.environ |= {f"PYICEBERG_CATALOG__DEMO__{key.upper()}": value for key, value in properties.items()}
    say(f"TPC-H at scale factor {SCALE:g} into a SQLite catalog, in {SNAPSHOTS} snapshots each")
    files = tpch(HOME / "data", SCALE)
    catalog = open_catalog("demo", properties)
    for name, path in files.items():
        build_catalog_table(catalog, f"tpch.{name}", path, snapshots=SNAPSHOTS)
    say("the statistics job: every primitive column, on Spark's executors as if there were more, committed")
    puffin("analyze", "tpch.lineitem", "tpch.orders", "--catalog", "demo", "--driver-bytes", "0")
    say("looked up again from table metadata, beside the exact counts")
    for name, path in files.items():
        compare(["--catalog", "demo", f"tpch.{name}"], f"read_parquet('{path}')", {})

    say(
        f"flights of 2013 into a directory, by Spark, in {SNAPSHOTS} snapshots; so little is read without the executors"
    )
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
        newest = max((directory / "metadata").glob("*.stats"), key=lambda path: path.stat().st_mtime)
        puffin("dump", str(newest))

        say("what Spark's optimizer reads from the table metadata (cost-based optimization on)")
        for column, count in optimizer_counts(spark, "demo.nyc.flights").items():
            print(f"  {column:<16} distinctCount={count}")
    finally:
        spark.stop()
    say(f"done in {time.monotonic() - started:.0f} s")


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
