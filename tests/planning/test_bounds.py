"""Bounds exclude files by a list of values as they do by each value alone."""

from __future__ import annotations

import itertools
import math
import operator
import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from puffin.planning.bounds import FileBounds
from puffin.planning.flags import all_of, any_of
from puffin.tables.expression import Op, Predicate
from puffin.tables.file_metrics import FileMetrics
from puffin.values.json_values import to_json

DRAW: dict[str, Callable[[random.Random], Any]] = {
    "long": lambda r: r.randint(-5, 5),
    "double": lambda r: r.choice([-1.5, -0.0, 0.0, 0.5, 3.0, math.inf, -math.inf]),
    "float": lambda r: r.choice([-1.5, -0.0, 0.0, 0.5, float(np.float32(0.1))]),
    "string": lambda r: r.choice(["", "a", "a\0", "b", "ba", "ä", "\U0001f600"]),
    "binary": lambda r: r.choice([b"", b"\0", b"a", b"a\0", b"\xff"]),
    "uuid": lambda r: bytes([r.choice([0, 0x7F, 0x80, 0xFF]), *range(15)]),
    "date": lambda r: r.randint(-3, 3),
    "decimal(9, 2)": lambda r: r.randint(-300, 300),
}


def files_of(type_: str, seed: int) -> list[FileMetrics]:
    """Files with all pairs of drawn bounds, some unknown, some that are no numbers, and with nulls and NaNs or not."""
    r = random.Random(seed)
    drawn = [DRAW[type_](r) for _ in range(6)]
    bounds = [None, *drawn, *([math.nan] if type_ in ("float", "double") else [])]
    counts = [(10, 0, 0), (10, 2, 0), (10, 10, 0), (10, 0, 10), (None, None, None)]
    return [FileMetrics(*count, *pair) for pair in itertools.product(bounds, repeat=2) for count in counts]


def asked(op: Op, type_: str, values: Sequence[Any]) -> Predicate:
    return Predicate(op, 1, "c", tuple(json_form(type_, value) for value in values), {})


def json_form(type_: str, value: Any) -> Any:
    if type_.startswith("decimal"):
        return f"{value / 100:.2f}"
    if type_ == "uuid":
        h = value.hex()
        return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"
    return to_json(type_, value)


@pytest.mark.parametrize("type_", DRAW)
@pytest.mark.parametrize("seed", range(5))
def test_list_of_values_excludes_what_each_of_them_excludes(type_: str, seed: int) -> None:
    r = random.Random(1000 + seed)
    files = FileBounds(type_, files_of(type_, seed))
    for length in (1, 2, 5):
        values = [DRAW[type_](r) for _ in range(length)]
        one_by_one = [files.may_match(asked(Op.EQ, type_, [value])) for value in values]
        assert (files.may_match(asked(Op.IN, type_, values)) == any_of(one_by_one)).all()
        one_by_one = [files.may_match(asked(Op.NOT_EQ, type_, [value])) for value in values]
        assert (files.may_match(asked(Op.NOT_IN, type_, values)) == all_of(one_by_one)).all()


@pytest.mark.parametrize("writer", [bytes, lambda value: struct.unpack(">qq", value)], ids=["unsigned", "signed"])
@pytest.mark.parametrize("reader", [bytes, lambda value: struct.unpack(">qq", value)], ids=["unsigned", "signed"])
def test_uuids_in_a_range_are_found_in_either_order(writer: Callable[[Any], Any], reader: Callable[[Any], Any]) -> None:
    r = random.Random(7)
    rows = [[DRAW["uuid"](r) for _ in range(r.randint(1, 3))] for _ in range(100)]
    files = FileBounds("uuid", [FileMetrics(3, 0, 0, min(of, key=writer), max(of, key=writer)) for of in rows])
    for op, holds in ((Op.LT, operator.lt), (Op.LT_EQ, operator.le), (Op.GT, operator.gt), (Op.GT_EQ, operator.ge)):
        wanted = DRAW["uuid"](r)
        matching = [any(holds(reader(value), reader(wanted)) for value in of) for of in rows]
        assert (files.may_match(asked(op, "uuid", [wanted])) >= np.array(matching)).all()


def test_empty_list_excludes_every_file_and_its_negation_none() -> None:
    files = FileBounds("long", files_of("long", 1))
    assert not files.may_match(asked(Op.IN, "long", [])).any()
    assert files.may_match(asked(Op.NOT_IN, "long", [])).all()


def test_long_list_of_values_is_exact() -> None:
    files = FileBounds("long", [FileMetrics(10, 0, 0, 10 * i, 10 * i + 3) for i in range(5_000)])
    kept = files.may_match(asked(Op.IN, "long", range(0, 50_000, 25)))
    assert (np.flatnonzero(kept) == [i for i in range(5_000) if any((10 * i + j) % 25 == 0 for j in range(4))]).all()
