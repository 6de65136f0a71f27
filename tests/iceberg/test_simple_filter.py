"""The filters that are read without pyiceberg's grammar mean what pyiceberg makes of them."""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import And, EqualTo, LessThan
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import rewrite_not

import puffin
from puffin.errors import ColumnNotFound, UsageError
from puffin.iceberg import filters
from puffin.iceberg.filter_mistakes import expected_at
from puffin.iceberg.simple_filter import SimpleTest, SimpleTests, read_filter
from puffin.tables.expression import Combination, Constant, Expression, Op

COLUMNS = [
    "k",
    "a.b",
    "a . b",
    "_x$1",
    "K9",
    "ä",
    "1a",
    '"k"',
    "a..b",
    "a.in",
    "true",
    "False",
    "NOT",
    "null",
    "\u212a",
]
OPERATORS = ["=", "==", "=", "<", "<=", ">", ">=", "!=", "<>", "===", "= =", "in", "is", "like", "not like", "not in"]
NUMBERS = ["1", "-1", "+5", "007", "-0", "1.5", "-2.50", "1e3", ".5", "5.", "9" * 25, "- 1", "0x1", "٣", "1_0", "1a"]
STRINGS = [
    "'a'",
    "''",
    "'it''s'",
    ", '",
    "'a\\'b'",
    "'\\n'",
    "'a\nb'",
    '"k"',
    "'ü'",
    "'a' 'b'",
    "'%'",
    "'a\0'",
    "'a%'",
    "'%a'",
]
REST = [" ", " ", "\n", "\r", "\f", "\v", "\u00a0", "(", ")", ".", ";", "--", "#", "", "not", "and", "or", "between"]
SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "i", "required": True, "type": "int"},
        {"id": 2, "name": "l", "required": False, "type": "long"},
        {"id": 3, "name": "d", "required": False, "type": "double"},
        {"id": 4, "name": "s", "required": False, "type": "string"},
        {"id": 5, "name": "f", "required": False, "type": "boolean"},
        {"id": 6, "name": "t", "required": False, "type": "date"},
        {"id": 7, "name": "n", "required": False, "type": "decimal(9, 2)"},
        {
            "id": 8,
            "name": "o",
            "required": False,
            "type": {"type": "struct", "fields": [{"id": 9, "name": "x", "required": True, "type": "long"}]},
        },
        {"id": 10, "name": "ts", "required": False, "type": "timestamp"},
        {"id": 11, "name": "tz", "required": False, "type": "timestamptz"},
    ],
}
LIST_WITH_DECIMALS = re.compile(r"\([-+0-9.,\s]*\.[-+0-9.,\s]*\)")
INTEGER = re.compile(r"(?<![0-9.])[0-9]+\b(?!\.)")
WORDS = st.sampled_from(["and", "or", "AND", "Or"])
GAPS = st.sampled_from([" ", "  ", "\n", " \r\n"])
LITERALS = st.one_of(
    st.integers(-(2**33), 2**33).map(str),
    st.sampled_from(["0", "-0", "+7", str(2**63), str(-(2**63)), "1.50", "-0.25", "9007199254740993", "3.0", "00012"]),
    st.sampled_from(["true", "FALSE", "'2020-02-29'", "'2021-02-29'", "'2020-1-1'", "'0001-01-01'", "'12'", "'1.5'"]),
    st.sampled_from(
        ["'2020-02-29 10:00'", "'2020-02-29T10:00:00.5'", "'2020-02-29 10:00:00Z'", "'2020-02-29T10:00-02:30'"]
    ),
    st.text("ab%_ü() '", max_size=4).map(lambda text: "'" + text.replace("'", "''") + "'"),
)


@st.composite
def column_tests(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(["i", "l", "d", "s", "f", "t", "n", "o.x", "ts", "tz", "o", "absent", "S", "In"]))
    space, gap = draw(st.sampled_from(["", " ", "\n"])), draw(GAPS)
    match draw(st.integers(0, 4)):
        case 0 | 1:
            op = draw(st.sampled_from(["=", "==", "<", "<=", ">", ">=", "!=", "<>"]))
            return f"{name}{space}{op}{space}{draw(LITERALS)}"
        case 2:
            listed = f"{space},{gap}".join(draw(st.lists(LITERALS, min_size=1, max_size=4)))
            return f"{name}{gap}{draw(st.sampled_from(['in', 'not in', 'NOT  In']))}{space}({space}{listed}{space})"
        case 3:
            word = draw(st.sampled_from(["is null", "is not null", "is nan", "IS NOT NaN"]))
            return f"{name}{gap}{word}"
    word = draw(st.sampled_from(["like", "not like"]))
    return draw(
        st.sampled_from([f"{name} {word} {draw(LITERALS)}", f"{name} between {draw(LITERALS)} and {draw(LITERALS)}"])
    )


FILTERS = st.recursive(
    column_tests(),
    lambda inner: st.one_of(
        st.builds(lambda a, g, w, b: f"{a}{g}{w}{g}{b}", inner, GAPS, WORDS, inner),
        inner.map(lambda text: f"( {text})"),
    ),
    max_leaves=6,
)


def outcome(act: Callable[[], object]) -> str:
    with contextlib.suppress(Exception):
        return repr(act())
    return "refused"


def meaning(expression: Expression) -> object:
    """What a filter means, to compare; pyiceberg leaves constants out of some filters, and not of others."""
    if isinstance(expression, Combination):
        parts = [meaning(part) for part in expression.parts]
        if (not expression.is_and) in parts:
            return not expression.is_and
        parts = [part for part in parts if part is not expression.is_and]
        return (expression.is_and, parts) if len(parts) > 1 else parts[0] if parts else expression.is_and
    if isinstance(expression, Constant):
        return expression.value
    return expression.op, expression.field_id, expression.name, [repr(each) for each in expression.values]


def by_pyiceberg(where: str) -> object:
    """The filter as pyiceberg's grammar reads it and its binding types it, if lists have numbers of one kind."""
    where = LIST_WITH_DECIMALS.sub(lambda found: INTEGER.sub(r"\g<0>.0", found[0]), where)
    return meaning(filters.Binder(SCHEMA, {}).bind(rewrite_not(parse(where))))


@settings(max_examples=200)
@given(FILTERS)
@example("i=true or i!=1.50")
@example("n in (0, 1.50)")
def test_filters_mean_what_pyiceberg_makes_of_them(where: str) -> None:
    parser = filters.FilterParser(SCHEMA, {})
    found = outcome(lambda: meaning(parser(where)))
    expected = outcome(lambda: by_pyiceberg(where))
    assert found == expected


def test_random_text_is_read_as_pyiceberg_reads_it() -> None:
    chance = random.Random(1)
    read = 0
    for _ in range(20_000):
        text = [chance.choice(each) for each in (COLUMNS, REST, OPERATORS, REST, [*NUMBERS, *STRINGS])]
        if chance.random() < 0.3:
            text = chance.choices([*COLUMNS, *OPERATORS, *NUMBERS, *STRINGS, *REST], k=chance.randint(1, 9))
        where = "".join((chance.choice(REST[:3]), *text, chance.choice(REST[:3])))
        if read_filter(where) is not None:
            read += 1
            assert repr(filters.parse(where)) == repr(parse(where)), where
    assert read > 100


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("uid = 17", SimpleTest(Op.EQ, "uid", (17,))),
        (" a.b=='it''s' ", SimpleTest(Op.EQ, "a.b", ("it's",))),
        ("k = -5", SimpleTest(Op.EQ, "k", (-5,))),
        ("k = ''", SimpleTest(Op.EQ, "k", ("",))),
        ("k <> 1.5", SimpleTest(Op.NOT_EQ, "k", (Decimal("1.5"),))),
        ("k in (1, 2, 1)", SimpleTest(Op.IN, "k", (1, 2))),
        ("k not like 'x%'", SimpleTest(Op.NOT_STARTS_WITH, "k", ("x",))),
        ("k = 1 or (k = 2)", SimpleTests((SimpleTest(Op.EQ, "k", (1,)), SimpleTest(Op.EQ, "k", (2,))), False)),
        ("k in (1, true)", None),
        ("k = 1and j = 2", None),
        ("not k = 1", None),
        ("not = 1", None),
        ("k like 'a%b'", None),
        ("k = 'a\\b'", None),
        ("k = 'a\tb'", None),
        ('"k" = 1', None),
        ("1 = k", None),
    ],
)
def test_only_simple_filters_are_read(text: str, found: object) -> None:
    assert read_filter(text) == found


@pytest.mark.parametrize("name", ["x.y", "a b.c", ".x", "x.", "x..y", "."])
def test_name_in_quotes_may_have_dots(name: str) -> None:
    assert str(filters.parse(f'"{name}" = 1')) == str(EqualTo(name, 1))
    assert str(filters.parse(f"""2 > "{name}" and s = '"{name}"'""")) == str(
        And(LessThan(name, 2), EqualTo("s", f'"{name}"'))
    )


@pytest.mark.parametrize(
    ("mixed", "decimals"),
    [
        ("1, 2.5", "1.0, 2.5"),
        ("2.5,-3,+4, .5", "2.5, -3.0, 4.0, 0.5"),
        (" 1 , 2. ", "1.0, 2.0"),
        ("0.5, 0", "0.5, 0.0"),
    ],
)
def test_list_may_have_integers_beside_decimals(mixed: str, decimals: str) -> None:
    parser = filters.FilterParser(SCHEMA, {})
    for name, where in itertools.product("ildn", ("{} in ({})", "not ({} in ({}) and s = '(1, 2.5)')")):
        assert meaning(parser(where.format(name, mixed))) == meaning(parser(where.format(name, decimals)))


@pytest.mark.parametrize(
    ("exponent", "digits"),
    [
        *(("d < 1e0003", "d < 1000"), ("d < -1.5E-2", "d < -0.015"), ("d < 2.5e+300", f"d < 25{'0' * 299}")),
        *(("i = 15e-1", "i = 1.5"), ("i = 1.5e1", "i = 15"), ("n >= 1e-2", "n >= 0.01"), (".5e1 > d", "5 > d")),
        *(("d < 1e399", "d < '1e399'"), ("d > -2e308 or l > 2e308", "d > '-2e308' or l > '2e308'")),
        *(("d in (1e3, 2, 3.5)", "d in (1000, 2, 3.5)"), ("not l between 1e1 and 2E1", "not l between 10 and 20")),
        *(("i = 1e1 and s = '1e1'", "i = 10 and s = '1e1'"), ("s like '1e1%' or d = 1e1", "s like '1e1%' or d = 10")),
    ],
)
def test_number_may_have_an_exponent(exponent: str, digits: str) -> None:
    parser = filters.FilterParser(SCHEMA, {})
    assert meaning(parser(exponent)) == meaning(parser(digits))


@pytest.mark.parametrize("where", ["i1e3 = 1", "o.e1 = 1e1", '"1e3" = 1', "s = 1e3"])
def test_name_with_an_exponent_is_a_name_and_no_text_is_a_number(where: str) -> None:
    said = r"no column '(i1e3|o\.e1|1e3)'|type string, found a decimal"
    with pytest.raises((ColumnNotFound, UsageError), match=said):
        filters.FilterParser(SCHEMA, {})(where)


def test_tab_in_a_value_stays_a_tab(tmp_path: Path) -> None:
    """pyparsing turns it into spaces by default, and the file with the row would be left out."""
    for value in ("a\tb", "a b"):
        write_deltalake(tmp_path / "t", pa.table({"s": [value]}), mode="append")
    for where in ("s = 'a\tb'", "s in ('a\tb')", "s = 'a\tb' and s is not null"):
        (task,) = puffin.plan(str(tmp_path / "t"), where).files
        assert pq.read_table(task.data_file.file_path)["s"].to_pylist() == ["a\tb"]


def test_underscore_of_like_stands_for_itself() -> None:
    chance, parser, refused = random.Random(5), filters.FilterParser(SCHEMA, {}), 0
    for _ in range(500):
        pattern = chance.choices(
            ["a", "b", "''", "_", r"\_", r"\%", "%", "-"], [3, 3, 1, 1, 4, 2, 1, 3], k=chance.randint(1, 5)
        )
        like = chance.choice(["like", "LIKE ", "not like", "NOT\nLike  "])
        where = f"""l > 5 and ("s" {like}'{"".join(pattern)}' or s = 'a_''like')"""
        if "%" in pattern[:-1]:
            refused += 1
            with pytest.raises(UsageError):
                parser(where)
            continue
        prefix = "".join(pattern).removesuffix("%" if pattern[-1] == "%" else "").replace("''", "'").replace("\\", "")
        ops = (Op.STARTS_WITH, Op.NOT_STARTS_WITH) if pattern[-1] == "%" else (Op.EQ, Op.NOT_EQ)
        of_like = (ops["not" in like.lower()], 4, "s", [repr(prefix)])
        others = [(Op.GT, 2, "l", ["5"]), (False, [of_like, (Op.EQ, 4, "s", [repr("a_'like")])])]
        assert meaning(parser(where)) == (True, others), where
    assert 20 < refused < 100


@pytest.mark.parametrize("name", ["i", "l", "d", "f", "t", "n"])
def test_like_of_a_column_without_text_is_refused(name: str) -> None:
    literal = {"f": "true", "t": "2020-02-29"}.get(name, "1")
    for where in (f"{name} like '{literal}%'", f"{name} not like '{literal}%'"):
        with pytest.raises(UsageError, match="expected a column of strings for like"):
            filters.FilterParser(SCHEMA, {})(where)


def test_parentheses_are_nested_at_most_200_deep() -> None:
    def nested(test: str, depth: int) -> str:
        return "(" * depth + test + ")" * depth

    assert str(filters.parse(nested("k = 1", 200))) == str(EqualTo("k", 1))
    assert str(filters.parse(f"s = '{'(' * 300}'")) == str(EqualTo("s", "(" * 300))
    with pytest.raises(UsageError, match="at most 200 deep"):
        filters.parse(nested("k = 1", 201))


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("", "its end at character 1"),
        ("i = ", "its end at character 5"),
        ("i ~ 1", "'~ 1' at character 3"),
        ("i = 1 and", "its end at character 10"),
        ("i = 1\tand\ts ~ 2", "'~ 2' at character 13"),
        ("i = 1 or not (s = 'x' and l >)", "')' at character 30"),
        ("i = 1 and i in (1, 'x')", "\", 'x')\" at character 18"),
        ("i in ()", "')' at character 7"),
        ("i between 1", "its end at character 12"),
        ("not true", "'true' at character 5"),
        ("i = 1 or (false)", "'false)' at character 11"),
        ("s is nul", "'nul' at character 6"),
        ("i = 1 s = 'x'", "\"s = 'x'\" at character 7"),
        ("(i = 1", "its end at character 7"),
        ("i = 1)", "')' at character 6"),
        ("i = 1 and and l = 2", "'and l = 2' at character 11"),
        ("s is null and is null", "'is null' at character 15"),
        (r"s like '\_\_%' and i ~ 1", "'~ 1' at character 22"),
        ("i = 1 and 2 = 2", "'2' at character 15"),
        ("i = 1 and not not (s = 'x' or (i = 2)))", "')' at character 39"),
        ("i = 1and l = 2", "'and l = 2' at character 6"),
        ("i = 1\u00a0and s = 'x'", "\"\\xa0and s = 'x'\" at character 6"),
        ("i = 1 and d in (1, 2.5) or l ~ 1", "'~ 1' at character 30"),
        ("d in (1, 2.5, 'x')", "\".5, 'x')\" at character 11"),
        ('"o.x" = 1 or "o"."x" ~ 1', "'~ 1' at character 22"),
        ("i = 1 and l ~ " + "1" * 60, f"'~ {'1' * 38}' at character 13"),
    ],
)
def test_error_about_a_filter_says_where_it_is_wrong(where: str, found: str) -> None:
    with pytest.raises(UsageError) as raised:
        filters.FilterParser(SCHEMA, {})(where)
    assert str(raised.value).startswith(f"filter {where!r}: expected tests such as a = 5, b in ('x', 'y'), ")
    assert str(raised.value).endswith(f"; found {found}")


TO_QUOTE = "a number, true, false, or a text, date or time in single quotes"
POWER = "a number such as 1e-5, with an exponent from -399 to 399"
TO_CLOSE = "a single quote at each end of a text, and two for one in it"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("s = NULL", "s is null, as no comparison with null is true; found 'NULL' at character 5"),
        ('i = 1 and "s"<>null', "\"s\" is not null, as no comparison with null is true; found 'null' at character 16"),
        ("f", "a comparison such as f = true; found its end at character 2"),
        ("i = 1 or not f", "a comparison such as f = true; found its end at character 15"),
        ("(f) and i = 1", "a comparison such as f = true; found ') and i = 1' at character 3"),
        ("o.x And f = true", "a comparison such as o.x = true; found 'And f = true' at character 5"),
        ('s = "x"', f"{TO_QUOTE}; found '\"x\"' at character 5"),
        ("""s in ('x', "y")""", f"""{TO_QUOTE}; found ', "y")' at character 10"""),
        ("i = 1 and s = x", f"{TO_QUOTE}; found 'x' at character 15"),
        ("s like x%", f"{TO_QUOTE}; found 'x%' at character 8"),
        ("t > 2024-01-31", f"{TO_QUOTE}; found '-01-31' at character 9"),
        ("t > DATE '2024-01-31'", f"{TO_QUOTE}; found \"DATE '2024-01-31'\" at character 5"),
        ("s = 'x' and s = 'y", f"{TO_CLOSE}; found its end at character 19"),
        ("""s = 'a\\'b' and s = x""", f"{TO_QUOTE}; found 'x' at character 20"),
        ("s = 'it's'", f'{TO_CLOSE}; found "s\'" at character 9'),
        ("d > 1e400", f"{POWER}; found 'e400' at character 6"),
        ("s = '1e3' and i > 2e3x", f"{POWER}; found 'e3x' at character 20"),
        ("i = 1e3 and s = x", f"{TO_QUOTE}; found 'x' at character 17"),
        ("i > 1 and s = 'a\nb' or f", 'a text without a line break; found "b\' or f" at character 18'),
    ],
)
def test_error_about_a_common_mistake_says_how_it_is_written(where: str, expected: str) -> None:
    with pytest.raises(UsageError) as raised:
        filters.FilterParser(SCHEMA, {})(where)
    assert str(raised.value) == f"filter {where!r}: expected {expected}"


def test_error_about_a_long_filter_shows_its_beginning() -> None:
    where = " or ".join(f"i = {number}" for number in range(1000)) + " or x"
    with pytest.raises(UsageError) as raised:
        filters.FilterParser(SCHEMA, {})(where)
    assert str(raised.value).startswith(f"filter {where[:200] + '…'!r}: expected a comparison such as x = true; found")


def test_expression_in_place_of_text_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^filter: expected text such as .*, found EqualTo$"):
        filters.FilterParser(SCHEMA, {})(EqualTo("i", 1))  # type: ignore[arg-type]


def test_search_for_mistakes_in_a_long_filter_takes_no_time() -> None:
    for where in (
        "'\\" * 500_000,
        "'\\" * 500_000 + "'",
        "a" * 1_000_000,
        '"' + '"s' * 500_000,
        "s in (" + "1, " * 300_000,
    ):
        for place in (0, len(where) // 2, len(where)):
            assert expected_at(where, place).startswith("expected ")


def test_error_about_a_column_after_the_name_of_its_table_names_the_column() -> None:
    for name in ("orders.s", "db.orders.s"):
        with pytest.raises(ColumnNotFound, match=rf"no column '{name}'; did you mean 's'\?$"):
            filters.FilterParser(SCHEMA, {})(f"{name} = 'x'")


def test_error_about_a_column_in_double_quotes_says_what_they_mean() -> None:
    with pytest.raises(ColumnNotFound, match="no column 'x'; texts are in single quotes, names of columns in double"):
        filters.FilterParser(SCHEMA, {})('"x" = 1')


@pytest.mark.parametrize("where", ["S = 'x'", "not S = 'x'"])
def test_error_about_an_unknown_column_names_one_that_is_alike(where: str) -> None:
    with pytest.raises(ColumnNotFound, match=r"no column 'S'; did you mean 's'\?$"):
        filters.FilterParser(SCHEMA, {})(where)


def test_simple_filter_of_a_delta_table_needs_no_pyiceberg(tmp_path: Path) -> None:
    """What pyiceberg has to bind is refused with the name of the extra, an unknown column with its name."""
    write_deltalake(tmp_path / "t", pa.table({"k": [1, 2, 3], "list": [[1], [], [2]]}))
    script = """
import sys
sys.modules["pyiceberg"] = None
import puffin
table = sys.argv[1]
print(len(list(puffin.plan(table, "k in (1, 7) or k > 5").files)), puffin.estimate(table, "k = 1").rows.upper)
for filter_ in ("not k = 1", "k = 1 and nope = 1", "list.element = 1"):
    try:
        puffin.plan(table, filter_)
    except puffin.PuffinError as exc:
        print(type(exc).__name__, exc)
"""
    command = [sys.executable, "-c", script, str(tmp_path / "t")]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    first, *refused = run.stdout.splitlines()
    assert first == "1 3"
    assert refused[0] == (
        "MissingDependencyError filter 'not k = 1': expected comparisons, in, like, between and tests of null or NaN, "
        "joined by and, or and parentheses; any other filter needs pyiceberg: run pip install '.[iceberg]' in the "
        "checkout of puffin-sidecar"
    )
    assert [each.partition(": ")[0] for each in refused[1:]] == [
        "ColumnNotFound filter 'k = 1 and nope = 1'",
        "MissingDependencyError pyiceberg is not installed",
    ]
