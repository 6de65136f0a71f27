"""
Spark with an Iceberg of choice: writes a table, indexes it, and asks for it in its own catalog and in the face.

``python spark_of_first_client.py JARS WAREHOUSE URL`` writes what it found as JSON. Other jars need another process.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from stats_jobs.index import index
from stats_jobs.options import IndexOptions
from tests.interop.face.files_read import files_read
from tools.java_gateway import QUICK_JAVA

FILES, ROWS = 40, 20
KEY = 57
QUERIES = [
    f"SELECT row, n FROM {{t}} WHERE uid = 'key-{KEY}'",
    "SELECT count(*), min(n), max(uid) FROM {t}",
    "SELECT row FROM {t} WHERE n > 7 AND d IN (DATE'2024-01-02', DATE'2024-01-05') OR uid LIKE 'key-70%'",
    "SELECT row FROM {t} WHERE NOT (n < 8) AND d IS NOT NULL",
    "SELECT count(*) FROM {t}.files",
]


def main(jars: str, warehouse: str, url: str) -> dict[str, Any]:
    from pyspark.sql import SparkSession

    settings = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(QUICK_JAVA),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.catalog.own": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.own.type": "hadoop",
        "spark.sql.catalog.own.warehouse": warehouse,
        "spark.sql.catalog.fast": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.fast.type": "rest",
        "spark.sql.catalog.fast.uri": f"{url}/iceberg",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sql(
        """CREATE TABLE own.face.keys (row bigint, uid string, n int, d date) USING iceberg
            TBLPROPERTIES ('write.distribution-mode' = 'none')"""
    )
    spark.sql(
        f"""INSERT INTO own.face.keys SELECT /*+ REPARTITION({FILES}) */ id, concat('key-', id), CAST(id % 10 AS int),
            date_add(DATE'2024-01-01', CAST(id % 7 AS int)) FROM range({FILES * ROWS})"""
    )
    spark.sql("DELETE FROM own.face.keys WHERE row % 100 = 3")
    index(f"{warehouse}/face/keys", IndexOptions(columns=("uid",)))

    def answers(catalog: str) -> list[list[str]]:
        return [
            sorted(map(str, spark.sql(query.replace("{t}", f"{catalog}.face.keys")).collect())) for query in QUERIES
        ]

    try:
        spark.sql("DELETE FROM fast.face.keys WHERE row = 1")
        refused = ""
    except Exception as error:  # noqa: BLE001 whatever Spark raises
        refused = str(error)
    return {
        "version": spark._jvm.org.apache.iceberg.IcebergBuild.version(),
        "own": answers("own"),
        "fast": answers("fast"),
        "files": files_read(spark.sql(QUERIES[0].replace("{t}", "fast.face.keys"))),
        "refused": refused,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))
