"""
Takes the picture of the server's page that the README shows: ``python -m tools.page_picture docs/page.png``.

The page is the real one: `puffin serve` shows the tables of ``examples/shop.py`` to Chromium, after orders have arrived
in four lots and each lot was analyzed, so that the column has a history.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from pyiceberg.catalog import load_catalog

from examples.shop import catalog_properties, orders
from tools.serving import Server

ROOT = Path(__file__).resolve().parent.parent
LOTS = [(15_000, 25_000), (25_000, 40_000), (40_000, 50_000)]
SIZE = "1400,1100"


def main() -> None:
    """Build, analyze, serve, take the picture."""
    with tempfile.TemporaryDirectory() as scratch:
        shop = Path(scratch) / "shop"
        environment = {**os.environ, "PYICEBERG_HOME": str(shop), "PYTHONPATH": str(ROOT)}
        run = [sys.executable, str(ROOT / "examples" / "shop.py"), str(shop), "15000"]
        subprocess.run(run, check=True)
        table = load_catalog("prod", **catalog_properties(shop)).load_table("sales.orders")
        analyze(environment)
        for begin, end in LOTS:
            table.refresh().append(orders(end).slice(begin))
            analyze(environment)
        with Server("--catalog", "prod", environment=environment) as server:
            shoot(f"{server.url}/#{urlencode({'table': 'sales.orders', 'column': 'customer_id'})}", scratch)


def analyze(environment: dict[str, str]) -> None:
    """Analyze the shop's table in its catalog."""
    command = [sys.executable, "-m", "puffin", "analyze", "sales.orders", "--catalog", "prod"]
    subprocess.run(command, check=True, env=environment)


def shoot(url: str, scratch: str) -> None:
    """Write what Chromium shows at this address to the file that the one argument names."""
    browser = subprocess.run(
        ["sh", ROOT / "tools" / "chromium.sh"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()[-1]
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
    once = [f"--user-data-dir={scratch}/profile", "--virtual-time-budget=5000", f"--window-size={SIZE}"]
    subprocess.run(
        [browser, *quiet, *once, f"--screenshot={Path(sys.argv[1]).resolve()}", url],
        check=True,
        stderr=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    main()
