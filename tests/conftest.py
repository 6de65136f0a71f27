"""
What several test folders share: one Spark session for the whole run, and the tables another engine wrote.

Interoperation is never skipped: without Java or the jars a test that needs them fails, and the message is the command
to run. What Spark, Derby and Iceberg leave behind goes into the session's temporary directory.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
GOLDEN_TABLES = ROOT / "fixtures" / "tables-spark-3.5-iceberg-1.10" / "iceberg-spark.tar.gz"
GOLDEN_WAREHOUSE = Path("/tmp/golden-wh")  # written into the tables' metadata and manifests


@pytest.fixture(scope="session")
def java_home() -> Iterator[Path]:
    """The Java that Spark runs on, which is the session's JAVA_HOME."""
    home = Path(_run_tool("sh", ROOT / "tools" / "java.sh")[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(home))
        yield home


@pytest.fixture(scope="session")
def jars(java_home: Path) -> Callable[[str], list[Path]]:
    """From the name of a set in ``tools/ivy.xml`` to its jars, fetched if need be."""
    return lambda set_name: [Path(line) for line in _run_tool(sys.executable, ROOT / "tools" / "jars.py", set_name)]


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse directory of the Spark session's catalog ``hadoop``."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def spark(
    jars: Callable[[str], list[Path]], warehouse: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A local Spark with Iceberg and a file-system catalog named ``hadoop``; its planner uses column statistics."""
    import pyspark
    from pyspark.sql import SparkSession

    (iceberg,) = jars("iceberg-runtime-3.5" if pyspark.__version__.startswith("3.5.") else "iceberg-runtime")
    scratch = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dderby.system.home={scratch}",
        "spark.local.dir": str(scratch),
        "spark.jars": str(iceberg),
        "spark.jars.ivy": str(scratch / "ivy"),
        "spark.sql.warehouse.dir": str(scratch / "spark-warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.cbo.enabled": "true",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.hadoop": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.hadoop.type": "hadoop",
        "spark.sql.catalog.hadoop.warehouse": str(warehouse),
        "spark.sql.catalog.hadoop.cache-enabled": "false",  # commits of others are seen at once
    }
    builder = SparkSession.builder.master("local[2]").appName("puffin-sidecar tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


@pytest.fixture(scope="session")
def golden_tables() -> Iterator[Path]:
    """
    The directory of the five tables Spark wrote, fresh for this run and alone in it.

    The tables name their files absolutely, so every run needs the same directory: the lock makes runs take turns.
    """
    with GOLDEN_WAREHOUSE.with_suffix(".lock").open("w") as lock, tarfile.open(GOLDEN_TABLES) as archive:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(GOLDEN_WAREHOUSE, ignore_errors=True)
        archive.extractall("/", filter="data")
        yield GOLDEN_WAREHOUSE / "db"
        shutil.rmtree(GOLDEN_WAREHOUSE)


def _run_tool(*command: str | Path) -> list[str]:
    """Return the lines a tool printed; if it failed, fail the test with its last line, which says what to do."""
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    if ran.returncode != 0:
        pytest.fail(ran.stderr.strip().rpartition("\n")[2], pytrace=False)
    return ran.stdout.splitlines()
