"""Truncated bounds are bounds, and equal those of Iceberg's Java library (``TestUnicodeUtil``, ``TestBinaryUtil``)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin.values.truncation import KEPT, truncate_lower, truncate_upper

LAST = "\U0010ffff"
ODD = st.sampled_from(["\ud7ff", "\ue000", LAST])
TEXT = st.text(max_size=2 * KEPT) | st.lists(ODD, max_size=40).map("".join)
BYTES = st.binary(max_size=2 * KEPT) | st.lists(st.sampled_from([0, 254, 255]), max_size=40).map(bytes)

UPPER = {
    "short enough": ("a" * 16, "a" * 16),
    "the last code point is raised": ("a" * 17, "a" * 15 + "b"),
    "code points count, not bytes": ("\u30d5" * 17, "\u30d5" * 15 + "\u30d6"),
    "nor UTF-16 units": ("\U0001f600" * 16, "\U0001f600" * 16),
    "beyond the basic plane": ("\U0001f600" * 17, "\U0001f600" * 15 + "\U0001f601"),
    "from the basic plane to the next": ("a" * 15 + "\uffff" + "x", "a" * 15 + "\U00010000"),
    "surrogates are passed over": ("a" * 15 + "\ud7ff" + "x", "a" * 15 + "\ue000"),
    "of the largest the one before": ("a" * 14 + "b" + LAST + "x", "a" * 14 + "c"),
    "before the surrogates too": ("a" * 14 + "\ud7ff" + LAST + "x", "a" * 14 + "\ue000"),
    "down to the first": ("a" + LAST * 16, "b"),
    "the largest of all has none above": (LAST * 17, None),
    "but is one for itself": (LAST * 16, LAST * 16),
    "bytes": (b"a" * 17, b"a" * 15 + b"b"),
    "of the largest byte the one before": (b"a" * 14 + b"\x01\xff\x00", b"a" * 14 + b"\x02"),
    "the largest bytes have none above": (b"\xff" * 17, None),
    "but are one for themselves": (b"\xff" * 16, b"\xff" * 16),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("value", "expected"), UPPER.values(), ids=UPPER.keys())
def test_truncated_upper_bound_equals_javas(value, expected):
    assert truncate_upper(value) == expected


def test_truncated_lower_bound_is_a_prefix_in_code_points_or_bytes():
    assert truncate_lower("\U0001f600" * 17) == "\U0001f600" * 16
    assert truncate_lower(b"\xff" * 17) == b"\xff" * 16
    assert truncate_lower("ab") == "ab"


@given(st.tuples(TEXT, TEXT) | st.tuples(BYTES, BYTES))
def test_truncation_keeps_order_and_is_idempotent(pair):
    """So joined bounds of parts equal the truncated bound of the whole."""
    small, large = sorted(pair)
    low, high = truncate_lower(small), truncate_upper(large)
    assert low <= small
    assert low <= truncate_lower(large)
    assert truncate_lower(low) == low
    if high is not None:
        assert high >= large
        assert truncate_upper(high) == high
        assert truncate_upper(small) is not None
        assert truncate_upper(small) <= high
        assert isinstance(high, bytes) or high.encode().decode() == high
