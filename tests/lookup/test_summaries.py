"""Counts, bounds and age beside the NDV: from our properties, from manifests and logs, or unknown."""

from __future__ import annotations

import datetime
import decimal
import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import puffin
from puffin.errors import UsageError
from puffin.lookup import Question, lookup
from puffin.statistics.answer import ColumnAnswer, Distinct
from puffin.statistics.blob_properties import SketchProperties
from puffin.tables.base import Column
from puffin.values.column_summary import ColumnSummary

SUMMARY = ("row-count", "null-count", "nan-count", "min", "max", "avg-bytes")
FRESHNESS = ("snapshots-behind", "records-added", "records-deleted")


def told(answer, keys, column=0):
    document = answer.to_json()["columns"][column]
    return [document[key] for key in keys]


# --- our own ------------------------------------------------------------------------------------------------------


def test_summary_comes_from_the_properties(table_of, entry_of):
    entry = entry_of(10, {1: 3})
    entry["blob-metadata"][0]["properties"]["puffin-sidecar.summary"] = '[10,2,null,64,-1,"9"]'
    assert told(lookup(table_of(entry), Question("t", ["a"])), SUMMARY) == [10, 2, None, -1, "9", 8.0]


def test_missing_summary_is_unknown(table_of, entry_of):
    assert told(lookup(table_of(entry_of(10, {1: 3})), Question("t", ["a"])), SUMMARY) == [None] * 6


def test_column_of_nulls_has_no_average():
    assert ColumnSummary(row_count=2, null_count=2, nan_count=None, min=None, max=None, total_bytes=0).avg_bytes is None


@pytest.mark.parametrize(
    ("type_", "low", "high", "upper"),
    [
        *(("int", -10, 90, 101), ("long", 1, 98, 99), ("date", "2023-12-31", "2024-04-09", 101)),
        *(("boolean", None, None, 99), ("long", 0, None, 120), ("long", 9, 0, 120), ("date", "+10000-01-01", "", 120)),
        *(("double", 1.0, 99.0, 120), ("string", "a", "b", 120), ("timestamp", "2024-01-01T00:00:00", "", 120)),
    ],
)
def test_upper_bound_is_at_most_the_values_between_min_and_max(type_, low, high, upper):
    """It does not fall below the NDV, which stays the one that other engines see."""
    answer = ColumnAnswer(Column(1, "c", type_, (1,), (None,)), Distinct(99, 90, 120, exact=False), 1, "snapshot")
    found = answer.with_summary(ColumnSummary(1000, 0, None, low, high, None)).distinct
    assert (found.ndv, found.lower, found.upper, found.exact) == (99, 90, upper, False)


def test_sketch_that_is_too_high_by_more_than_its_bounds_is_not_taken_for_certain():
    answer = ColumnAnswer(
        Column(1, "c", "string", (1,), (None,)), Distinct(1060, 1020, 1100, exact=False), 1, "snapshot"
    )
    found = answer.with_summary(ColumnSummary(1000, 0, None, None, None, None)).distinct
    assert found == Distinct(1000, 987, 1000, exact=False)  # 1060 less the root of 60 and 40 squared


def test_boolean_that_another_engine_counted_has_two_values_at_most():
    answer = ColumnAnswer(Column(1, "c", "boolean", (1,), (None,)), Distinct.nominal(2, 12), 1, "snapshot")
    assert answer.with_summary(None).distinct == Distinct(2, 1, 2, exact=False)


@pytest.mark.parametrize(
    "text",
    [
        *("", "1", "{}", "[]", "[1,2,3,4,5]", "[1,2,3,4,5,6,7]", "[1,2", "null", "[" * 100_000, "9" * 5_000),
        *("[-1,0,0,0,1,2]", "[1,2,0,0,1,2]", "[1,0,2,0,1,2]", "[true,0,0,0,1,2]", "[1.0,0,0,0,1,2]", '["1",0,0,0,1,2]'),
        *(
            "[9223372036854775808,0,0,0,1,2]",
            "[1,0,0,0,[],2]",
            "[1,0,0,0,1,{}]",
            "[1,0,0,0,NaN,2]",
            "[1,0,0,0,1,1e999]",
        ),
    ],
)
def test_invalid_summary_is_ignored(text):
    assert SketchProperties({"puffin-sidecar.summary": text}).summary is None


# --- age ----------------------------------------------------------------------------------------------------------


def aged(document, summaries):
    for snapshot in document["snapshots"]:
        snapshot["summary"] = summaries.get(snapshot["snapshot-id"], snapshot["summary"])
    return document


APPEND = {"operation": "append", "added-records": "7", "total-records": "9"}
DELETE = {"operation": "delete", "deleted-records": "4", "removed-position-deletes": "1", "total-records": "6"}
BY_POSITION = {"operation": "overwrite", "added-records": "1", "added-position-deletes": "2", "total-records": "9"}
BY_EQUALITY = {"operation": "overwrite", "added-equality-deletes": "2", "total-records": "9"}
REPLACE = {"operation": "replace", "added-records": "5", "deleted-records": "5", "total-records": "9"}


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ([], [0, 0, 0]),
        ([APPEND], [1, 7, 0]),
        ([APPEND, DELETE], [2, 7, 3]),
        ([REPLACE], [0, 0, 0]),
        ([APPEND, REPLACE, BY_POSITION], [2, 8, 2]),
        ([APPEND, BY_EQUALITY], [2, 7, None]),
        ([{"operation": "append"}, APPEND], [2, None, None]),
        ([{**APPEND, "added-records": "many"}], [1, None, 0]),
        ([{**APPEND, "added-records": "9" * 50}], [1, None, 0]),
    ],
)
def test_answer_reports_what_came_after_its_statistics(table_of, entry_of, between, expected):
    ids = tuple(range(10, 11 + len(between)))
    table = table_of(entry_of(10, {1: 3}), snapshots=ids)
    aged(table.document, dict(zip(ids[1:], between, strict=True)))
    assert told(lookup(table, Question(table.name, ["a"])), FRESHNESS) == expected


def test_changes_since_an_expired_snapshot_are_unknown(table_of, entry_of):
    for table in (table_of(entry_of(30, {1: (3, 5)}), snapshots=(30,)), table_of()):
        assert told(lookup(table, Question(table.name, ["a"])), FRESHNESS) == [None] * 3


def test_too_old_statistics_are_missing_with_a_reason(table_of, entry_of):
    table = table_of(entry_of(10, {1: 3}), snapshots=(10, 20, 30))
    (column,) = lookup(table, Question(table.name, ["a"], max_staleness=1)).to_json()["columns"]
    assert (column["source"], column["ndv"]) == ("missing", None)
    assert column["reason"] == "statistics: expected at most 1 snapshots behind, found 2"


# --- from manifests and logs --------------------------------------------------------------------------------------

DAY = datetime.date(2024, 2, 29)
TIME = datetime.datetime(2024, 2, 29, 12, 30, 0, 123456)
SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "f": pa.float64(),
        "s": pa.string(),
        "d": pa.date32(),
        "t": pa.timestamp("us"),
        "m": pa.decimal128(9, 2),
        "b": pa.bool_(),
        "e": pa.int32(),
    }
)
FILES = [
    {
        "n": [5, None],
        "f": [1.5, -2.5],
        "s": ["b", "a"],
        "d": [DAY, None],
        "t": [TIME, None],
        "m": [1, -2],
        "b": [True] * 2,
    },
    {
        "n": [-7, 9],
        "f": [0.5, None],
        "s": [None, "c"],
        "d": [DAY, DAY],
        "t": [TIME, TIME],
        "m": [3, 4],
        "b": [False] * 2,
    },
    {
        "n": [None, None],
        "f": [None, None],
        "s": [None, None],
        "d": [None] * 2,
        "t": [None] * 2,
        "m": [None] * 2,
        "b": [None] * 2,
    },
]


def rows(file):
    columns = {**file, "m": [None if v is None else decimal.Decimal(v) for v in file["m"]], "e": [None, None]}
    return pa.table(
        {name: pa.array(columns[name], type_) for name, type_ in zip(SCHEMA.names, SCHEMA.types, strict=True)}
    )


EXPECTED = {
    "n": [6, 3, None, -7, 9, None],
    "s": [6, 3, None, "a", "c", None],
    "d": [6, 3, None, "2024-02-29", "2024-02-29", None],
    "m": [6, 2, None, "-2.00", "4.00", None],
    "b": [6, 2, None, False, True, None],
    "e": [6, 6, None, None, None, None],
}


@pytest.fixture
def iceberg(tmp_path):
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    for file in FILES:
        table.append(rows(file))
    return table


@pytest.fixture
def delta(tmp_path):
    for file in FILES:
        write_deltalake(tmp_path / "delta", rows(file), mode="append")
    return tmp_path / "delta"


def test_manifests_answer_for_tables_without_statistics(iceberg):
    """Nobody has analyzed this Iceberg table."""
    answer = puffin.ndv(iceberg.metadata_location, manifests=True)
    found = {c.column.name: told(answer, SUMMARY, i) for i, c in enumerate(answer.columns)}
    assert {name: found[name] for name in EXPECTED} == EXPECTED
    assert found["f"] == [6, 3, None, -2.5, 1.5, None]
    assert found["t"] == [6, 3, None, TIME.isoformat(), TIME.isoformat(), None]
    assert {c.source for c in answer.columns} == {"missing"}
    assert told(puffin.ndv(iceberg.metadata_location), SUMMARY) == [None] * 6


@pytest.mark.parametrize("checkpoint", [False, True])
def test_delta_log_answers_for_tables_without_statistics(delta, checkpoint):
    if checkpoint:
        DeltaTable(delta).create_checkpoint()
    answer = puffin.ndv(str(delta), manifests=True)
    found = {c.column.name: told(answer, SUMMARY, i) for i, c in enumerate(answer.columns)}
    assert {name: found[name] for name in EXPECTED} == EXPECTED
    assert found["f"] == [6, 3, None, -2.5, 1.5, None]
    least, greatest = found["t"][3:5]
    assert least <= TIME.isoformat() <= greatest


def test_bounds_from_manifests_are_cut_and_have_one_zero(tmp_path):
    """As those of our own summaries: engines may keep whole strings, and Arrow C++ writes zero as -0.0 to 0.0."""
    from pyiceberg.catalog.sql import SqlCatalog

    data = pa.table({"s": ["a" * 20, "b" * 20], "f": [0.0, -0.0]})
    catalog = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", data.schema, properties={"write.metadata.metrics.default": "full"})
    table.append(data)
    write_deltalake(tmp_path / "delta", data)
    for name in (table.metadata_location, str(tmp_path / "delta")):
        answer = puffin.ndv(name, manifests=True)
        assert told(answer, ("min", "max")) == ["a" * 16, "b" * 15 + "c"]
        assert list(map(repr, told(answer, ("min", "max"), 1))) == ["0.0", "0.0"]


def test_delta_log_knows_the_values_of_partition_columns(tmp_path):
    data = pa.table({"p": pa.array([1, 1, 5, None], pa.int32()), "v": pa.array([1, 2, 3, 4], pa.int64())})
    write_deltalake(tmp_path / "t", data, partition_by=["p"])
    assert told(puffin.ndv(str(tmp_path / "t"), ["p"], manifests=True), SUMMARY) == [4, 1, None, 1, 5, None]


@pytest.mark.parametrize(
    "stats", ["", "[", "[1]", "null", "{}", '{"numRecords":2}', '{"numRecords":2,"minValues":[],"nullCount":{"n":-1}}',
              '{"numRecords":2,"minValues":{"n":1E+999999999},"maxValues":{"n":{}}}',
              '{"numRecords":2,"minValues":{"n":"1"},"maxValues":{"n":1.5}}']
)  # fmt: skip
def test_unreadable_file_statistics_make_delta_counts_unknown(delta, stats):
    """One file of several is enough."""
    entry = delta / "_delta_log" / f"{1:020d}.json"
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["stats"] = stats
    entry.write_text("\n".join(map(json.dumps, actions)))
    found = told(puffin.ndv(str(delta), ["n"], manifests=True), SUMMARY)
    assert found == [6 if "numRecords" in stats else None, None, None, None, None, None]


@pytest.mark.parametrize(
    ("least", "greatest", "expected"),
    [
        ("2024-01-01T00:00:00.000+05:30", "2024-01-01T02:00:00.000-08:00",
         ["2023-12-31T18:30:00.000000+00:00", "2024-01-01T10:00:00.000999+00:00"]),
        ("1850-01-01T00:00:00.000+00:53:28", "1850-01-01T00:00:00.000-07:52:58",
         ["1849-12-31T23:06:32.000000+00:00", "1850-01-01T07:52:58.000999+00:00"]),
        ("1850-01-01T00:00:00.000+00:53", "1850-01-01T00:00:00.000-07:52",
         ["1849-12-31T23:06:01.000000+00:00", "1850-01-01T07:52:59.000999+00:00"]),
        ("1850-01-01T00:00:00.000Z", "+294247-01-10T04:00:54.775-08:00", ["1850-01-01T00:00:00.000000+00:00", None]),
    ],
    ids=["whole minutes", "with seconds", "perhaps without its seconds", "beyond the last moment"],
)  # fmt: skip
def test_delta_log_has_times_in_any_zone(delta_table, least, greatest, expected):
    """Spark writes them in the zone of its session."""
    table = delta_table("t", {"at": "timestamp"})
    stats = {"numRecords": 1, "minValues": {"at": least}, "maxValues": {"at": greatest}, "nullCount": {"at": 0}}
    table.commit(table.add({"at": [0]}, stats=json.dumps(stats)))
    assert told(puffin.ndv(str(table.path), manifests=True), ("min", "max")) == expected


def test_delta_answer_reports_what_came_after_its_statistics(delta, draft_of):
    from puffin.load import load_table
    from puffin.tables.commit import commit_statistics

    table = load_table(str(delta))
    commit_statistics(table, draft_of(table, {"n": [5, -7, 9]}))
    assert told(puffin.ndv(str(delta), ["n"]), FRESHNESS) == [0, 0, 0]
    write_deltalake(delta, rows(FILES[0]), mode="append")
    assert told(puffin.ndv(str(delta), ["n"]), FRESHNESS) == [1, 2, 0]
    DeltaTable(delta).optimize.compact()
    assert told(puffin.ndv(str(delta), ["n"]), FRESHNESS) == [1, 2, 0]


def test_position_delete_files_make_counts_unknown(golden_tables):
    """Bounds still hold. Deletion vectors say how many rows they delete, position delete files do not."""
    by_position = told(puffin.ndv(str(golden_tables / "t_mor_v2"), ["id"], manifests=True), SUMMARY)
    by_vector = told(puffin.ndv(str(golden_tables / "t_dv_v3"), ["id"], manifests=True), SUMMARY)
    assert by_position == [None, None, None, 0, 11_999, None]
    assert by_vector == [8_228, None, None, 0, 11_999, None]


def test_nan_values_are_counted_if_the_writer_counted_them(golden_tables):
    """The column has infinite values too, for which JSON has no number."""
    told_of = told(puffin.ndv(str(golden_tables / "t_types"), ["f"], manifests=True), SUMMARY)
    assert told_of == [6_000, 62, 1, None, None, None]


def test_manifests_cannot_answer_for_partitions(iceberg):
    with pytest.raises(UsageError, match="leave them out"):
        puffin.ndv(iceberg.metadata_location, where="n = 1", manifests=True)


def test_our_summary_wins_over_manifests(table_of, entry_of):
    """The manifests are not even opened."""
    entry = entry_of(10, {1: 3})
    entry["blob-metadata"][0]["properties"]["puffin-sidecar.summary"] = "[10,2,null,64,-1,9]"
    assert told(lookup(table_of(entry), Question("t", ["a"], manifests=True)), SUMMARY)[0] == 10
