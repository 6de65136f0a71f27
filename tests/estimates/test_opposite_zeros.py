"""0.0 and -0.0 are one value in a join of several columns, though tuples with them have hashes of their own."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from puffin.lookup import Lookup
from stats_jobs import Options, analyze
from tests.asked_of_duckdb import ask

NAN = float("nan")


def analyzed(path, rows: pa.Table) -> str:
    write_deltalake(path, rows)
    analyze(str(path), Options(joint=("f+g", "f+h+g")))
    return str(path)


def drawn(chance: random.Random, rows: int) -> pa.Table:
    """Many zeros, of which one sign is rare or missing."""
    share = chance.choice([0, 0.1, 0.5, 1])
    zero = [0.0 if chance.random() < share else -0.0 for _ in range(rows)]
    other = [chance.choice([None, NAN, 1.5, -2.5, 1e300]) for _ in range(rows)]
    return pa.table(
        {
            "f": pa.array([chance.choice(each) for each in zip(zero, other, strict=True)], pa.float64()),
            "h": pa.array([chance.choice([0.0, -0.0, NAN, 4.5]) for _ in range(rows)], pa.float32()),
            "g": pa.array([chance.randrange(4) for _ in range(rows)], pa.int32()),
        }
    )


@pytest.mark.parametrize("seed", range(8))
def test_join_of_tuples_with_zeros_of_either_sign_is_within_its_bounds(tmp_path, seed):
    chance = random.Random(seed)
    tables = [drawn(chance, chance.randrange(1, 200)) for _ in range(2)]
    paths = [analyzed(tmp_path / str(at), rows) for at, rows in enumerate(tables)]
    lookup = Lookup()
    for on in (["f", "g"], ["g", "f"], ["f", "h", "g"]):
        keys = " and ".join(f"l.{column} = r.{column}" for column in on)
        for where in (None, "g > 1"):
            left = "l" if where is None else f"(select * from l where {where})"
            found = lookup.estimate_join(paths[0], "+".join(on), paths[1], "+".join(on), where).rows
            true = (
                ask(f"select count(*) from {left} l join r on {keys}", l=tables[0], r=tables[1]),
                ask(f"select count(*) from {left} l semi join r on {keys}", l=tables[0], r=tables[1]),
                ask(f"select count(*) from r semi join {left} l on {keys}", l=tables[0], r=tables[1]),
            )
            for each, (number,) in zip(found[:3], true, strict=True):
                lower, upper = each.rounded()[1:]
                assert lower <= number <= upper, (on, where)


def test_join_without_negative_zeros_stays_exact(tmp_path):
    rows = pa.table({"f": [0.0, 0.0, 1.0, NAN], "g": [1, 1, 1, 2], "h": pa.array([0.0] * 4, pa.float32())})
    paths = [analyzed(tmp_path / name, rows) for name in "ab"]
    found = Lookup().estimate_join(paths[0], "f+g", paths[1], "f+g").rows
    assert found.rows.rounded() == (6, 6, 6)
    assert found.method == "all values"
