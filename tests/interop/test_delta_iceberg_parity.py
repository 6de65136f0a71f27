"""
The same rows in a Delta and an Iceberg table have the same field ids and byte-identical sketches.

Spark writes both from one source: a table of TPC-H, which has more rows than a sketch holds, and a table of every
primitive type that both formats have, with all that hashing could take for the same or for different by mistake.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from puffin.load import load_table

SCALE = 0.002  # three times as many rows as a sketch holds
COLUMNS = 16
EVERY_TYPE = """
    SELECT id % 40 = 0 AS boolean, tinyint(id % 17 - 8) AS byte, smallint(id % 30 * -1000) AS short,
        int(id * 65537) AS int, id * 4294967297 AS long, float(id / 7) AS float,
        CASE id % 4 WHEN 0 THEN -0.0D WHEN 1 THEN 0.0D WHEN 2 THEN double('NaN') ELSE id / 3D END AS double,
        decimal(id / 8 - 9) AS small_decimal,
        cast((id - 50) * 123456789.25 AS decimal(18, 4)) AS decimal,
        cast((id - 50) * 1e24 AS decimal(38, 9)) AS wide_decimal,
        if(id % 9 = 0, '', concat('ü☃😀', id % 50)) AS string, unhex(if(id % 9 = 0, '', hex(id % 60))) AS binary,
        date_add(DATE'1969-12-01', int(id)) AS date, timestamp_micros((id - 50) * 77777777777777) AS timestamp,
        timestamp_ntz'1969-12-31 23:59:59.999950' + make_dt_interval(0, 0, 0, id / 1000000) AS timestamp_ntz,
        if(id % 10 = 0, NULL, named_struct('a', id % 5, 'deep', named_struct('b', string(id % 6)))) AS struct,
        array(id) AS list, map(id, named_struct('c', id)) AS map, if(id % 2 = 0, NULL, id) AS nullable,
        cast(NULL AS int) AS null
    FROM range(200)"""  # fmt: skip


@pytest.fixture
def lineitem(tmp_path) -> Path:
    """The Parquet file of the table."""
    program = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts"))
    options = ["--tables=lineitem", f"--scale-factor={SCALE:g}", f"--output-dir={tmp_path}", "--quiet"]
    subprocess.run([program, "parquet", *options], check=True)
    return tmp_path / "lineitem.parquet"


@pytest.fixture
def in_both(spark, warehouse, tmp_path, analyze_table, stored_payloads):
    """Writes a frame as a Delta and an Iceberg table, and returns the columns and sketches of each."""

    def write(frame, name: str):
        delta = str(tmp_path / name)
        frame.write.format("delta").save(delta)
        frame.writeTo(f"hadoop.parity.{name}").create()
        for path in (delta, str(warehouse / "parity" / name)):
            table = load_table(path)
            report = analyze_table(table)
            columns = [(c.column.name, c.column.field_id, c.column.type, c.ndv) for c in report.columns]
            yield report.format, columns, stored_payloads(table)

    return write


def test_large_table_has_the_same_sketches_in_both_formats(spark, lineitem, in_both):
    (delta, *of_delta), (iceberg, *of_iceberg) = in_both(spark.read.parquet(str(lineitem)), "lineitem")
    assert (delta, iceberg) == ("delta", "iceberg")
    assert of_delta == of_iceberg
    columns, sketches = of_delta
    assert len(columns) == len(sketches) == COLUMNS
    assert [field_id for _, field_id, _, _ in columns] == [*range(1, len(columns) + 1)]


def test_every_type_has_the_same_sketches_in_both_formats(spark, in_both, count_distinct):
    frame = spark.sql(EVERY_TYPE)
    (_, columns, sketches), (_, *of_iceberg) = in_both(frame, "every_type")
    assert [columns, sketches] == of_iceberg
    names = [name for name, *_ in columns]
    assert {"struct.a", "struct.deep.b"} <= set(names)
    counted = count_distinct(frame, names)
    # Sketches count no empty values, and the two zeros apart.
    expected = {**counted, "double": counted["double"] + 1, **{n: counted[n] - 1 for n in ("string", "binary")}}
    assert {name: ndv for name, _, _, ndv in columns} == expected
    assert {type_.partition("(")[0] for _, _, type_, _ in columns} == {
        "boolean", "int", "long", "float", "double", "decimal", "string", "binary", "date", "timestamp", "timestamptz"
    }  # fmt: skip
