"""Partition tuples: which fields of a spec they have, and values that survive JSON."""

from __future__ import annotations

from decimal import Decimal

import pytest

from puffin.errors import CorruptMetadataError
from puffin.values.partition_tuples import partition_key, plain_key, tuple_types, value_from_json, value_to_json


def field(field_id, source_id, transform):
    return {"field-id": field_id, "source-id": source_id, "name": f"f{field_id}", "transform": transform}


def test_tuple_leaves_out_unknown_fields():
    """Void fields, unknown transforms, dropped columns, and fields without a transform."""
    fields = [
        field(1000, 1, "identity"), field(1001, 2, "day"), field(1002, 1, "bucket[4]"), field(1003, 1, "void"),
        field(1004, 1, "zorder"), field(1005, 9, "identity"), field(1006, None, "identity"), field(1007, 2, "hour[x]"),
        {"field-id": 1008, "source-id": 1},
    ]  # fmt: skip
    assert tuple_types(fields, {1: "string", 2: "timestamp"}) == {1000: "string", 1001: "date", 1002: "int"}


def test_key_is_compact_and_ordered_by_field_id():
    assert partition_key(3, {"10001": None, "1000": "é"}) == (3, '{"1000":"é","10001":null}')


def test_key_of_version_0_1_0_has_small_decimals_in_digits():
    """Texts that look like these stay as they are, and so do values of unknown specs."""
    old = partition_key(3, {"1000": "0E-10", "1001": "1E-10", "1002": None})
    types = {3: {1000: "decimal(12, 10)", 1001: "string", 1002: "decimal(9, 2)"}}
    assert plain_key(old, types) == partition_key(3, {"1000": "0.0000000000", "1001": "1E-10", "1002": None})
    assert plain_key(old, {}) == old


def test_key_of_version_0_1_0_has_signs_before_years_beyond_9999():
    old = partition_key(0, {"1000": "10209-08-31", "1001": "10209-08-31", "1002": "2026-08-31", "1003": None})
    types = {0: {1000: "date", 1001: "string", 1002: "date", 1003: "timestamp"}}
    today = partition_key(0, {"1000": "+10209-08-31", "1001": "10209-08-31", "1002": "2026-08-31", "1003": None})
    assert plain_key(old, types) == today
    assert plain_key(today, types) == today


@pytest.mark.parametrize(
    ("type_", "json_form", "value"),
    [
        ("boolean", True, True),
        ("int", -5, -5),
        ("long", 2**62, 2**62),
        ("double", 0.1, 0.1),
        ("string", "", ""),
        ("date", "1969-12-31", -1),
        ("time", "00:00:01.000001", 1_000_001),
        ("timestamp", "1970-01-01T00:00:01.000001", 1_000_001),
        ("timestamptz", "1970-01-01T00:00:01.000001+00:00", 1_000_001),
        ("timestamp_ns", "1970-01-01T00:00:01.000000001", 1_000_000_001),
        ("timestamptz_ns", "1970-01-01T00:00:01.000000001+00:00", 1_000_000_001),
        ("decimal(9, 2)", "-14.20", Decimal("-14.20")),
        ("decimal(12, 10)", "0.0000000000", Decimal("0E-10")),
        ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")),
        ("binary", "00ff", b"\x00\xff"),
        ("fixed[2]", "00ff", b"\x00\xff"),
    ],
)
def test_values_survive_json(type_, json_form, value):
    assert value_from_json(type_, json_form) == value
    assert value_to_json(type_, value) == json_form
    assert value_from_json(type_, None) is None
    assert value_to_json(type_, None) is None


def test_float_is_read_from_its_shortest_form():
    """Not from its whole binary fraction."""
    assert value_from_json("float", 0.10000000149011612) == 0.1


@pytest.mark.parametrize(
    ("type_", "json_form"),
    [("int", "5"), ("int", True), ("string", 5), ("date", "soon"), ("boolean", 1), ("uuid", "x")],
)
def test_value_of_another_type_is_refused(type_, json_form):
    with pytest.raises(CorruptMetadataError, match="in JSON single-value form"):
        value_from_json(type_, json_form)
