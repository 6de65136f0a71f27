"""Partitions are selected by name under every spec, and by filters that never drop a matching row."""

from __future__ import annotations

import datetime
import math
import uuid
from decimal import Decimal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import expression_evaluator, rewrite_not
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import Record

from puffin.errors import ColumnNotFound, NotFoundError, UnsupportedTypeError, UsageError
from puffin.iceberg.metadata.document import parse_state
from puffin.lookup.partition_filter import PartitionFilter
from puffin.values.partition_tuples import partition_key, tuple_types, value_to_json
from tests.bound import bound

TYPES = {
    "i": "int", "l": "long", "f": "float", "d": "double", "s": "string", "t": "boolean", "day": "date",
    "ts": "timestamp", "tz": "timestamptz", "tm": "time", "dec": "decimal(9, 2)", "u": "uuid", "ns": "timestamp_ns",
    "geo": "geometry", "v": "variant", "tiny": "decimal(12, 10)",
}  # fmt: skip
FIELDS = [{"id": i, "name": name, "required": False, "type": t} for i, (name, t) in enumerate(TYPES.items(), 1)]
INNER = {"type": "struct", "fields": [{"id": 91, "name": "x", "required": True, "type": "int"}]}
LIST = {"type": "list", "element-id": 93, "element": "int", "element-required": False}
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        *FIELDS,
        {"id": 90, "name": "st", "required": False, "type": INNER},
        {"id": 92, "name": "li", "required": False, "type": LIST},
        {"id": 94, "name": "lv", "required": False, "type": {**LIST, "element-id": 95, "element": "variant"}},
    ],
}
IDS = {name: i for i, name in enumerate(TYPES, 1)} | {"st.x": 91, "dropped": 77}


def field(name, transform, field_id=1000, column=None):
    return {"field-id": field_id, "source-id": IDS[column or name], "name": name, "transform": transform}


@pytest.fixture(scope="session")
def make_filter(table_document):
    """Makes the filter of a table with these specs."""

    def make(*specs, partitions=(), where=None):
        document = table_document("t", schemas=[SCHEMA])
        document["partition-specs"] = [{"spec-id": i, "fields": list(fields)} for i, fields in enumerate(specs)]
        return PartitionFilter(bound(parse_state(document, "m.json")), partitions, where)

    return make


# --- by name ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transform", "column", "text", "json_form"),
    [
        ("identity", "i", "-5", -5),
        ("identity", "f", "0.1", 0.10000000149011612),
        ("identity", "d", "NaN", float("nan")),
        ("identity", "d", "-0.0", -0.0),
        ("identity", "s", "a b", "a b"),
        ("identity", "s", "a+b", "a+b"),
        ("identity", "s", "a%2Fb%25%C3%A9", "a/b%é"),
        ("identity", "s", "x=y", "x=y"),
        ("identity", "s", "", ""),
        ("identity", "s", "null", None),
        ("identity", "t", "true", True),
        ("identity", "day", "2024-01-02", "2024-01-02"),
        ("identity", "ts", "2024-01-02T03:04:05.5", "2024-01-02T03:04:05.500000"),
        ("identity", "tz", "2024-01-02T03:04:05+00:00", "2024-01-02T03:04:05.000000+00:00"),
        ("identity", "tm", "03:04:05", "03:04:05.000000"),
        ("identity", "dec", "14.20", "14.20"),
        ("identity", "u", "f79c3e09-677c-4bbd-a479-3f349cb785e7", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ("day", "ts", "2024-01-02", "2024-01-02"),
        ("month", "day", "2024-01", 648),
        ("year", "ts", "1969", -1),
        ("hour", "ts", "1970-01-02-03", 27),
        ("bucket[16]", "l", "3", 3),
        ("truncate[2]", "s", "ab", "ab"),
        ("bucket[16]", "l", "null", None),
    ],
)
def test_name_selects_the_partition_of_its_value(make_filter, transform, column, text, json_form):
    is_meant = make_filter([field("p", transform, column=column)], partitions=[f"p={text}"])
    assert is_meant(partition_key(0, {"1000": json_form}))
    assert not is_meant(partition_key(0, {"1000": 7 if json_form is None else None}))


def test_name_selects_a_small_decimal_as_version_0_1_0_wrote_it(make_filter):
    is_meant = make_filter([field("tiny", "identity")], partitions=["tiny=0.0000000001"])
    texts = ("1E-10", "0.0000000001", "2E-10", None)
    assert [is_meant(partition_key(0, {"1000": text})) for text in texts] == [True, True, False, False]


def test_zeros_of_different_sign_are_two_partitions(make_filter):
    is_meant = make_filter([field("d", "identity")], partitions=["d=-0.0"])
    assert [is_meant(partition_key(0, {"1000": value})) for value in (-0.0, 0.0)] == [True, False]


def test_fewer_fields_select_every_matching_partition(make_filter):
    spec = [field("i", "identity"), field("s", "identity", 1001)]
    keys = [partition_key(0, {"1000": i, "1001": s}) for i in (1, 2) for s in "ab"]
    assert [*map(make_filter(spec, partitions=["i=2"]), keys)] == [False, False, True, True]
    assert [*map(make_filter(spec, partitions=["s=a/i=2"]), keys)] == [False, False, True, False]
    assert [*map(make_filter(spec, partitions=["i=1/s=b", "i=2/s=a"]), keys)] == [False, True, True, False]


def test_name_may_use_the_fields_of_any_spec(make_filter):
    """A spec without the field has no partition of that name."""
    specs = [field("i", "identity")], [field("i", "identity"), field("b", "bucket[4]", 1001, "l")]
    keys = partition_key(0, {"1000": 1}), partition_key(1, {"1000": 1, "1001": 2})
    assert [*map(make_filter(*specs, partitions=["i=1"]), keys)] == [True, True]
    assert [*map(make_filter(*specs, partitions=["b=2"]), keys)] == [False, True]


def test_one_name_may_be_two_fields(make_filter):
    """A field dropped and added again over another column: each is compared as its own type."""
    specs = [field("p", "identity", 1000, "i")], [field("p", "day", 1001, "ts")]
    keys = partition_key(0, {"1000": 2024}), partition_key(1, {"1001": "2024-01-02"})
    assert [*map(make_filter(*specs, partitions=["p=2024"]), keys)] == [True, False]
    assert [*map(make_filter(*specs, partitions=["p=2024-01-02"]), keys)] == [False, True]
    with pytest.raises(UsageError, match="partition 'p=x': expected a value of"):
        make_filter(*specs, partitions=["p=x"])


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("i", UsageError, "expected FIELD=VALUE, or several with / between, found 'i'"),
        ("", UsageError, "found ''"),
        ("i=1/", UsageError, "found ''"),
        ("=1", UsageError, "found '=1'"),
        ("i=1/i=2", UsageError, "each field once"),
        ("i=x", UsageError, "expected a value of identity of type int, found 'x'"),
        ("b=9", UsageError, "expected a bucket from 0 to 3, found '9'"),
        ("j=1", NotFoundError, "no partition spec has j; the partition fields are b, i"),
        ("i=1/b=1", NotFoundError, "no partition spec has i, b together; the partition fields are b, i"),
        ("old=1", NotFoundError, "no partition spec has old"),
        ("gone=1", NotFoundError, "no partition spec has gone"),
        ("odd=1", NotFoundError, "no partition spec has odd"),
    ],
)
def test_invalid_partition_name_is_reported(make_filter, name, error, says):
    """Void fields, dropped columns and unknown transforms have no names."""
    specs = (
        [field("i", "identity"), field("old", "void", 1001, "l"), field("gone", "identity", 1002, "dropped")],
        [field("b", "bucket[4]", 1003, "l"), field("odd", "zorder", 1004, "l")],
    )
    with pytest.raises(error, match=f"^partition {name!r}: ") as raised:
        make_filter(*specs, partitions=[name])
    assert says in str(raised.value)
    assert type(raised.value) is error


def test_unpartitioned_table_has_no_partition_names(make_filter):
    with pytest.raises(NotFoundError, match="the partition fields are none"):
        make_filter([], partitions=["a=1"])


# --- by filter ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "error", "says"),
    [
        ("i >", UsageError, "filter 'i >': expected tests such as"),
        ("", UsageError, "filter ''"),
        ("i = 'x'", UsageError, "expected a literal of type int, found 'x'"),
        ("i = true or i != 1.50", UsageError, "true"),
        ("ts > 'soon'", UsageError, "expected a timestamp such as '2026-01-31T12:00:00', found 'soon'"),
        ("ts > '2026-01-31T12:00:00+00:00'", UsageError, "12:00:00', found '2026"),
        ("tz > '2026-01-31T12:00:00'", UsageError, "12:00:00+00:00', found '2026"),
        ("i = l", UsageError, "filter"),
        ("st = 1", UsageError, "filter 'st = 1': expected a primitive column to compare, found a struct"),
        ("li in (1, 2)", UsageError, "expected a primitive column to compare, found a list"),
        ("li.element = 1", UsageError, "expected a column outside lists and maps, found one inside"),
        ("dec = 'x'", UsageError, "expected a literal of type decimal(9, 2), found 'x'"),
        ("nope = 1", ColumnNotFound, "no column 'nope'"),
        ("I = 1", ColumnNotFound, "no column 'I'; did you mean 'i'?"),
        ("v = 1", UnsupportedTypeError, "filter 'v = 1': column 'v' of type variant cannot be filtered"),
        ("lv is null", UnsupportedTypeError, "column 'lv' of type list cannot be filtered"),
        ("ns > '2026-01-31T12:00:00'", UsageError, "filters cannot compare columns of type timestamp_ns, only test"),
        ("(" * 400 + "i = 1", UsageError, "filter"),
    ],
)
def test_invalid_filter_is_reported_in_one_line(make_filter, where, error, says):
    with pytest.raises(error) as raised:
        make_filter([field("i", "identity")], where=where)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_filter_on_other_columns_keeps_every_partition(make_filter):
    is_meant = make_filter([field("i", "identity")], where="l = 5 or s like 'a%'")
    assert is_meant(partition_key(0, {"1000": 1}))


def test_unknown_partition_fields_keep_every_partition(make_filter):
    """A dropped column, an unknown transform, a field of several columns, or a removed spec."""
    odd = {**field("two", "bucket[4]", 1001, "i"), "source-ids": [IDS["i"], IDS["l"]]}
    specs = [field("dropped", "identity"), field("odd", "zorder", 1002, "i"), odd, field("i", "identity", 1003)]
    is_meant = make_filter(specs, where="i = 5")
    assert is_meant(partition_key(0, {"1001": 3, "1003": 5}))
    assert not is_meant(partition_key(0, {"1001": 3, "1003": 6}))
    assert is_meant(partition_key(0, {"1001": 3}))
    assert is_meant(partition_key(7, {"1": 6}))


def test_null_struct_around_a_required_field_is_found(make_filter):
    is_meant = make_filter([field("p", "identity", column="st.x")], where="st.x is null")
    assert [is_meant(partition_key(0, {"1000": value})) for value in (None, 5)] == [True, False]


def test_where_accepts_plain_decimal_literals_for_floats(make_filter):
    """0.1 is no exact float: the partition has the nearest one."""
    is_meant = make_filter([field("f", "identity")], where="f = 0.1")
    assert [is_meant(partition_key(0, {"1000": value})) for value in (0.10000000149011612, 0.25)] == [True, False]


def test_infinite_partition_is_beyond_every_number_of_a_float(make_filter):
    """pyiceberg takes infinity for a number that no float reaches."""
    for where in ("f > '1e39'", "f = 'Infinity'", "not (f <= '1e39' or i = 1)"):
        assert make_filter([field("f", "identity")], where=where)(partition_key(0, {"1000": math.inf})), where


@pytest.mark.parametrize(
    ("column", "transform", "value", "where", "expected"),
    [
        ("i", "truncate[13]", 2147483646, "i = -2147483648", True),  # Java's integers overflow
        ("i", "truncate[13]", 2147483646, "i < 0 and s = 'a'", True),
        ("i", "truncate[13]", 2147483646, "i is null", False),
        ("d", "identity", math.nan, "d > 5", True),  # in SQL, NaN is the largest number
        ("d", "identity", math.nan, "d < 5", False),
        ("d", "identity", -0.0, "d < 0.0", True),  # in Iceberg, -0.0 is less
        ("d", "identity", 0.0, "d < 0.0", False),
        ("u", "identity", str(uuid.UUID(int=(1 << 128) - 1)), f"u < '{uuid.UUID(int=0)}'", True),
        ("u", "identity", str(uuid.UUID(int=1)), f"u = '{uuid.UUID(int=0)}'", False),
    ],
)
def test_partition_is_selected_by_any_reading_of_a_filter(make_filter, column, transform, value, where, expected):
    is_meant = make_filter([field("p", transform, column=column)], where=where)
    assert is_meant(partition_key(0, {"1000": value})) is expected


def test_zeros_of_different_sign_are_tested_each_for_itself(make_filter):
    is_meant = make_filter([field("d", "identity")], where="d < 0.0")
    assert [is_meant(partition_key(0, {"1000": value})) for value in (0.0, -0.0)] == [False, True]


@pytest.mark.parametrize(("joined", "expected"), [("and", [True, False, False]), ("or", [True, True, True])])
def test_date_beyond_the_calendar_leaves_the_other_tests_as_they_are(make_filter, joined, expected):
    """pyiceberg's calendar ends with the year 9999."""
    spec = [field("day", "year"), field("i", "identity", 1001)]
    is_meant = make_filter(spec, where=f"day > '9999-12-31' {joined} i = 5")
    keys = [partition_key(0, {"1000": year, "1001": i}) for year, i in ((8030, 5), (8030, 6), (50, 5))]
    assert [*map(is_meant, keys)] == expected
    assert not is_meant(partition_key(0, {"1000": 50, "1001": 6}))


EPOCH = datetime.datetime(1970, 1, 1)
VALUES = {  # of each column: values as manifests have them, and how a filter writes one
    "i": (st.integers(-20, 20), str),
    "l": (st.integers(-(10**12), 10**12), str),
    "s": (st.text("abé", max_size=4), lambda text: f"'{text}'"),
    "day": (st.integers(-800, 800), lambda days: f"'{(EPOCH + datetime.timedelta(days)).date()}'"),
    "ts": (
        st.integers(-10**14, 10**14),
        lambda micros: f"'{(EPOCH + datetime.timedelta(microseconds=micros)).isoformat()}'",
    ),
    "tz": (
        st.integers(-10**14, 10**14),
        lambda micros: f"'{(EPOCH + datetime.timedelta(microseconds=micros)).isoformat()}+00:00'",
    ),
    "dec": (st.integers(-9999, 9999).map(lambda unscaled: Decimal(unscaled).scaleb(-2)), str),
    "t": (st.booleans(), lambda value: str(value).lower()),
}  # fmt: skip
KNOWN = Schema.model_validate({**SCHEMA, "fields": [f for f in FIELDS if f["name"] in VALUES]})
CALENDAR = ("year", "month", "day")
TRANSFORMS = {
    "i": ("identity", "bucket[4]", "truncate[5]"),
    "l": ("identity", "bucket[4]", "truncate[1000]"),
    "s": ("identity", "bucket[4]", "truncate[1]"),
    "day": ("identity", "bucket[4]", *CALENDAR),
    "ts": ("identity", "bucket[4]", "hour", *CALENDAR),
    "tz": ("identity", "hour", *CALENDAR),
    "dec": ("identity", "bucket[4]", "truncate[50]"),
    "t": ("identity",),
}


@st.composite
def predicates(draw, values):
    column = draw(st.sampled_from(sorted(values)))
    written = VALUES[column][1]
    near = values[column] if draw(st.booleans()) and values[column] is not None else draw(VALUES[column][0])
    literal, other = written(near), written(draw(VALUES[column][0]))
    kinds = [f"{column} = {literal}", f"{column} != {literal}", f"{column} is null", f"{column} is not null"]
    kinds += [f"{column} in ({literal}, {other})", f"{column} not in ({literal}, {other})"]
    if column != "t":
        kinds += [f"{column} {op} {literal}" for op in ("<", "<=", ">", ">=")]
        kinds += [f"{column} between {literal} and {other}"]
    if column == "s":
        kinds += [f"s like '{near[:2]}%'", f"s not like '{near[:2]}%'"]
    return draw(st.sampled_from(kinds))


@settings(max_examples=100)
@given(data=st.data())
def test_partition_with_a_matching_row_is_always_selected(make_filter, data):
    row = {name: data.draw(st.none() | values) for name, (values, _) in VALUES.items()}
    parts = [data.draw(predicates(row)) for _ in range(data.draw(st.integers(1, 3)))]
    where = data.draw(st.sampled_from([" and ", " or "])).join(parts)
    if data.draw(st.booleans()):
        where = f"not ({where})"

    spec, partition = [], {}
    for index, column in enumerate(data.draw(st.sets(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))):
        transform = data.draw(st.sampled_from(TRANSFORMS[column]))
        spec.append(field(f"p{index}", transform, 1000 + index, column))
        partition[1000 + index] = parse_transform(transform).transform(KNOWN.find_type(column))(row[column])
    types = tuple_types(spec, {IDS[name]: type_ for name, type_ in TYPES.items()})
    key = partition_key(0, {str(i): value_to_json(types[i], value) for i, value in partition.items()})

    # Without its negations, of which pyiceberg takes that of an unknown for true, which no engine does.
    evaluate = expression_evaluator(KNOWN, rewrite_not(parse(where)), case_sensitive=True)
    assume(evaluate(Record(*(row[f.name] for f in KNOWN.fields))))
    assert make_filter(spec, where=where)(key)
