"""Files with values at the edge of a filter stay in the plan: zeros, rounded literals, fractions, least integers."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from puffin.errors import ColumnNotFound, UnsupportedTypeError, UsageError
from puffin.iceberg.expression_json import FilterJson
from puffin.load import load_table
from puffin.lookup import ndv
from puffin.planning.plan import Planner
from stats_jobs import analyze
from stats_jobs.index import index
from stats_jobs.options import IndexOptions
from tests.bound import bound
from tests.hand_made_table import HandMadeTable
from tests.planning.transformed import transformed

MakeTable = Callable[..., HandMadeTable]
TENTH = struct.unpack("<f", struct.pack("<f", 0.1))[0]  # above 0.1


def planner_of(table: HandMadeTable, **said: Any) -> Planner:
    """Of a table with one file of unknown contents, and what its manifest says of it."""
    path = table.write("data.parquet", pa.table({"c": [0]}), {"c": 1})
    table.snapshot(table.data(path, **said))
    return Planner(bound(table.state()))


def between(layout: str, lower: float, upper: float) -> Mapping[str, Mapping[int, Any]]:
    """Bounds of column 1, whose ten values are neither null nor NaN."""
    counts = {"value_counts": {1: 10}, "null_value_counts": {1: 0}, "nan_value_counts": {1: 0}}
    return counts | {"lower_bounds": {1: struct.pack(layout, lower)}, "upper_bounds": {1: struct.pack(layout, upper)}}


@pytest.mark.parametrize(
    ("lower", "upper", "where", "expected"),
    [
        (2.5, 2.5, "c != 2.5", False),
        (2.5, 2.5, "c not in (1.5, 2.5)", False),
        (2.5, 2.5, "not (c = 3.5)", True),
        (2.5, 3.5, "c not in (2.5, 3.5)", True),
        (-0.0, 0.0, "c != 0.0", True),  # Iceberg tells zeros apart
        (0.0, 0.0, "c != 0.0", False),
        (TENTH, TENTH, "c != 0.1", True),
    ],
)
def test_file_of_one_value_has_no_other(
    make_table: MakeTable, lower: float, upper: float, where: str, expected: bool
) -> None:
    said = between("<f", lower, upper)
    assert kept(planner_of(make_table([(1, "c", "float")]), **said), where) is expected
    for unknown in ("null_value_counts", "nan_value_counts"):
        assert kept(planner_of(make_table([(1, "c", "float")]), **{**said, unknown: {}}), where)


def test_rows_of_orc_whose_struct_is_null_are_nulls(make_table: MakeTable) -> None:
    """Iceberg's Java counts neither a value nor a null for them."""

    def keeps(values: int, where: str) -> bool:
        counts = {"value_counts": {2: values}, "null_value_counts": {2: 0}}
        return kept(planner_of(make_table([(1, "s", [(2, "c", "int")])]), record_count=5, **counts), where)

    assert keeps(3, "s.c is null")
    assert not keeps(5, "s.c is null")
    assert keeps(3, "s.c is not null")
    assert not keeps(0, "s.c is not null")


def test_columns_are_filtered_beside_what_pyiceberg_cannot_parse(make_table: MakeTable) -> None:
    """A variant in the same struct, a default in nanoseconds, in a table with partitions."""
    default = "1970-01-01T00:00:00.000000870"
    fields = [(1, "c", "int"), (2, "s", [(3, "x", "int"), (4, "v", "variant"), (5, "t", "timestamp_ns", default)])]
    planner = planner_of(make_table(fields, spec=[(1, "identity")], version=3), partition=(5,))
    assert kept(planner, "s.x = 1 or s.t is null")
    assert not kept(planner, "s.x = 1 and c = 6")


def test_uuid_bounds_hold_in_the_order_of_java_and_of_bytes(make_table: MakeTable) -> None:
    def keeps(lower: int, upper: int, where: str) -> bool:
        bounds = {"lower_bounds": {1: bytes([lower] * 16)}, "upper_bounds": {1: bytes([upper] * 16)}}
        return kept(planner_of(make_table([(1, "c", "uuid")]), **bounds), where)

    wanted = {byte: str(uuid.UUID(bytes=bytes([byte] * 16))) for byte in (0x01, 0x0A, 0x7F, 0x90, 0xFF)}
    assert keeps(0x00, 0x80, f"c = '{wanted[0x7F]}'")
    assert keeps(0x80, 0x00, f"c = '{wanted[0xFF]}'")  # Java: negative numbers first
    assert not keeps(0x09, 0x09, f"c = '{wanted[0x0A]}'")
    assert not keeps(0x09, 0x09, f"c in ('{wanted[0xFF]}', '{wanted[0x01]}')")


def test_uuid_partition_is_left_out_by_its_value_alone(make_table: MakeTable) -> None:
    """Of a range, Java's order keeps other partitions than that of bytes."""
    of_value, of_null = (
        planner_of(make_table([(1, "c", "uuid")], spec=[(1, "identity")]), partition=(value,))
        for value in (b"\xff" * 16, None)
    )
    least, most = uuid.UUID(int=0), uuid.UUID(bytes=b"\xff" * 16)
    for where in (
        f"c < '{least}'",
        f"c > '{least}'",
        f"c between '{most}' and '{least}'",
        f"c in ('{least}', '{most}')",
    ):
        assert kept(of_value, where), where
    for where in (f"c = '{least}'", f"c != '{most}'", "c is null"):
        assert not kept(of_value, where), where
    assert not kept(of_null, f"c < '{most}'")


@pytest.mark.parametrize("type_", ["timestamp", "timestamp_ntz"])
def test_last_moment_of_a_delta_table_is_planned(delta_table: Callable[..., Any], type_: str) -> None:
    """Its milliseconds are all that the log has, and it is less than one millisecond after them."""
    zone = "Z" if type_ == "timestamp" else ""
    last = f"+294247-01-10T04:00:54.775{zone}"
    table = delta_table("t", {"c": type_})
    stats = {"numRecords": 1, "minValues": {"c": last}, "maxValues": {"c": last}, "nullCount": {"c": 0}}
    table.commit(table.add({"c": [(1 << 63) - 1]}, stats=json.dumps(stats)))
    planner = Planner(load_table(str(table.path)).open())
    now = f"'2024-01-01T00:00:00{'+00:00' if zone else ''}'"
    assert kept(planner, f"c > {now}")
    assert not kept(planner, f"c < {now}")


def kept(planner: Planner, where: str) -> bool:
    return any(True for _ in planner.plan(where).files)


@pytest.mark.parametrize(
    ("lower", "upper", "where", "expected"),
    [
        (-0.0, 5.0, "c < 0.0", True),
        (0.0, 5.0, "c < 0.0", False),
        (-0.0, 5.0, "c < -0.0", False),
        (-5.0, 0.0, "c > -0.0", True),
        (-5.0, 0.0, "c > 0.0", False),
        (-5.0, -0.0, "c >= 0.0", True),
        (-0.0, -0.0, "c = 0.0", True),
        (0.0, 0.0, "c = -0.0", True),
    ],
)
def test_bounds_keep_zeros_in_the_order_of_sql_and_of_iceberg(
    make_table: MakeTable, lower: float, upper: float, where: str, expected: bool
) -> None:
    planner = planner_of(make_table([(1, "c", "double")]), **between("<d", lower, upper))
    assert kept(planner, where) is expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("c > 0.1", True),  # compared as doubles
        ("c >= 0.1", True),
        ("c = 0.1", True),  # compared as floats
        ("c <= 0.1", True),
        ("c < 0.1", False),
        ("c > 0.2", False),
        (f"c = {TENTH}", True),
        (f"c > {TENTH}", False),
    ],
)
def test_float_matches_a_literal_before_and_after_rounding(make_table: MakeTable, where: str, expected: bool) -> None:
    by_bounds = planner_of(make_table([(1, "c", "float")]), **between("<f", TENTH, TENTH))
    by_partition = planner_of(make_table([(1, "c", "float")], spec=[(1, "identity")]), partition=(TENTH,))
    assert kept(by_bounds, where) is expected
    assert kept(by_partition, where) or not expected


@pytest.mark.parametrize(
    ("types", "layout", "value", "literals"),
    [
        (("float", "double"), "<f", TENTH, (0.1, "0.1", TENTH)),
        (("date", "timestamp"), "<i", 1, (1, "1970-01-02", 86_400_000_000, "1970-01-02T00:00:00")),
    ],
)
@pytest.mark.parametrize("name_of_now", ["c", "renamed"])
def test_pinned_snapshot_takes_literals_of_its_own_type(
    make_table: MakeTable, types: tuple[str, str], layout: str, value: Any, literals: Sequence[Any], name_of_now: str
) -> None:
    """A client that reads an old snapshot may write a literal for the type and the name that the column had then."""
    table = make_table([(1, "c", types[0])])
    bounds = {f"{end}_bounds": {1: struct.pack(layout, value)} for end in ("lower", "upper")}
    path = table.write("data.parquet", pa.table({"c": [0]}), {"c": 1})
    snapshot_id = table.snapshot(table.data(path, **bounds))
    table.document["snapshots"][-1]["schema-id"] = 0
    table.evolve([(1, name_of_now, types[1])])
    planner = Planner(bound(table.state(), snapshot_id))
    for literal in literals:
        assert list(planner.plan(FilterJson.of({"type": "eq", "term": "c", "value": literal})).files), literal
    with pytest.raises(UsageError, match="expected a literal of type"):
        planner.plan(FilterJson.of({"type": "eq", "term": "c", "value": "x"}))


def test_nan_partition_is_above_every_number(make_table: MakeTable) -> None:
    planner = planner_of(make_table([(1, "c", "double")], spec=[(1, "identity")]), partition=(float("nan"),))
    assert kept(planner, "c > 5")
    assert kept(planner, "not (c < 5)")
    assert not kept(planner, "c < 5")
    assert not kept(planner, "c = 5")


def test_empty_partition_value_of_a_delta_table_is_null(delta_table: Callable[..., Any]) -> None:
    table = delta_table(types={"a": "long", "p": "binary"}, partitioned_by=["p"])
    table.commit(table.add({"a": [1]}, partitionValues={"p": ""}, stats='{"numRecords":1}'))
    planner = Planner(load_table(str(table.path)).open())
    assert kept(planner, "p is null")
    assert not kept(planner, "p is not null")


@pytest.mark.parametrize(
    ("infinite", "where"),
    [
        ("", "c = 'Infinity'"),
        ("", "c in (1, 1{0})"),
        ("", "c > '1e39'"),
        ("", "c >= 1{0}"),
        ("", "not (c < 'Infinity')"),
        ("-", "c < '-1e39'"),
        ("-", "c = '-Infinity'"),
        ("-", "c <= -1{0}"),
    ],
)
def test_infinity_is_beyond_every_number_of_a_float(make_table: MakeTable, infinite: str, where: str) -> None:
    """pyiceberg takes it for a number that no float reaches."""
    where, value = where.format("0" * 40), float(f"{infinite}inf")
    by_bounds = planner_of(make_table([(1, "c", "float")]), **between("<f", value, value))
    by_partition = planner_of(make_table([(1, "c", "float")], spec=[(1, "identity")]), partition=(value,))
    assert kept(by_bounds, where)
    assert kept(by_partition, where)
    other = planner_of(make_table([(1, "c", "float")]), **between("<f", 0.5, 2.5))
    assert kept(other, where) == ("in (1" in where)


def test_negative_zero_partition_is_below_zero_in_iceberg(make_table: MakeTable) -> None:
    planner = planner_of(make_table([(1, "c", "double")], spec=[(1, "identity")]), partition=(-0.0,))
    assert kept(planner, "c < 0.0")
    assert kept(planner, "c = 0.0")
    assert not kept(planner, "c > 0.5")


@pytest.mark.parametrize("type_", ["int", "long"])
@pytest.mark.parametrize("transform", [None, "identity", "truncate[10]", "bucket[4]"])
def test_fraction_is_not_rounded_to_the_integer_of_a_column(
    make_table: MakeTable, type_: str, transform: str | None
) -> None:
    spec = [] if transform is None else [(1, transform)]
    values = {None: (), "identity": (2,), "truncate[10]": (0,), "bucket[4]": (0,)}[transform]
    layout = {"int": "<i", "long": "<q"}[type_]
    planner = planner_of(make_table([(1, "c", type_)], spec=spec), partition=values, **between(layout, 2, 2))
    for where in ("c > 1.5", "c >= 1.5", "c < 2.5", "c <= 2.5", "c != 1.5", "c not in (1.5, 2.5)", "not (c = 2.5)"):
        assert kept(planner, where), where
    for where in ("c > 2.5", "c < 1.5", "c = 1.5", "c in (1.5, 2.5)", "not (c != 2.5)"):
        assert not kept(planner, where), where


def test_number_of_another_scale_is_compared_with_decimals(make_table: MakeTable) -> None:
    planner = planner_of(make_table([(1, "c", "decimal(9, 2)")]), **between(">i", 250, 250))
    for where in ("c = 2.5", "c > 2.4999", "c < 2.501", "c <= 2.5", "c != 2.505", "c in (2.5, 7.125)", "c > 2"):
        assert kept(planner, where), where
    for where in ("c = 2.505", "c > 2.5", "c > 2.501", "c < 2.4999", "c in (2.505, 3.5)", "c = 2.51", "c != 2.5"):
        assert not kept(planner, where), where


def test_least_integers_are_in_the_partition_that_java_overflows_to(make_table: MakeTable) -> None:
    least = -(1 << 63)
    table = make_table([(1, "c", "long")], spec=[(1, "truncate[11]")])
    planner = planner_of(table, partition=((1 << 63) - 3,), **between("<q", least, 0))
    assert kept(planner, f"c = {least}")
    assert kept(planner, "c < -5")
    nulls_unknown = planner_of(table, partition=((1 << 63) - 3,))
    assert not kept(nulls_unknown, "c is null")


LEAST = -(1 << 31)


@pytest.mark.parametrize("beside", [(), ("identity",), ("truncate[1]",), ("bucket[4]",)])
def test_truncated_integer_that_overflowed_stands_for_the_least_ones_alone(
    make_table: MakeTable, beside: tuple[str, ...]
) -> None:
    """Another field of the same column excludes more."""
    transforms = (*beside, "truncate[13]")
    table = make_table([(1, "c", "int")], spec=[(1, each) for each in transforms])
    planner = planner_of(table, partition=tuple(transformed(each, "int", LEAST) for each in transforms))
    for where in (f"c = {LEAST}", f"c in (3, {LEAST})", f"c < {LEAST + 1}", f"c <= {LEAST}", f"c >= {LEAST}"):
        assert kept(planner, where), where
    for where in ("c = 5", "c in (3, 5)", f"c = {LEAST + 13}", f"c < {LEAST}", "c is null"):
        assert not kept(planner, where), where
    if beside != ("bucket[4]",):  # which puts several of them into one bucket
        for where in (f"c = {LEAST + 1}", f"c in (3, {LEAST + 2})", f"c > {LEAST + 9}"):
            assert kept(planner, where) is (not beside), where


def test_filter_beyond_every_partition_is_answered(make_table: MakeTable) -> None:
    """pyiceberg finds that the filter cannot be true, and then lacks the field that it would look at."""
    planner = planner_of(make_table([(1, "c", "long")], spec=[(1, "truncate[11]")]), partition=(0,))
    assert not kept(planner, f"c < {-(1 << 63)}")
    for where in ("unknown < 5", "unknown < 1.5"):
        with pytest.raises(ColumnNotFound, match="unknown"):
            kept(planner, where)


@pytest.mark.parametrize("transform", ["year", "month", "day"])
def test_first_and_last_dates_can_be_asked_for(make_table: MakeTable, transform: str) -> None:
    planner = planner_of(make_table([(1, "c", "date")], spec=[(1, transform)]), partition=(5,))
    assert kept(planner, "c > '1969-01-01'")
    planner.plan("c < '0001-01-01'")
    planner.plan("c > '9999-12-31'")


@pytest.mark.parametrize("logged", ["string", "char(3)"])
@pytest.mark.parametrize(
    "where", ["c = 'de '", "p = 'de '", "c = 'fr'", "p = 'fr'", "c >= 'fr '", "\"s.x\" in ('de ')"]
)
def test_blanks_that_spark_adds_to_a_char_exclude_no_file(
    delta_table: Callable[..., Any], where: str, logged: str
) -> None:
    """The type is in the metadata of a string, as Spark writes it, or it is the type in the log."""
    table = delta_table(partitioned_by=["p"])
    inside = {"type": "struct", "fields": [{"name": "x", "type": logged, "nullable": True, "metadata": {}}]}
    of_spark = ("char(3)", "char(3)", "struct<x:char(3)>") if logged == "string" else [None] * 3
    sparks = dict(zip("cps", zip((logged, logged, inside), of_spark, strict=True), strict=True))
    fields = [
        {"name": name, "type": type_, "nullable": True, "metadata": {"__CHAR_VARCHAR_TYPE_STRING": text}}
        for name, (type_, text) in sparks.items()
    ]
    values = [{"c": value, "s": {"x": value}} for value in ("de", "fr ")]
    adds = [
        table.add(
            {"c": [bounds["c"]], "s": [bounds["s"]]},
            partitionValues={"p": bounds["c"]},
            stats=json.dumps({"numRecords": 1, "minValues": bounds, "maxValues": bounds}),
        )
        for bounds in values
    ]
    table.commit(table.metadata(schemaString=json.dumps({"type": "struct", "fields": fields})), table.protocol(), *adds)
    index(str(table.path), IndexOptions(columns=("c",)))
    opened = load_table(str(table.path)).open()
    assert len(Planner(opened).plan(where).files) == len(adds)
    assert not Planner(opened).plan("p is null").files


@pytest.mark.parametrize("where", ["c = 'abc'", "c < 'b'", "p in ('abc')", "x = 1 and c = 'abc'"])
def test_filter_of_a_column_with_a_collation_is_refused(delta_table: Callable[..., Any], where: str) -> None:
    """Metadata has bytes, of which an engine takes other ones for equal."""
    table = delta_table(types={"x": "long", "c": "string", "p": "string"}, partitioned_by=["p"])
    of_spark = {"x": {}, "c": {"__COLLATIONS": {"c": "spark.UTF8_LCASE"}}, "p": {"__COLLATIONS": {"p": "icu.DE_CI"}}}
    fields = [
        {"name": name, "type": "long" if name == "x" else "string", "nullable": True, "metadata": metadata}
        for name, metadata in of_spark.items()
    ]
    add = table.add({"x": [1], "c": ["ABC"]}, partitionValues={"p": "ABC"})
    table.commit(table.metadata(schemaString=json.dumps({"type": "struct", "fields": fields})), table.protocol(), add)
    assert [column.column.name for column in analyze(str(table.path)).columns] == ["x"]
    planner = Planner(load_table(str(table.path)).open())
    assert len(planner.plan("x = 1").files) == 1
    with pytest.raises(UnsupportedTypeError, match="string collate"):
        planner.plan(where)
    with pytest.raises(UnsupportedTypeError, match="partition 'p=abc': type 'string collate DE_CI'"):
        ndv(str(table.path), partitions=["p=abc"])
