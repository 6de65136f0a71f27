"""Which values of Spark's files are refused because of what their footers say."""

from __future__ import annotations

import datetime
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin.errors import UnsupportedTableError
from puffin.files.file_columns import FileColumn
from puffin.files.julian import refuse_julian, switches_of
from puffin.files.rows import Rows
from puffin.tables.base import Column
from puffin.values.column_chunk import Values

LEGACY = {"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyDateTime": ""}
LEGACY_INT96 = {"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyINT96": ""}
IN_UTC = {"org.apache.spark.timeZone": "UTC"}
DAY, MICRO = datetime.timedelta(days=1), datetime.timedelta(microseconds=1)
FIRST_DAY = datetime.date(1582, 10, 15)
FIRST_IN_UTC, FIRST_ANYWHERE = (datetime.datetime(*day, tzinfo=datetime.UTC) for day in ((1582, 10, 15), (1900, 1, 1)))


def passes(array: pa.Array, type_: str, keys: dict[str, str], *, int96: bool = False) -> bool:
    """Whether these values are accepted from a file with these keys."""
    out = io.BytesIO()
    schema = pa.schema([pa.field("c", array.type)], keys)
    pq.write_table(pa.table([array], schema), out, use_deprecated_int96_timestamps=int96)
    column = FileColumn(Column(1, "c", type_, (1,), (None,)), ("c",), None)
    rows = Rows(len(array), {1: Values(array)})
    try:
        assert list(refuse_julian([rows], switches_of(pq.ParquetFile(out).metadata, [column]), {1: "c"}, "x")) == [rows]
    except UnsupportedTableError as exc:
        return "x: column c: values before 1" not in str(exc)
    return True


def dates(*values: datetime.date | None) -> pa.Array:
    return pa.array(values, pa.date32())


def times(*values: datetime.datetime | None, unit: str = "us") -> pa.Array:
    return pa.array(values, pa.timestamp("us", "UTC")).cast(pa.timestamp(unit, "UTC"), safe=False)


@pytest.mark.parametrize(
    ("keys", "is_refused"),
    [
        ({}, False),
        ({"org.apache.spark.legacyDateTime": ""}, False),
        ({"org.apache.spark.version": "3.0.0"}, False),
        ({"org.apache.spark.version": "2.4.8"}, True),
        (LEGACY_INT96, False),
        (LEGACY, True),
    ],
)
def test_old_dates_are_refused_if_the_footer_says_legacy(keys, is_refused):
    assert passes(dates(FIRST_DAY, None), "date", keys)
    assert passes(dates(None), "date", keys)
    assert passes(dates(FIRST_DAY, FIRST_DAY - DAY, None), "date", keys) is not is_refused
    assert passes(dates(FIRST_DAY - DAY, None).dictionary_encode(), "date", keys) is not is_refused


@pytest.mark.parametrize(
    ("keys", "int96", "is_refused"),
    [
        (LEGACY, False, True),
        (LEGACY, True, False),
        (LEGACY_INT96, True, True),
        (LEGACY_INT96, False, False),
        ({"org.apache.spark.version": "3.0.3"}, True, True),
        ({"org.apache.spark.version": "3.0.3"}, False, False),
        ({"org.apache.spark.version": "3.1.0"}, True, False),
    ],
)
def test_timestamps_are_judged_by_their_storage_type(keys, int96, is_refused):
    assert passes(times(FIRST_ANYWHERE - MICRO), "timestamptz", keys, int96=int96) is not is_refused
    assert passes(times(FIRST_ANYWHERE), "timestamptz", keys, int96=int96)


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_utc_timestamps_differ_only_where_dates_do(unit):
    assert passes(times(FIRST_IN_UTC, FIRST_ANYWHERE - DAY, unit=unit), "timestamptz", LEGACY | IN_UTC)
    assert not passes(times(FIRST_IN_UTC - DAY, unit=unit), "timestamptz", LEGACY | IN_UTC)


def test_timestamps_without_a_zone_are_never_julian():
    assert passes(pa.array([datetime.datetime(1500, 1, 1)], pa.timestamp("us")), "timestamp", LEGACY)
