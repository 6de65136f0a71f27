"""The blob property that sums up a column is short JSON, and nothing else is accepted as a summary."""

import pyarrow as pa
import pytest

from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.blob_properties import SUMMARY_PROPERTY, SketchProperties
from puffin.statistics.kinds import SUMMARY as SUMMARY_KIND
from puffin.statistics.kinds import THETA, to_properties
from puffin.values.column_bounds import Bounds
from puffin.values.column_summary import ColumnSummary
from puffin.values.row_summary import RowSummary

EMPTY = ThetaSketch.from_arrow(pa.array([], pa.int64()), "long")
SUMMARY = ColumnSummary(10, 2, None, "a", '\u00e9\U0001f600"\\', 24)


def test_property_is_compact_json_without_names():
    assert SUMMARY.to_text() == '[10,2,null,24,"a","\u00e9\U0001f600\\"\\\\"]'


@pytest.mark.parametrize(
    "summary",
    [
        SUMMARY,
        ColumnSummary(None, None, None, None, None, None),
        ColumnSummary(0, 0, 0, None, None, 0),
        ColumnSummary(2**63 - 1, 0, 1, -1.5e300, 5e-324, 2**63 - 1),
        ColumnSummary(1, 0, None, False, True, 1),
        ColumnSummary(1, 0, None, -(2**63), 2**63 - 1, 8),
    ],
)
def test_written_summary_is_read_back(summary):
    found = SketchProperties({SUMMARY_PROPERTY: summary.to_text()}).summary
    assert found == summary
    assert [type(found.min), type(found.max)] == [type(summary.min), type(summary.max)]


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "1", "null", "[]", "[1,2,3,4,5]", "[1,2,3,4,5,6,7]", "[-1,0,0,0,1,2]", "[1.0,0,0,0,1,2]",
        "[true,0,0,0,1,2]", '["1",0,0,0,1,2]', "[1,0,0,0,[],2]", "[1,0,0,0,1,{}]", "[1,0,0,0,NaN,2]",
        "[1,0,0,0,1,Infinity]", "[1,0,0,0,1,2", "[" * 4000, "[1,0,0,0,1," + "2" * 5000 + "]",
        f"[1,0,null,{10**400},null,null]",
    ],
)  # fmt: skip
def test_anything_else_is_no_summary(text):
    assert SketchProperties({"puffin-sidecar.summary": text}).summary is None


def test_other_properties_are_unchanged():
    summary = RowSummary.of(SUMMARY, "string")
    without, with_it = (to_properties({THETA: EMPTY, **others}, "string") for others in ({}, {SUMMARY_KIND: summary}))
    assert with_it == {**without, "puffin-sidecar.summary": SUMMARY.to_text()}
    assert SketchProperties(with_it).distinct == SketchProperties(without).distinct
    assert SketchProperties(without).summary is None


def property_bytes(type_, low, high, rows=20_000_000):
    sketch = ThetaSketch.from_arrow(pa.array(range(100_000), pa.int64()), "long")
    nans = 0 if type_ == "double" else None
    summary = ColumnSummary(rows, 1000, nans, *Bounds.of(low, high).to_json(type_), 8 * rows)
    properties = to_properties({THETA: sketch, SUMMARY_KIND: RowSummary.of(summary, type_)}, type_)
    return sum(len(f"{key}{value}".encode()) for key, value in properties.items())


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [
        ("long", -(2**63), 2**63 - 1),
        ("double", -5.004728427460312, 5.002186387098556),
        ("timestamptz", 1_767_225_600_597_899, 1_769_817_599_304_101),
        ("decimal(18, 2)", 0, 10**18 - 1),
        ("string", "customer number 0000001", "customer number 9999999"),
        ("uuid", b"\0" * 16, b"\xff" * 16),
        ("binary", b"\0" * 100, b"\xfe" * 100),
    ],
)
def test_properties_of_a_column_are_short(type_, low, high):
    """Every later metadata file repeats them."""
    assert property_bytes(type_, low, high) <= 220


def test_properties_of_the_longest_strings_are_short():
    assert property_bytes("string", "\U0010fffe" * 1000, "\U0010fffe" * 1000, rows=2**62) <= 310


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        (SUMMARY, 3.0),
        (ColumnSummary(10, 10, None, None, None, 0), None),
        (ColumnSummary(10, None, None, None, None, 24), None),
        (ColumnSummary(10, 2, None, None, None, None), None),
        (ColumnSummary(3, 0, None, None, None, 10), 10 / 3),
    ],
)
def test_average_excludes_nulls(summary, expected):
    assert summary.avg_bytes == expected
