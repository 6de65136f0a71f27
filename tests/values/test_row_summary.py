"""Summaries add up, rows can be subtracted, and what is unknown of a part is unknown of the whole."""

import decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin.values.column_bounds import NO_VALUES, UNKNOWN, Bounds, Missing
from puffin.values.column_summary import ColumnSummary
from puffin.values.row_summary import RowSummary


def summary(rows, nulls=0, nans=0, size=0, bounds=NO_VALUES):
    return RowSummary(rows=rows, nulls=nulls, nans=nans, total_bytes=size, bounds=bounds)


NUMBERS = st.lists(st.none() | st.integers(-9, 9), max_size=5)


def of(values):
    known = [value for value in values if value is not None]
    bounds = Bounds.of(min(known), max(known)) if known else NO_VALUES
    return summary(len(values), len(values) - len(known), 0, 8 * len(known), bounds)


@given(st.lists(NUMBERS, max_size=4))
def test_parts_add_up_to_the_whole_in_any_order(parts):
    forth = back = RowSummary()
    for part in parts:
        forth, back = forth.plus(of(part)), of(part).plus(back)
    assert forth == back == of([value for part in parts for value in part])


@given(NUMBERS, NUMBERS)
def test_removed_rows_reduce_counts_and_leave_bounds(kept, gone):
    left = of(kept + gone).minus(of(gone)).to_column("long")
    assert (left.row_count, left.null_count, left.total_bytes) == (
        of(kept).rows, of(kept).nulls, of(kept).total_bytes,
    )  # fmt: skip
    values = [value for value in kept if value is not None]
    assert all(left.min <= value <= left.max for value in values)
    assert values or left.min is left.max is None


def test_base_without_a_count_gives_none():
    stored = ColumnSummary(10, None, None, 1, 5, None)
    total = RowSummary.of(stored, "long").plus(of([7, None]))
    assert total.to_column("long") == ColumnSummary(12, None, None, 1, 7, None)


def test_base_without_a_bound_gives_none_unless_it_has_no_values():
    unknown, empty = ColumnSummary(10, 1, None, None, 5, 72), ColumnSummary(10, 10, None, None, None, 0)
    found = [RowSummary.of(base, "long").plus(of([7])).to_column("long") for base in (unknown, empty)]
    assert [(c.min, c.max) for c in found] == [(None, 7), (7, 7)]


def test_all_rows_of_a_double_may_be_nan():
    base = RowSummary.of(ColumnSummary(3, 1, 2, None, None, 16), "double")
    found = base.plus(summary(1, 0, 0, 8, Bounds.of(2.5, 2.5))).to_column("double")
    assert found == ColumnSummary(4, 1, 2, 2.5, 2.5, 24)
    assert RowSummary.of(ColumnSummary(3, 1, None, None, None, 16), "double").bounds == UNKNOWN


def test_removing_more_than_there_was_is_a_contradiction():
    found = summary(3, 1, 0, 16).minus(summary(1, 2, 0, 24)).to_column("long")
    assert found == ColumnSummary(2, None, None, None, None, None)


def test_joined_bounds_are_the_outer_ones_if_both_are_known():
    assert Bounds.of(1, 5).union(Bounds.of(3, 9)) == Bounds(1, 9)
    assert Bounds.of(1, 5).union(Bounds(Missing.UNKNOWN, 9)) == Bounds(Missing.UNKNOWN, 9)
    assert NO_VALUES.union(UNKNOWN) == UNKNOWN


JSON_FORMS = {
    "boolean": (False, True, False, True),
    "int": (-1, 5, -1, 5),
    "long": (-(2**63), 2**63 - 1, -(2**63), 2**63 - 1),
    "double": (-0.0, 1e300, 0.0, 1e300),
    "float": (-1.5, 0.10000000149011612, -1.5, 0.10000000149011612),
    "date": (-1, 19000, "1969-12-31", "2022-01-08"),
    "time": (0, 86_399_999_999, "00:00:00.000000", "23:59:59.999999"),
    "timestamp": (-1, 0, "1969-12-31T23:59:59.999999", "1970-01-01T00:00:00.000000"),
    "timestamptz": (-1, 0, "1969-12-31T23:59:59.999999+00:00", "1970-01-01T00:00:00.000000+00:00"),
    "timestamptz_ns": (-1, 0, "1969-12-31T23:59:59.999999999+00:00", "1970-01-01T00:00:00.000000000+00:00"),
    "decimal(9, 2)": (-128, 5, "-1.28", "0.05"),
    "decimal(12, 10)": (-1, 0, "-0.0000000001", "0.0000000000"),
    "decimal(38, 0)": (-(10**38) + 1, 10**37, "-" + "9" * 38, "1" + "0" * 37),
    "string": ("", "\U0001f600" * 20, "", "\U0001f600" * 15 + "\U0001f601"),
    "binary": (b"", b"\xff" * 3, "", "ffffff"),
    "fixed[20]": (b"\0" * 20, b"a" * 20, "00" * 16, "61" * 15 + "62"),
    "uuid": (
        b"\0" * 16, b"\xff" * 16, "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ),
}  # fmt: skip


@pytest.mark.parametrize("type_", JSON_FORMS)
def test_bounds_of_every_type_have_their_single_value_form(type_):
    low, high, *expected = JSON_FORMS[type_]
    bounds = Bounds.of(low, high)
    assert list(bounds.to_json(type_)) == expected
    assert repr(bounds.to_json(type_)) == repr(tuple(expected))
    assert Bounds.from_json(type_, *bounds.to_json(type_)) == bounds


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [
        ("double", float("-inf"), float("inf")),
        ("time", -1, 86_400_000_000),
        ("string", Missing.UNKNOWN, Missing.NO_VALUE),
    ],
)
def test_bound_without_a_single_value_form_is_null(type_, low, high):
    assert Bounds(low, high).to_json(type_) == (None, None)


@pytest.mark.parametrize(
    ("type_", "value"),
    [("long", "1"), ("date", 1), ("date", "yesterday"), ("decimal(9, 2)", "x"), ("uuid", "x"), ("binary", "x"),
     ("string", 1), ("int", 2**31), ("uuid", 1), ("boolean", 1), ("decimal(9, 2)", "NaN")],
)  # fmt: skip
def test_value_of_another_type_is_unknown(type_, value):
    assert Bounds.from_json(type_, value, value) == UNKNOWN


@given(st.integers(-(10**38) + 1, 10**38 - 1))
def test_decimals_lose_no_digit(unscaled):
    low, _ = Bounds.of(unscaled, unscaled).to_json("decimal(38, 10)")
    assert decimal.Decimal(low) == decimal.Context(prec=60).scaleb(decimal.Decimal(unscaled), -10)
    assert Bounds.from_json("decimal(38, 10)", low, low).lower == unscaled
