"""0.0 and -0.0 are one value in joins and groups, and NaNs of other bits are, though their hashes differ."""

from __future__ import annotations

import math
import random

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from puffin.lookup import Lookup
from puffin.lookup.estimates import estimate
from stats_jobs import Options, analyze
from tests.asked_of_duckdb import ask

NAN = float("nan")
OTHER_NAN = math.copysign(NAN, -1)  # as processors make it of 0 / 0


def analyzed(path, rows: pa.Table) -> str:
    write_deltalake(path, rows)
    analyze(str(path), Options(joint=("f+g", "f+h+g")))
    return str(path)


def drawn(chance: random.Random, rows: int) -> pa.Table:
    """Many zeros and NaNs, of which one sign is rare or missing."""
    share, nans = chance.choice([0, 0.1, 0.5, 1]), chance.choice([[NAN], [OTHER_NAN], [NAN, OTHER_NAN]])
    zero = [0.0 if chance.random() < share else -0.0 for _ in range(rows)]
    other = [chance.choice([None, chance.choice(nans), 1.5, -2.5, 1e300]) for _ in range(rows)]
    return pa.table(
        {
            "f": pa.array([chance.choice(each) for each in zip(zero, other, strict=True)], pa.float64()),
            "h": pa.array([chance.choice([0.0, -0.0, *nans, 4.5]) for _ in range(rows)], pa.float32()),
            "g": pa.array([chance.randrange(4) for _ in range(rows)], pa.int32()),
        }
    )


@pytest.mark.parametrize("seed", range(12))
def test_join_of_values_with_several_hashes_is_within_its_bounds(tmp_path, seed):
    chance = random.Random(seed)
    tables = [drawn(chance, chance.randrange(1, 200)) for _ in range(2)]
    paths = [analyzed(tmp_path / str(at), rows) for at, rows in enumerate(tables)]
    lookup = Lookup()
    for on in (["f"], ["h"], ["f", "g"], ["g", "f"], ["f", "h", "g"]):
        keys = " and ".join(f"l.{column} = r.{column}" for column in on)
        for where in (None, "g > 1", "f > 0 and h is not null", "f is nan", "h != 4.5"):
            passing = "true" if where is None else where.replace("f is nan", "isnan(f)")
            left = f"(select * from l where {passing})"
            found = lookup.estimate_join(paths[0], "+".join(on), paths[1], "+".join(on), where).rows
            true = (
                ask(f"select count(*) from {left} l join r on {keys}", l=tables[0], r=tables[1]),
                ask(f"select count(*) from {left} l semi join r on {keys}", l=tables[0], r=tables[1]),
                ask(f"select count(*) from r semi join {left} l on {keys}", l=tables[0], r=tables[1]),
            )
            for each, (number,) in zip(found[:3], true, strict=True):
                lower, upper = each.rounded()[1:]
                assert lower <= number <= upper, (on, where)


@pytest.mark.parametrize("seed", range(12))
def test_groups_of_values_with_several_hashes_are_within_their_bounds(tmp_path, seed):
    chance = random.Random(seed)
    rows = drawn(chance, chance.randrange(1, 40))
    path = analyzed(tmp_path / "t", rows)
    for by in (["f"], ["h"], ["f", "g"], ["f", "h", "g"]):
        (number,) = ask(f"select count(*) from (select distinct {', '.join(by)} from t)", t=rows)
        _, lower, upper = estimate(path, None, by).groups.rounded()
        assert lower <= number <= upper, by
        if len(by) == 1:
            assert lower == upper


@pytest.mark.parametrize("nan", [NAN, OTHER_NAN])
def test_join_without_negative_zeros_and_with_one_nan_stays_exact(tmp_path, nan):
    rows = pa.table({"f": [0.0, 0.0, 1.0, nan], "g": [1, 1, 1, 2], "h": pa.array([0.0] * 4, pa.float32())})
    paths = [analyzed(tmp_path / name, rows) for name in "ab"]
    found = Lookup().estimate_join(paths[0], "f+g", paths[1], "f+g").rows
    assert found.rows.rounded() == (6, 6, 6)
    assert found.method == "all values"
