"""Whose hashes a sketch consists of, by the name in its file and by the values that it must have."""

from __future__ import annotations

import hashlib
import math
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.errors import UnsupportedTypeError
from puffin.format import CREATED_BY, ROW_COUNTS_V1, THETA_V1, PuffinReader
from puffin.sketches.hashing import hash_array
from puffin.sketches.row_counts import RowCounts
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.whose_hashes import contradiction, writer_objection
from puffin.storage import store_for
from puffin.values.json_values import arrow_type

ENGINES = Path(__file__).parents[2] / "fixtures" / "engines"
PRESTO, TRINO = ENGINES / "presto-0.287-1000-rows.stats", ENGINES / "trino-476-types.stats"
HOURS = 3_600_000_000
ICEBERG = "Apache Iceberg 1.10.2 (commit 57396d628cb9f92e121f9c2919398475393f0a3a)"


def rows(type_: str, value) -> pa.Array:
    values = [value(k) for k in range(1000)]
    if pa.types.is_temporal(arrow_type(type_)):
        return pa.array(values).cast(pa.int32() if type_ == "date" else pa.int64()).view(arrow_type(type_))
    return pa.array(values, arrow_type(type_))


# The recipes of the fixtures' README, by field id.
PRESTO_ROWS = {
    2: ("int", lambda k: k * 7 - 3000),
    3: ("long", lambda k: k * 12345678901),
    4: ("float", lambda k: k / 3),
    5: ("double", lambda k: k / 3),
    6: ("decimal(9,2)", lambda k: Decimal(k - 500) / 4),
    7: ("decimal(38,10)", lambda k: (k - 500) * Decimal("123.8912")),
    8: ("date", lambda k: k - 500),
    9: ("timestamp", lambda k: (k - 500) * 3 * HOURS - 877_000),
    10: ("string", lambda k: "" if k == 1 else f"value {k}"),
}
PRESTO_AS_SPECIFIED = (3, 5, 10)
TRINO_ROWS = {
    2: ("int", lambda k: k * 7 * (1 if k % 2 else -1)),
    3: ("long", lambda k: k * 12345678901 * (1 if k % 2 else -1)),
    4: ("float", lambda k: k / 3 if k > 4 else None),
    5: ("double", lambda k: k / 3 if k > 4 else None),
    6: ("decimal(9,2)", lambda k: Decimal(k - 500) / 4),
    9: ("date", lambda k: k - 500),
    10: ("time", lambda k: k * 4_000_000 + 1),
    11: ("timestamp", lambda k: (k - 500) * 3 * HOURS - 876_544),
    13: ("string", lambda k: f"value {k}" if k > 2 else None),
    15: ("binary", lambda k: hashlib.sha1(str(k).encode()).digest() if k != 1 else b""),
    19: ("long", lambda k: k),
    20: ("string", lambda k: f"n{k}"),
    22: ("double", lambda k: k / 7),
}


def read(path: Path) -> tuple[str, dict[int, ThetaSketch], dict[int, RowCounts]]:
    """The writer of a file, its sketches, and our row counts, by field id."""
    with store_for(str(path)).open_source(str(path)) as source:
        reader = PuffinReader(source)
        blobs = reader.file_metadata.blobs
        sketches = {b.fields[0]: ThetaSketch.from_bytes(reader.read(b)) for b in blobs if b.type == THETA_V1}
        counts = {b.fields[0]: RowCounts.from_bytes(reader.read(b)) for b in blobs if b.type == ROW_COUNTS_V1}
        return reader.file_metadata.properties[CREATED_BY], sketches, counts


def extremes(values: pa.Array) -> pa.Array:
    """The smallest and the largest value, as bounds have them."""
    in_order = values.drop_null().sort()
    return pa.concat_arrays([in_order[:1], in_order[-1:]])


# --- the name -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["puffin-sidecar 0.1.0", "puffin-sidecar 12.0.0rc1", "Trino version 476"])
def test_our_and_trinos_sketches_have_known_hashes_including_uuid(name):
    assert writer_objection(name, "uuid") is None
    assert writer_objection(name, "decimal(9, 2)") is None


@pytest.mark.parametrize("name", [ICEBERG, f"Iceberg {ICEBERG} Spark 3.5.9", f"Iceberg {ICEBERG} Spark 4.1.0-rc2"])
def test_icebergs_sketches_have_known_hashes_except_uuid(name):
    assert writer_objection(name, "timestamptz") is None
    objection = writer_objection(name, "uuid")
    assert objection is not None
    assert "text of a uuid" in objection


def test_file_without_a_writer_is_unknown():
    assert writer_objection(None, "long") == "is of a file that does not say who wrote it"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Trino",
        "Trino version",
        "Trino version 476 of Presto",
        "not Trino version 476",
        "Trino version 476\n",
        "puffin-sidecarx 1",
        "Iceberg 1.10.2",
        f"my {ICEBERG}",
        f"{ICEBERG} Flink 2.0",
        "Impala 4.5",
        "presto",
        "Test 1234",
    ],
)
def test_similar_writer_name_is_unknown(name):
    assert writer_objection(name, "long") == f"was written by {name[:40]!r}, whose way of hashing is not known"


def test_long_names_are_shortened():
    assert len(writer_objection("x" * 10**6, "long")) < 150


@pytest.mark.parametrize("type_", ["int", "date", "float", "decimal(9,2)", "decimal(38, 10)", "timestamp"])
def test_prestos_hash_of_a_type_is_named(type_):
    objection = writer_objection("presto-0.287-b8952fa", type_)
    assert re.search(r"'presto-0.287-b8952fa', and Presto hashes (int|date|float|decimal|timestamp) \w+", objection)


@pytest.mark.parametrize("type_", ["long", "double", "string", "timestamptz", "uuid"])
def test_prestos_sketches_are_not_used_even_for_standard_types(type_):
    assert "not known" in writer_objection("presto-0.287-b8952fa", type_)


def test_type_without_single_values_is_refused():
    with pytest.raises(UnsupportedTypeError):
        writer_objection("Trino version 476", "variant")


# --- Presto -------------------------------------------------------------------------------------------------------


def test_recipe_of_the_presto_file_is_complete():
    created_by, sketches, _ = read(PRESTO)
    assert sketches.keys() == PRESTO_ROWS.keys()
    assert writer_objection(created_by, "long") is not None


@pytest.mark.parametrize("field_id", PRESTO_ROWS)
def test_bounds_contradict_only_prestos_own_hashes(field_id):
    type_, value = PRESTO_ROWS[field_id]
    _, sketches, _ = read(PRESTO)
    values = rows(type_, value)
    reason = contradiction(sketches[field_id], type_, extremes(values))
    if field_id in PRESTO_AS_SPECIFIED:
        assert reason is None
        assert contradiction(sketches[field_id], type_, values) is None
    else:
        assert reason.startswith("lacks the hash of ")


@pytest.mark.parametrize(
    ("field_id", "shown"),
    [(2, "-3000"), (4, "0.0"), (6, "-125.00"), (7, "-61945.6000000000"), (8, "1968-08-19")],
)
def test_first_missing_value_is_named(field_id, shown):
    type_, value = PRESTO_ROWS[field_id]
    _, sketches, _ = read(PRESTO)
    reason = contradiction(sketches[field_id], type_, rows(type_, value))
    assert reason == f"lacks the hash of {shown}, which the table has in this column of {type_}"


@pytest.mark.parametrize("field_id", set(PRESTO_ROWS) - set(PRESTO_AS_SPECIFIED))
def test_prestos_sketch_joined_with_ours_of_other_rows_lacks_prestos_rows(field_id):
    type_, value = PRESTO_ROWS[field_id]
    _, sketches, _ = read(PRESTO)
    values = rows(type_, value)
    joined = sketches[field_id].union(ThetaSketch.from_arrow(values[500:], type_))
    assert contradiction(joined, type_, values[:10]).startswith("lacks the hash of ")


@pytest.mark.parametrize("field_id", set(PRESTO_ROWS) - set(PRESTO_AS_SPECIFIED) - {9})
@pytest.mark.parametrize("lg_k", [5, 9, 12])
def test_prestos_sketch_joined_with_ours_of_the_same_rows_is_detected(field_id, lg_k):
    """Rows were inserted twice: every value is there, but the distinct values doubled."""
    type_, value = PRESTO_ROWS[field_id]
    _, sketches, _ = read(PRESTO)
    values = rows(type_, value)
    joined = sketches[field_id].union(ThetaSketch.from_arrow(values, type_), lg_k=lg_k)
    assert joined.estimate > 1200
    reason = contradiction(joined, type_, values)
    assert re.fullmatch(r"has the hash that Presto makes of \S+, a value of this column of \S+", reason)


def test_prestos_timestamps_are_detected_unless_near_1970():
    """In microseconds, today's time in milliseconds is a time in January 1970."""
    today = pa.array([1_790_000_000_123_000 + k for k in range(1000)]).cast(pa.timestamp("us"))
    milliseconds = pa.array([1_790_000_000_123])
    joined = ThetaSketch.from_arrow(today, "timestamp").union(ThetaSketch.from_arrow(milliseconds, "long"))
    reason = contradiction(joined, "timestamp", today)
    assert reason == (
        "has the hash that Presto makes of 2026-09-21 14:13:20.123000, a value of this column of timestamp"
    )
    near = pa.array([k * 1000 for k in range(1000)]).cast(pa.timestamp("us"))
    joined = ThetaSketch.from_arrow(near, "timestamp").union(ThetaSketch.from_arrow(pa.array(range(1000)), "long"))
    assert contradiction(joined, "timestamp", near) is None


def test_uuid_hashed_as_text_is_detected():
    values = pa.array([bytes([k] * 16) for k in range(100)], pa.binary(16))
    text = pa.array([f"{value.as_py().hex()}" for value in values]).to_pylist()
    dashed = pa.array([f"{t[:8]}-{t[8:12]}-{t[12:16]}-{t[16:20]}-{t[20:]}" for t in text])
    ours, sparks = ThetaSketch.from_arrow(values, "uuid"), ThetaSketch.from_arrow(dashed, "string")
    assert contradiction(ours, "uuid", values) is None
    assert contradiction(sparks, "uuid", values).startswith("lacks the hash of 000000")
    assert contradiction(ours.union(sparks), "uuid", values[7:]) == (
        "has the hash that Iceberg's Spark action makes of 07070707070707070707070707070707, a value of this column of "
        "uuid"
    )


# --- Trino --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field_id", TRINO_ROWS)
def test_trinos_hashes_are_not_contradicted(field_id):
    type_, value = TRINO_ROWS[field_id]
    created_by, sketches, _ = read(TRINO)
    assert writer_objection(created_by, type_) is None
    values = rows(type_, value)
    assert len(values.drop_null()) > 990
    assert contradiction(sketches[field_id], type_, values) is None


def test_trino_hashes_zeros_and_nans_by_their_bits():
    _, sketches, _ = read(TRINO)
    for field_id, type_, values in [
        (4, "float", [-0.0, math.nan, math.inf]),
        (5, "double", [-0.0, math.nan, -math.inf]),
    ]:
        assert contradiction(sketches[field_id], type_, pa.array(values, arrow_type(type_))) is None


def test_trinos_hashes_equal_ours_for_the_same_rows():
    """Of every type that Trino has, uuid included: our row counts of these rows are still in its file."""
    _, sketches, counts = read(TRINO)
    assert sketches.keys() == counts.keys() == {*range(1, 16), 19, 20, 22}
    for field_id, sketch in sketches.items():
        assert np.array_equal(sketch.hashes, counts[field_id].hashes)


# --- any sketch ---------------------------------------------------------------------------------------------------


TYPES = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "date": st.integers(-(2**31), 2**31 - 1),
    "time": st.integers(0, 86_400_000_000 - 1),
    **dict.fromkeys(("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), st.integers(-(2**63), 2**63 - 1)),
    "string": st.text(),
    "binary": st.binary(),
    "uuid": st.binary(min_size=16, max_size=16),
    "fixed[3]": st.binary(min_size=3, max_size=3),
    "decimal(9, 2)": st.decimals("-9999999.99", "9999999.99", places=2),
    "decimal(38,10)": st.decimals(-(10**27), 10**27, places=10),
}


@pytest.mark.parametrize("type_", TYPES)
def test_our_sketch_is_never_contradicted_by_its_values(type_):
    target = arrow_type(type_)
    stored = pa.int32() if target == pa.date32() else pa.int64()

    def array(values):
        is_temporal = pa.types.is_temporal(target)
        return pa.array(values, stored).view(target) if is_temporal else pa.array(values, target)

    @settings(max_examples=40)
    @given(st.data())
    def check(data):
        values = data.draw(st.lists(st.none() | TYPES[type_], max_size=60))
        lg_k = data.draw(st.integers(5, 26))
        some = data.draw(st.lists(st.sampled_from(values))) if values else []
        sketch = ThetaSketch.from_arrow(array(values), type_, lg_k)
        assert contradiction(sketch, type_, array(some)) is None
        assert contradiction(ThetaSketch.from_bytes(sketch.to_bytes()), type_, array(some)) is None

    check()


@settings(max_examples=40)
@given(st.integers(5, 13), st.integers(0, 2**40), st.integers(1, 30_000))
def test_estimating_sketch_is_not_contradicted_either(lg_k, start, count):
    values = pa.array(np.arange(start, start + count))
    sketch = ThetaSketch.from_arrow(values, "long", lg_k)
    assert contradiction(sketch, "long", values) is None
    above = pa.array(np.arange(start + count, start + count + 200 * (1 + count // 2**lg_k)))
    expected = any((hashes < sketch.theta).any() for hashes in hash_array(above, "long"))
    assert (contradiction(sketch, "long", above) is not None) == expected


@pytest.mark.parametrize(
    ("type_", "values", "shown"),
    [
        ("string", pa.array(["a", "it's"]), '"it\'s"'),
        ("string", pa.array(["a", "x" * 50]).dictionary_encode(), f"'{'x' * 36}..."),
        ("string", pa.array(["a", "b"], pa.string_view()), "'b'"),
        ("binary", pa.array([b"a", b"\x00\xff"]), "00ff"),
        ("boolean", pa.array([True]), "True"),
        ("timestamp_ns", pa.array([-(2**62)]).view(pa.timestamp("ns")), "1823-11-12 00:06:21.572612096"),
        ("timestamptz", pa.array([2**63 - 1]).view(pa.timestamp("us", "UTC")), "9223372036854775807"),
    ],
)
def test_value_of_any_type_can_be_named(type_, values, shown):
    sketch = ThetaSketch.from_arrow(pa.array(["a"]), "string")
    assert contradiction(sketch, type_, values).startswith(f"lacks the hash of {shown}, which")


def test_nulls_and_empty_values_contradict_nothing():
    empty = ThetaSketch.from_arrow(pa.array([], pa.string()), "string")
    assert contradiction(empty, "string", pa.array(["", None])) is None
    assert contradiction(empty, "string", pa.array([], pa.string())) is None
    assert contradiction(empty, "string", pa.array(["", None, "x"])) is not None
