"""``puffin analyze`` of tables with nothing to compute succeeds, says so, and leaves them unchanged."""

import pytest

from tests.table_directory import publish


@pytest.fixture(params=[1, 2, 3], ids="v{}".format)
def table(request, table_document, tmp_path):
    """An Iceberg table of one column that cannot be hashed, with a snapshot whose files are never opened."""

    def make(snapshots=(10,)):
        document = table_document(tmp_path, columns=("v",), version=request.param, snapshots=snapshots)
        for schema in document["schemas"]:
            schema["fields"][0]["type"] = "variant"
        publish(tmp_path, document)
        return tmp_path

    return make


@pytest.mark.parametrize("args", [(), ("--mode", "full"), ("--mode", "incremental"), ("--partitions",)], ids=str)
def test_table_without_hashable_columns_succeeds_and_says_so(puffin, table, args):
    directory = table()
    run = puffin("analyze", directory, *args)
    assert (run.code, run.text.strip()) == (
        0,
        f"{directory}: no column outside lists and maps that can be hashed, nothing to analyze",
    )
    document = puffin("analyze", directory, *args, "--json").document
    assert (document["snapshot-id"], document["committed"], document["statistics-file"]) == (10, False, None)
    assert document["columns"] == []
    assert {path.name for path in (directory / "metadata").iterdir()} == {"v1.metadata.json", "version-hint.text"}


def test_summary_counts_tables_with_nothing_to_compute_separately(puffin, table, golden_tables):
    run = puffin("analyze", table(), golden_tables / "t_nosnap")
    assert run.code == 0
    assert run.text.splitlines()[-1].endswith(" s: 1 without a column to analyze, 1 without a snapshot")


def test_table_without_a_snapshot_succeeds_and_says_so(puffin, table):
    directory = table(snapshots=())
    run = puffin("analyze", directory)
    assert (run.code, run.text.strip()) == (0, f"{directory}: no snapshot yet, nothing to analyze")


def test_columns_without_a_snapshot_have_the_keys_of_the_job(puffin, golden_tables):
    document = puffin("analyze", golden_tables / "t_nosnap", "--json").document
    (column,) = document["columns"]
    assert document["mode"] == "incremental"  # no column was computed in full
    assert column == {
        "column": "id",
        "field-id": 1,
        "type": "long",
        "ndv": None,
        "lower": None,
        "upper": None,
        "exact": False,
        "stats-snapshot-id": None,
        "source": "missing",
        "basis": None,
        "reason": None,
    }


def test_unhashable_column_is_refused_by_name(puffin, table):
    run = puffin("analyze", table(), "--columns", "v")
    assert run.code == 1
    assert "column v: type variant has no single-value bytes" in run.stderr
