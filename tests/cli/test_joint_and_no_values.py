"""``puffin analyze --joint`` and ``--no-values``, as a user calls them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from puffin import ndv
from puffin.errors import ColumnNotFound
from stats_jobs import Options, analyze


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people"
    rows = {"city": ["Ulm", "Ulm", None, "Bonn"] * 25, "zip": pa.array([1, 1, 2, None] * 25, pa.int64())}
    write_deltalake(path, pa.table(rows))
    return path


def test_joint_sketches_are_reported_and_kept(puffin, table):
    run = puffin("analyze", table, "--joint", "zip+city")
    assert run.code == 0
    assert "joint sketch of city+zip: 3 distinct tuples" in run.text
    write_deltalake(table, pa.table({"city": ["Ulm"], "zip": pa.array([7], pa.int64())}), mode="append")
    (joint,) = puffin("analyze", table, "--json").document["joint"]
    assert joint == {"columns": ["city", "zip"], "ndv": 4, "lower": 4, "upper": 4, "exact": True, "reason": None}
    assert "statistics are current" in puffin("analyze", table).text
    assert "joint" not in puffin("analyze", table, "--no-joint", "--json").document


def test_there_are_no_more_tuples_than_rows(puffin, tmp_path):
    """A key's tuples are estimated, and the estimate may be above the rows; deletes lower the limit."""
    for rows in (50_000, 40_000, 30_000):
        keys = pa.array(range(rows), pa.int64())
        write_deltalake(tmp_path / "t", pa.table({"k": keys, "c": pa.array(["x"] * rows)}), mode="overwrite")
        run = puffin("analyze", tmp_path / "t", "--joint", "k+c", "--json")
        (joint,) = run.document["joint"]
        assert 0.9 * rows < joint["lower"] < joint["ndv"] <= joint["upper"] <= rows
        assert not joint["exact"]


def test_blanks_around_the_commas_of_columns_do_not_count(puffin, table):
    run = puffin("analyze", table, "--columns", " city, zip ", "--json")
    assert [column["column"] for column in run.document["columns"]] == ["city", "zip"]


def test_set_of_one_column_is_a_wrong_call(puffin, table):
    run = puffin("analyze", table, "--joint", "city")
    assert (run.code, run.stdout) == (2, b"")
    assert run.stderr == "puffin: joint: expected 2 to 4 columns such as country+city, found 'city'\n"


def test_no_values_keeps_counts_and_no_bounds(puffin, table):
    assert puffin("analyze", table, "--no-values").code == 0
    city, zip_ = puffin("ndv", table, "city", "zip", "--json").document["columns"]
    assert (city["ndv"], city["null-count"], city["min"], city["max"]) == (2, 25, None, None)
    assert (zip_["ndv"], zip_["min"]) == (2, None)
    stored = [path.read_bytes() for path in table.rglob("*") if "_puffin" in str(path) and path.is_file()]
    assert stored
    assert not any(b"Bonn" in each for each in stored)


def test_only_a_full_run_brings_back_what_no_row_counts_leaves_out(puffin, table):
    """The help says so: row counts, and distributions with them."""

    def method():
        return puffin("estimate", table, "--where", "zip < 2", "--json").document["methods"][0]["method"]

    assert puffin("analyze", table, "--no-row-counts").code == 0
    assert puffin("analyze", table).code == 0
    assert method() == "min and max"
    assert puffin("analyze", table, "--mode", "full").code == 0
    assert method() == "all values"
    help_ = " ".join(puffin("analyze", "--help").text.split())
    assert "--no-row-counts Do not keep row counts and distributions" in help_
    assert "Undo with --mode full" in help_


def test_values_of_one_column_can_be_left_out(table):
    """Of a first run, of current statistics, and for good; a name that no column has is refused."""
    analyze(str(table))
    assert [c.to_json()["min"] for c in ndv(str(table), ["city", "zip"]).columns] == ["Bonn", 1]
    report = analyze(str(table), Options(no_values=("city",)))
    assert (report.committed, report.bytes_read) == (True, 0)
    write_deltalake(table, pa.table({"city": ["Aalen"], "zip": pa.array([0], pa.int64())}), mode="append")
    analyze(str(table))
    assert [c.to_json()["min"] for c in ndv(str(table), ["city", "zip"]).columns] == [None, 0]
    analyze(str(table), Options(mode="full", no_values=("zip",)))
    assert [c.to_json()["min"] for c in ndv(str(table), ["city", "zip"]).columns] == ["Aalen", None]
    with pytest.raises(ColumnNotFound, match="town"):
        analyze(str(table), Options(no_values=("town",)))
