"""The benchmark of estimates asks the same questions for the same seed, and counts their answers right."""

import random
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from benchmarks.estimates.__main__ import main
from benchmarks.estimates.generator import JOIN_FILTERED, JOIN_MANY, Amounts, questions_of
from benchmarks.estimates.iceberg_table import write_table
from benchmarks.estimates.ours import implied
from benchmarks.estimates.predicates import SINGLE_KINDS
from benchmarks.estimates.score import percentile, q_error
from benchmarks.estimates.stats_ceb import FILTER, JOIN_MORE, JOIN_TWO, question_of
from benchmarks.estimates.suite import BenchTable, Edge, Suite

ROWS = 2_000
AMOUNTS = Amounts(single=6, conjunctions=6, joins=40, groups=6)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """Three tables with skewed keys, nulls among them."""
    source = random.Random(5)
    tables = {}
    for name in ("a", "b", "c"):
        rows = {
            "k": [None if source.random() < 0.1 else int(source.expovariate(0.01)) for _ in range(ROWS)],
            "m": [source.randrange(300) for _ in range(ROWS)],
            "s": [source.choice(("ab", "abc", "b", "ca")) for _ in range(ROWS)],
        }
        directory = tmp_path_factory.mktemp("suite") / name
        write_table(directory, pa.table(rows))
        tables[name] = BenchTable(directory, ("k+m",))
    return Suite("tiny", tables, (Edge("a", "k", "b", "k"), Edge("b", "m", "c", "m"), Edge("a", "k+m", "c", "k+m")))


@pytest.fixture
def connection(suite: Suite) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the tables of the suite."""
    with duckdb.connect() as connection:
        for name, table in suite.tables.items():
            files = [str(Path(file)) for file in table.files]
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_parquet(?)", [files])
        yield connection


def test_a_seed_that_is_no_number_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["estimates", "--only", "zipf", "--engines", "ours", "--seed", "7,8a"])
    with pytest.raises(SystemExit):
        main()
    assert "--seed: invalid seeds value: '7,8a'" in capsys.readouterr().err


def test_a_seed_gives_the_same_questions_each_only_once(suite):
    questions = questions_of(suite, 3, AMOUNTS)
    assert questions == questions_of(suite, 3, AMOUNTS)
    assert questions != questions_of(suite, 4, AMOUNTS)
    assert len(questions) == len(set(questions))


def test_every_kind_of_predicate_is_asked_equally_often(suite):
    questions = questions_of(suite, 3, AMOUNTS)
    assert [sum(q.kind == kind for q in questions) for kind in SINGLE_KINDS] == [AMOUNTS.single] * len(SINGLE_KINDS)


def test_joins_are_counted_as_if_their_rows_were_made(suite, connection):
    joins = [q for q in questions_of(suite, 3, AMOUNTS) if q.kind in (JOIN_FILTERED, JOIN_MANY)]
    assert {len(join.tables) for join in joins} == {2, 3}
    for join in joins:
        made = connection.execute(f"SELECT count(*) FROM ({join.to_sql(str)})").fetchall()
        assert connection.execute(join.to_count(str)).fetchall() == made


def test_a_q_error_is_a_factor_in_either_direction():
    assert q_error(10, 5) == q_error(5, 10) == 2
    assert q_error(0, 0) == q_error(0.2, 1) == 1


def test_a_percentile_is_one_of_the_values():
    assert [percentile([4, 1, 3, 2], share) for share in (0.5, 0.9, 1)] == [2, 4, 4]


QUERIES = """\
1||SELECT COUNT(*) FROM b as x, a as y, c as z WHERE x.m = z.m AND y.k= x.k AND x.k>=3 AND x.k<=90 AND z.m<=200;
SELECT COUNT(*) FROM c as z, b as x WHERE z.m = x.m AND z.k<20;||0||17
SELECT COUNT(*) FROM a as y WHERE y.m>12;
SELECT COUNT(*) FROM a as y, d as w WHERE y.m = w.m;
SELECT COUNT(*) FROM a as y, b as x, c as z WHERE x.k = y.k AND y.k = z.k AND z.k = x.k;
SELECT COUNT(*) FROM a as y, a as x WHERE x.k = y.k;
SELECT COUNT(*) FROM a as y;
""".splitlines()


def test_a_query_of_stats_ceb_is_asked_as_it_stands(suite, connection):
    asked = [question_of(line, suite.tables) for line in QUERIES]
    assert [None if each is None else each.kind for each in asked] == [JOIN_MORE, JOIN_TWO, FILTER, *[None] * 4]
    for line, question in zip(QUERIES, asked, strict=True):
        if question is not None:
            (as_it_stands,) = re.findall("SELECT.*;", line)
            assert connection.execute(question.to_count(str)).fetchall() == connection.execute(as_it_stands).fetchall()


def test_edges_follow_from_others_with_the_same_key():
    star = [Edge("u", "id", "b", "user"), Edge("u", "id", "p", "owner"), Edge("p", "id", "l", "post")]
    assert implied(star) == [*star, Edge("b", "user", "p", "owner")]
    chain = [Edge("a", "k", "b", "k"), Edge("b", "k", "c", "k"), Edge("c", "k", "d", "k")]
    assert {frozenset((e.left, e.right)) for e in implied(chain)} == set(map(frozenset, combinations("abcd", 2)))
