"""
Hostile bodies for the plans of the REST face: what nobody should send, and what is only too large.

``PUFFIN_HOSTILE_PLANS`` says how many; 10,000 take some minutes. Run it with ``-s`` to see figures.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.hand_made_table import HandMadeTable
from tests.server.iceberg_face import JAVA, PYTHON, bounds_of, publish, table_path

BODIES = int(os.environ.get("PUFFIN_HOSTILE_PLANS", "200"))
MOST_GROWTH = 16 * 1024  # KiB
PATIENCE = 60  # seconds
MEGABYTE = 1024 * 1024
COLUMNS = {
    "a": "long",
    "i": "int",
    "f": "float",
    "d": "double",
    "s": "string",
    "b": "binary",
    "u": "uuid",
    "day": "date",
    "ts": "timestamptz",
    "dec": "decimal(9, 2)",
    "flag": "boolean",
    "fix": "fixed[4]",
    "ns": "timestamp_ns",
}
TRANSFORMS = (
    "identity",
    "bucket[16]",
    "truncate[3]",
    "day",
    "hour",
    "year",
    "void",
    "bucket[0]",
    "truncate[-1]",
    "zorder",
)
VALUES = (
    *(0, -1, 1.5, -0.0, "x", "2024-01-01", "2024-02-30", "12:00", "00ff", "12.50", "1e400", "NaN", True),
    *("2024-01-01T00:00:00+00:00", "9999999-01-01", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
)
COMPARISONS = ("lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq", "starts-with", "not-starts-with")
OTHERS = ("is-null", "not-null", "is-nan", "not-nan", "in", "not-in", "and", "or", "not", "true", "false", "literal")


class Attacker:
    """Makes bodies of requests for plans and tasks, the same ones each time."""

    def __init__(self) -> None:
        self._random = random.Random(13)

    def body(self) -> bytes:
        """What to send; one in a hundred is so large that it takes seconds."""
        any_of, number = self._random.choice, self._random.randint
        if self._random.random() < 1 / 100:
            return encoded({"filter": any_of([self._many_values, self._many_tests])()})
        return any_of(
            [
                lambda: encoded({"filter": self._expression(4)}),
                lambda: encoded(self._spoiled({"filter": self._expression(3), "snapshot-id": 1, "select": ["a"]})),
                lambda: encoded({"filter": self._spoiled(self._expression(3)), "case-sensitive": False}),
                lambda: self._deep(),
                lambda: encoded({"filter": self._test(self._long_text())}),
                lambda: encoded({self._long_text(): 1, "filter": {"type": self._long_text(), "term": "a", "value": 1}}),
                lambda: encoded({"stats-fields": [any_of([*COLUMNS]) for _ in range(number(1, 100_000))]}),
                lambda: encoded({"select": [self._long_text()], "stats-fields": [self._junk()]}),
                lambda: self._raw(),
                lambda: encoded({"plan-task": any_of([self._long_text(), self._junk(), f"x.{number(-9, 10**9)}"])}),
                lambda: self._random.randbytes(number(0, 300)),
            ]
        )()

    def _expression(self, depth: int) -> Any:
        any_of = self._random.choice
        if depth and self._random.random() < 0.5:
            type_ = any_of(["and", "or", "not"])
            left, right = (self._expression(depth - 1) for _ in range(2))
            return {"type": type_, "child": left} if type_ == "not" else {"type": type_, "left": left, "right": right}
        return self._test(any_of([*COLUMNS, "A", "nope", ""]))

    def _test(self, column: str) -> Any:
        any_of = self._random.choice
        terms = [
            column,
            {"type": "reference", "term": column},
            {"type": "reference", "id": self._random.randint(-1, 20)},
            {"type": "transform", "transform": any_of(TRANSFORMS), "term": column},
            {
                "type": "apply",
                "function": any_of(TRANSFORMS),
                "arguments": [self._junk(), {"type": "reference", "name": column}],
            },
        ]
        values = [self._value() for _ in range(self._random.randint(0, 3))]
        return {"type": any_of(COMPARISONS + OTHERS), "term": any_of(terms), "value": self._value(), "values": values}

    def _value(self) -> Any:
        value = self._random.choice([*VALUES, self._junk()])
        return {"type": "literal", "value": value} if self._random.random() < 0.2 else value

    def _junk(self) -> Any:
        number = self._random.choice([1, 31, 32, 63, 64, 65, 1000, 14_000])
        return self._random.choice(
            [
                None,
                [],
                {},
                "",
                "\ud800",
                "\0",
                "\uffff" * 9,
                1 << number,
                -(1 << number),
                1e308,
                5e-324,
                [[[]]],
                {"type": {}},
            ]
        )

    def _spoiled(self, document: Any) -> Any:
        """The document with junk in place of a part of it."""
        if not isinstance(document, dict) or not document or self._random.random() < 0.2:
            return self._junk()
        key = self._random.choice([*document])
        return {**document, key: self._spoiled(document[key])}

    def _deep(self) -> bytes:
        depth = self._random.choice([150, 250, 900, 990, 1_000, 5_000, 50_000])
        opening, closing = self._random.choice(
            [
                ('{"type":"not","child":', "}"),
                ('{"type":"and","left":true,"right":', "}"),
                ('{"type":"or","right":true,"left":', "}"),
                ('{"type":"and","left":{"type":"or","left":false,"right":', '},"right":true}'),
                ('{"type":"eq","value":1,"term":{"type":"transform","transform":"day","term":', "}}"),
                ('{"type":"eq","term":"a","value":{"type":"literal","value":', "}}"),
                ('{"type":"in","term":"a","values":[', "]}"),
                ("[", "]"),
            ]
        )
        count = min(depth, MEGABYTE // (len(opening) + len(closing) + 1))
        return b'{"filter":%b%b%b}' % (
            (opening * count).encode(),
            self._random.choice([b"true", b'"a"', b""]),
            (closing * count).encode(),
        )

    def _many_values(self) -> Any:
        count = self._random.choice([1_000, 20_000, 100_000])
        column, draw = self._random.choice(
            [
                ("a", lambda: self._random.randrange(1 << 40)),
                ("s", lambda: f"{self._random.getrandbits(24):x}"),
                ("d", self._random.random),
                ("dec", lambda: f"{self._random.randrange(10**6)}.25"),
                ("day", lambda: self._random.randrange(30_000)),
                ("u", lambda: "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
                ("nope", lambda: 1),
                ("a", self._value),
            ]
        )
        values: list[Any] = []
        room = 900_000
        while len(values) < count and room > 0:
            values.append(draw())
            room -= len(json.dumps(values[-1])) + 1
        return {"type": self._random.choice(["in", "not-in"]), "term": column, "values": values}

    def _many_tests(self) -> Any:
        count, type_ = self._random.choice([100, 1_500, 8_000]), self._random.choice(["and", "or"])
        tests: list[Any] = [
            {"type": self._random.choice(COMPARISONS), "term": "s", "value": f"{self._random.getrandbits(16):x}"}
            for _ in range(count)
        ]
        while len(tests) > 1:
            pairs = list(zip(tests[::2], tests[1::2], strict=False))
            tests = [*({"type": type_, "left": a, "right": b} for a, b in pairs), *tests[2 * len(pairs) :]]
        return tests[0]

    def _long_text(self) -> str:
        return self._random.choice(["x", "\ud800", "é", "\0", "[", "."]) * self._random.choice(
            [1_000, 100_000, MEGABYTE // 8]
        )

    def _raw(self) -> bytes:
        value = self._random.choice(
            ["NaN", "-Infinity", "1e999", "9" * 5_000, "-", "01", '"\\ud800"', '"\\u00"', "\xff", "tru"]
        )
        form = self._random.choice(
            [
                '{"filter":{"type":"eq","term":"d","value":%s}}',
                '{"filter":{"type":"eq","type":"in","term":"a","term":"s","values":["x",%s],"values":["y"]}}',
                '{"filter":true,"filter":%s}',
                '{"snapshot-id":%s}',
                '{"filter":{"type":"in","term":"a","values":[1,%s]}}',
                "%s",
            ]
        )
        return (form % value).encode("latin-1")


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode()[:MEGABYTE]


@pytest.fixture
def process(process_of: Callable[..., Any], tmp_path: Path) -> Any:
    """A process that serves a table of all types with some hundred partitions."""
    fields = [(i, name, type_) for i, (name, type_) in enumerate(COLUMNS.items(), 1)]
    spec = [(5, "truncate[1]"), (1, "bucket[16]"), (8, "month")]
    table = HandMadeTable(tmp_path / "root" / "db" / "t", fields, version=3, spec=spec)
    partitions = [(f"{i % 10}", i % 16, i % 7) for i in range(400)]
    table.snapshot(
        *(
            table.data(
                table.root / f"{i}", record_count=10, partition=partition, first_row_id=10 * i, **bounds_of(10 * i)
            )
            for i, partition in enumerate(partitions)
        )
    )
    publish(table)
    return process_of(tmp_path / "root", "--iceberg", "--timeout", PATIENCE)


def test_hostile_bodies_get_no_5xx_in_time_and_leave_no_memory_behind(process: Any) -> None:
    attacker, statuses, slowest = Attacker(), Counter[tuple[str, int]](), 0.0
    sizes = []
    with httpx.Client(base_url=f"{process.url}/iceberg/v1", timeout=2 * PATIENCE) as client:
        for number in range(BODIES):
            body = attacker.body()
            path = "tasks" if b"plan-task" in body[:20] else "plan"
            headers = (JAVA, PYTHON, {})[number % 3]
            began = time.monotonic()
            answer = client.post(f"{table_path('db', 't')}/{path}", content=body, headers=headers)
            slowest = max(slowest, time.monotonic() - began)
            statuses[path, answer.status_code] += 1
            assert answer.status_code < 500, (answer.text[:200], body[:300])
            if answer.status_code >= 400:
                assert len(answer.content) < 10_000
            if number % (BODIES // 10) == 0:
                sizes.append(process.resident_kib())
        asked = {"filter": {"type": "eq", "term": "a", "value": 15}}
        document = client.post(f"{table_path('db', 't')}/plan", json=asked).json()
    sizes.append(process.resident_kib())
    sys.stdout.write(f"{dict(statuses)}, slowest {slowest:.1f} s, KiB {sizes}\n")
    assert len(document["file-scan-tasks"]) <= 16
    assert statuses["plan", 200] > BODIES // 10
    assert sizes[-1] < max(sizes[: len(sizes) // 2]) + MOST_GROWTH
    assert process.stop() == 0
