"""The filters that are read without pyiceberg's grammar mean what pyiceberg makes of them."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyiceberg.expressions import EqualTo
from pyiceberg.expressions.parser import parse

import puffin
from puffin.errors import UsageError
from puffin.iceberg import filters
from puffin.iceberg.simple_filter import read_equality

COLUMNS = ["k", "a.b", "a . b", "_x$1", "K9", "ä", "1a", '"k"', "a..b", "a.in", "true", "False", "NOT", "null"]
OPERATORS = ["=", "==", "=", "==", "<", "!=", "<>", "===", "= =", "in", "is", "like"]
NUMBERS = ["1", "-1", "+5", "007", "-0", "1.5", "1e3", ".5", "5.", "9" * 25, "- 1", "--1", "0x1", "٣", "1_0", "1a"]
STRINGS = ["'a'", "''", "'it''s'", ", '", "'a\\'b'", "'\\n'", "'a\nb'", '"k"', "'ü'", "'a' 'b'", "'%'", "'a\0'"]
REST = [" ", " ", "\n", "\r", "\f", "\v", "\u00a0", "(", ")", ".", ";", "--", "#", "", "not", "and", "or", "between"]


def test_random_text_is_read_as_pyiceberg_reads_it() -> None:
    chance = random.Random(1)
    read = 0
    for _ in range(20_000):
        text = [chance.choice(each) for each in (COLUMNS, REST, OPERATORS, REST, [*NUMBERS, *STRINGS])]
        if chance.random() < 0.3:
            text = chance.choices([*COLUMNS, *OPERATORS, *NUMBERS, *STRINGS, *REST], k=chance.randint(1, 7))
        where = "".join((chance.choice(REST[:3]), *text, chance.choice(REST[:3])))
        found = read_equality(where)
        if found is not None:
            read += 1
            assert repr(EqualTo(*found)) == repr(parse(where)), where
    assert read > 100


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("uid = 17", ("uid", 17)),
        (" a.b=='it''s' ", ("a.b", "it's")),
        ("k = -5", ("k", -5)),
        ("k = ''", ("k", "")),
        ("k = 1 or k = 2", None),
        ("k = 1.5", None),
        ("not = 1", None),
        ("k = 'a\\b'", None),
        ("k = 'a\tb'", None),
        ("k = true", None),
        ('"k" = 1', None),
    ],
)
def test_only_the_simplest_filters_are_read(text: str, value: object) -> None:
    assert read_equality(text) == value


def test_tab_in_a_value_stays_a_tab(tmp_path: Path) -> None:
    """pyparsing turns it into spaces by default, and the file with the row would be left out."""
    for value in ("a\tb", "a b"):
        write_deltalake(tmp_path / "t", pa.table({"s": [value]}), mode="append")
    for where in ("s = 'a\tb'", "s in ('a\tb')", "s = 'a\tb' and s is not null"):
        (task,) = puffin.plan(str(tmp_path / "t"), where).files
        assert pq.read_table(task.data_file.file_path)["s"].to_pylist() == ["a\tb"]


def test_parentheses_are_nested_at_most_200_deep() -> None:
    def nested(test: str, depth: int) -> str:
        return "(" * depth + test + ")" * depth

    assert str(filters.parse(nested("k = 1", 200))) == str(EqualTo("k", 1))
    assert str(filters.parse(f"s = '{'(' * 300}'")) == str(EqualTo("s", "(" * 300))
    with pytest.raises(UsageError, match="at most 200 deep"):
        filters.parse(nested("k = 1", 201))
