"""
A small shop to try the commands on: ``python examples/shop.py shop`` writes it to the new directory ``shop``.

A second argument is the number of orders, which is 50,000 by default.

=================  =============================================================================================
``orders``         an Iceberg table in a directory of its own, partitioned by ``country``, 50,000 rows
``customers``      a Delta table in a directory of its own, 9,000 rows
``catalog.db``     an Iceberg catalog in SQLite with the table ``sales.orders``; ``.pyiceberg.yaml`` calls it ``prod``
=================  =============================================================================================

pyarrow and pyiceberg write all of it in a second or two, without Java. The rows are the same every time.
"""

from __future__ import annotations

import argparse
import json
import random
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.catalog.memory import InMemoryCatalog
    from pyiceberg.table import Table
    from pyiceberg.transforms import IdentityTransform
except ModuleNotFoundError as exc:
    raise SystemExit(f"{exc.name} is not installed: run pip install '.[iceberg]' in the checkout") from exc

ORDERS = 50_000
CUSTOMERS = 9_000
COUNTRIES = ["de", "fr", "it", "jp", "us"]
DELTA_TYPES = {"int64": "long", "string": "string"}


def main() -> None:
    """Write the shop to the directory that the first argument names."""
    parser = argparse.ArgumentParser(description="Write a small shop to try the commands on.")
    parser.add_argument("directory", help="a new one")
    parser.add_argument("orders", type=int, nargs="?", default=ORDERS, help="how many (default: %(default)s)")
    args = parser.parse_args()
    shop = Path(args.directory).resolve()
    if shop.exists():
        parser.error(f"{args.directory}: expected a new directory, found one that exists")
    rows = orders(args.orders)
    shop.mkdir(parents=True)
    write_orders_directory(shop / "orders", rows)
    write_customers(shop / "customers")
    write_catalog(shop, rows)
    name = args.directory
    print(f"wrote {name}/orders, {name}/customers and the table sales.orders of {name}/catalog.db")


def orders(rows: int) -> pa.Table:
    """Orders of customers 0 to 9,999, of whom not all are known."""
    chance = random.Random(1)
    return pa.table(
        {
            "order_id": pa.array(range(rows), pa.int64()),
            "customer_id": pa.array([chance.randrange(10_000) for _ in range(rows)], pa.int64()),
            "country": pa.array([chance.choice(COUNTRIES) for _ in range(rows)], pa.string()),
            "coupon": pa.array([chance.choice([None, None, "SPRING", "VIP"]) for _ in range(rows)], pa.string()),
            "ordered_on": pa.array([date(2026, 1, 1) + timedelta(days=row // 160) for row in range(rows)]),
        }
    )


def customers() -> pa.Table:
    """The customers that the shop knows."""
    return pa.table(
        {
            "id": pa.array(range(CUSTOMERS), pa.int64()),
            "city": pa.array([f"city {number % 700}" for number in range(CUSTOMERS)], pa.string()),
        }
    )


def write_orders_directory(directory: Path, rows: pa.Table) -> None:
    """An Iceberg table that no catalog knows: what pyiceberg makes in memory, under the names of a table directory."""
    catalog = InMemoryCatalog("memory", warehouse=directory.parent.as_uri())
    metadata = Path(create_orders(catalog, directory, rows).metadata_location.removeprefix("file://"))
    metadata.rename(metadata.with_name("v1.metadata.json"))
    for superseded in metadata.parent.glob("0*.metadata.json"):
        superseded.unlink()
    (metadata.parent / "version-hint.text").write_text("1")


def write_catalog(shop: Path, rows: pa.Table) -> None:
    """A SQLite catalog, and the configuration by which pyiceberg finds it."""
    properties = catalog_properties(shop)
    lines = [f"    {key}: {value}" for key, value in properties.items()]
    (shop / ".pyiceberg.yaml").write_text("\n".join(["catalog:", "  prod:", *lines, ""]))
    create_orders(load_catalog("prod", **properties), shop / "sales" / "orders", rows)


def catalog_properties(shop: Path) -> dict[str, str]:
    """The configuration of the catalog ``prod``."""
    return {"type": "sql", "uri": f"sqlite:///{shop}/catalog.db", "warehouse": f"file://{shop}"}


def create_orders(catalog: Catalog, location: Path, rows: pa.Table) -> Table:
    """The table ``sales.orders`` of a catalog."""
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.orders", rows.schema, f"file://{location}")
    with table.update_spec() as update:
        update.add_field("country", IdentityTransform(), "country")
    table.append(rows)
    return table


def write_customers(directory: Path) -> None:
    """A Delta table of one data file: its protocol, its schema, the file."""
    rows = customers()
    (directory / "_delta_log").mkdir(parents=True)
    data = directory / "part-0.parquet"
    pq.write_table(rows, data)
    fields = [
        {"name": field.name, "type": DELTA_TYPES[str(field.type)], "nullable": True, "metadata": {}}
        for field in rows.schema
    ]
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "3b9d4a52-0000-4000-8000-000000000001",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": [],
                "configuration": {},
            }
        },
        {
            "add": {
                "path": data.name,
                "partitionValues": {},
                "size": data.stat().st_size,
                "modificationTime": 0,
                "dataChange": True,
                "stats": json.dumps({"numRecords": rows.num_rows}),
            }
        },
    ]
    (directory / "_delta_log" / f"{0:020d}.json").write_text("".join(f"{json.dumps(action)}\n" for action in actions))


if __name__ == "__main__":
    main()
