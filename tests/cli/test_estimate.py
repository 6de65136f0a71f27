"""``puffin estimate``: the text says how many rows changed since the statistics, and what is a guess."""

import pyarrow as pa
from deltalake import write_deltalake


def test_text_says_that_the_table_changed_since_its_statistics(puffin, tmp_path):
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"k": range(100)}))
    assert puffin("analyze", table).code == 0
    said = puffin("estimate", table, "--where", "k < 10").text.splitlines()
    assert said[1:] == ["10 rows (exact)", "predicate  method", "k < 10     all values"]
    write_deltalake(table, pa.table({"k": range(5)}), mode="append")
    _, rows, changed, *_ = puffin("estimate", table, "--where", "k < 10").text.splitlines()
    assert rows.endswith("rows (10 to 15)")
    assert changed == "since the statistics were made, 5 rows came and 0 went; the bounds allow for them"


def test_text_says_that_the_groups_of_a_column_without_statistics_are_a_guess(puffin, tmp_path):
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"k": range(100), "other": [value % 3 for value in range(100)]}))
    assert puffin("analyze", table, "--columns", "k").code == 0
    said = puffin("estimate", table, "--group-by", "k,other").text.splitlines()
    assert said[2:] == ["100 groups (exact)"]
    lines = puffin("estimate", table, "--group-by", "other").text.splitlines()
    assert lines[2:] == ["10 groups (1 to 100)", "no statistics of other: the number of groups is a guess"]
    assert "guess" not in puffin("estimate", table, "--group-by", "k").text


def test_json_says_how_the_groups_were_found(puffin, tmp_path):
    table = str(tmp_path / "t")
    columns = {name: [value % number for value in range(100)] for name, number in (("a", 5), ("b", 7), ("c", 2))}
    write_deltalake(table, pa.table({**columns, "other": [None] * 99 + [1]}))
    assert puffin("analyze", table, "--columns", "a,b,c", "--joint", "a+b").code == 0
    found = {
        by: puffin("estimate", table, "--group-by", by, "--json").document["groups-method"]
        for by in ("a", "a,b", "b,c", "other")
    }
    assert found == {"a": "distinct values", "a,b": "joint", "b,c": "independence assumed", "other": "no statistics"}
    assert puffin("estimate", table, "--json").document["groups-method"] is None
