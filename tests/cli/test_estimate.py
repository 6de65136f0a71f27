"""``puffin estimate``: the text says how many rows changed since the statistics."""

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
