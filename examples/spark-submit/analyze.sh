#!/bin/sh
# analyze.sh ARGUMENT...: `puffin analyze` on the cluster of $MASTER, with the same arguments. The answer is on stdout.
#
#   MASTER=spark://spark.example.org:7077 sh analyze.sh db.events --catalog prod --json
#   MASTER=spark://spark.example.org:7077 sh analyze.sh --spark-table prod.db.events --json
#
# `python` has to be one that this package is installed in, here and, under the same path or as $PYSPARK_PYTHON, on the
# workers; there its code is sent by the job, and the libraries that it uses are not. Catalogs of --spark-table and
# whatever else Spark needs to know stand in spark-defaults.conf, of $SPARK_CONF_DIR.
set -eu
job=$(python -c 'import stats_jobs; print(*stats_jobs.__path__)')/__main__.py
exec spark-submit --master "${MASTER:?the cluster: spark://HOST:PORT}" "$job" --log-format json "$@"
