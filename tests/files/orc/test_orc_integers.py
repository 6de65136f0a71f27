"""Integers and bits of ORC streams: the examples of the specification, and truncated streams."""

import pytest

from puffin.files.orc.integers import read_bits, read_integers
from puffin.files.varints import read_varint

EXAMPLES = {
    "short repeat": ("0a2710", [10000] * 5, False),
    "short repeat, signed": ("0a4e20", [10000] * 5, True),
    "direct": ("5e035ca1ab1edeadbeef", [23713, 43806, 57005, 48879], False),
    "patched base": (
        "8e132b2107d01e0014702832" + "3c46505a646e78828c96a0aab4befce8",
        [2030, 2000, 2020, 1_000_000, *range(2040, 2200, 10)],
        False,
    ),
    "delta": ("c609020222424246", [2, 3, 5, 7, 11, 13, 17, 19, 23, 29], False),
    "delta, constant": ("c0040102", [1, 2, 3, 4, 5], False),
    "delta, downwards, signed": ("c0041301", [-10, -11, -12, -13, -14], True),
}


@pytest.mark.parametrize(("data", "values", "signed"), EXAMPLES.values(), ids=EXAMPLES)
def test_each_kind_of_run_decodes_the_specifications_example(data, values, signed):
    assert read_integers(bytes.fromhex(data), len(values), signed=signed).tolist() == values


@pytest.mark.parametrize(("data", "values", "signed"), EXAMPLES.values(), ids=EXAMPLES)
def test_truncated_stream_is_malformed(data, values, signed):
    whole = bytes.fromhex(data)
    for length in range(len(whole)):
        with pytest.raises((ValueError, IndexError)):
            read_integers(whole[:length], len(values), signed=signed)


def test_patch_wider_than_64_bits_is_malformed():
    """The patch and its gap have separate widths: together they may be 72 bits."""
    with pytest.raises(ValueError, match="a gap of 8 bits and a patch of 64"):
        read_integers(bytes.fromhex("8e13ffff07d01e0014702832").ljust(40, b"2"), 10, signed=False)


def test_varint_ends_after_64_bits():
    assert read_varint(b"\xff" * 9 + b"\1", 0) == (2**64 - 1, 10)
    with pytest.raises(ValueError, match="more than 64 bits"):
        read_varint(b"\xff" * 1_000_000 + b"\1", 0)


def test_bits_are_read_from_runs_and_literals():
    assert read_bits(bytes.fromhex("6100"), 800).tolist() == [False] * 800
    assert read_bits(bytes.fromhex("fe4480"), 9).tolist() == [c == "1" for c in "010001001"]
    with pytest.raises(ValueError, match="expected 17 bits, found 16"):
        read_bits(bytes.fromhex("fe4445"), 17)
