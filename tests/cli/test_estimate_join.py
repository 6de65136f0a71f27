"""``puffin estimate-join``: the document, the text, and one line on errors."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog


@pytest.fixture
def table(golden_tables: Path) -> str:
    return str(golden_tables / "t_types")


def test_json_document_has_the_contracted_keys(puffin, table):
    """A column joined with itself is contained in itself."""
    document = puffin("estimate-join", table, "i", table, "i", "--json").document
    assert list(document) == [
        *("left", "right", "overlap-ndv", "overlap-lower", "overlap-upper"),
        *("containment-left", "containment-right", "jaccard", "join-rows", "join-lower", "join-upper"),
        *("selectivity", "method"),
        *(f"left{kind}-{end}" for kind in ("", "-semi", "-anti", "-outer") for end in ("rows", "lower", "upper")),
        *(f"right{kind}-{end}" for kind in ("", "-semi", "-anti", "-outer") for end in ("rows", "lower", "upper")),
        *("left-methods", "right-methods"),
        *(f"left-{key}" for key in ("snapshots-behind", "records-added", "records-deleted")),
        *(f"right-{key}" for key in ("snapshots-behind", "records-added", "records-deleted")),
    ]
    assert list(document["left"]) == list(document["right"]) == ["table", "column", "ndv", "row-count"]
    assert (document["left"]["table"], document["left"]["column"], document["left"]["ndv"]) == (table, "i", 4957)
    assert document["overlap-lower"] < document["overlap-ndv"] == 4957 < document["overlap-upper"]
    assert (document["containment-left"], document["containment-right"], document["jaccard"]) == (1, 1, 1)


def test_text_is_a_few_lines(puffin, table):
    run = puffin("estimate-join", table, "i", table, "i")
    assert run.code == 0
    assert "4,957" in run.text
    assert "100.0%" in run.text


def test_text_says_which_figures_are_those_after_the_filters(puffin, tmp_path):
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"k": range(100)}))
    assert puffin("analyze", table).code == 0
    said = puffin("estimate-join", table, "k", table, "k", "--left-where", "k < 10").text.splitlines()
    assert [line.split("  ")[0] for line in said] == [
        *("without filters", "left", "right", "without filters, both have 100 values (exact)"),
        *("with filters, the join has about 10 rows (exact)", "with filters", "left", "right"),
    ]
    assert "filters" not in puffin("estimate-join", table, "k", table, "k").text


def test_text_says_which_side_changed_since_its_statistics(puffin, tmp_path):
    left, right = str(tmp_path / "l"), str(tmp_path / "r")
    for table in (left, right):
        write_deltalake(table, pa.table({"k": range(100)}))
        assert puffin("analyze", table).code == 0
    before = puffin("estimate-join", left, "k", right, "k").text
    assert "since the statistics" not in before
    assert "both have 100 values (exact)" in before
    write_deltalake(right, pa.table({"k": range(5)}), mode="append")
    said = puffin("estimate-join", left, "k", right, "k").text.splitlines()
    assert "both have 100 values when the statistics were made (exact)" in said
    assert said[-1] == (
        "right: since the statistics were made, 5 rows came and 0 went; the bounds of rows allow for them"
    )


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("{table}", "absent", "{table}", "i"), 1, "no primitive column 'absent'"),
        (("{table}", "i", "{table}", "st.x"), 1, "st.x: no statistics: run puffin analyze"),
        (("{table}", "i", "{table}/absent", "i"), 1, "no such file or directory"),
        (("{table}", "i", "{table}", "l"), 1, "was hashed as int and"),
        (("{table}", "i", "db.t", "i", "--catalog", "absent"), 1, "no catalog 'absent' is configured"),
        (("{table}", "i", "{table}", "i", "--catalog-property", "a=b"), 2, "--catalog-property needs --catalog"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_failure_is_one_line(puffin, table, args, code, says):
    run = puffin("estimate-join", *(arg.format(table=table) for arg in args))
    assert run.code == code
    assert run.stdout == b""
    assert len(run.stderr.splitlines()) == 1
    assert says in run.stderr


def test_name_with_a_slash_is_a_location_even_with_a_catalog(puffin, table, tmp_path):
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    catalog = load_catalog("prod", **properties)
    catalog.create_namespace("db")
    newest = max(Path(table, "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    catalog.register_table("db.t", f"file://{newest}")
    of_catalog = ["--catalog", "prod", *(f"--catalog-property={key}={value}" for key, value in properties.items())]
    document = puffin("estimate-join", "db.t", "i", table, "i", *of_catalog, "--json").document
    assert (document["left"]["table"], document["right"]["table"]) == ("db.t", table)
    assert document["jaccard"] == 1
