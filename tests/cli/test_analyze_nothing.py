"""``puffin analyze`` of tables that have nothing to compute is no failure, says so, and leaves them as they are."""

import json

import pytest


@pytest.fixture(params=[1, 2, 3], ids="v{}".format)
def table(request, table_document, tmp_path):
    """An Iceberg table of one column that cannot be hashed, with a snapshot whose files nobody has to open."""

    def make(snapshots=(10,)):
        document = table_document(tmp_path, columns=("v",), version=request.param, snapshots=snapshots)
        for schema in document["schemas"]:
            schema["fields"][0]["type"] = "variant"
        (tmp_path / "metadata").mkdir()
        (tmp_path / "metadata" / "v1.metadata.json").write_text(json.dumps(document))
        return tmp_path

    return make


@pytest.mark.parametrize("args", [(), ("--mode", "full"), ("--mode", "incremental"), ("--partitions",)], ids=str)
def test_without_a_column_that_can_be_hashed(puffin, table, args):
    directory = table()
    run = puffin("analyze", directory, *args)
    assert (run.code, run.text.strip()) == (
        0,
        f"{directory}: no column outside lists and maps that can be hashed, nothing to analyze",
    )
    document = puffin("analyze", directory, *args, "--json").document
    assert (document["snapshot-id"], document["committed"], document["statistics-file"]) == (10, False, None)
    assert document["columns"] == []
    assert [path.name for path in (directory / "metadata").iterdir()] == ["v1.metadata.json"]


def test_of_several_tables_it_is_counted_apart(puffin, table, golden_tables):
    run = puffin("analyze", table(), golden_tables / "t_nosnap")
    assert run.code == 0
    assert run.text.splitlines()[-1].endswith(" s: 1 without a column to analyze, 1 without a snapshot")


def test_without_a_snapshot(puffin, table):
    directory = table(snapshots=())
    run = puffin("analyze", directory)
    assert (run.code, run.text.strip()) == (0, f"{directory}: no snapshot yet, nothing to analyze")


def test_a_column_that_cannot_be_hashed_is_refused_by_name(puffin, table):
    run = puffin("analyze", table(), "--columns", "v")
    assert run.code == 1
    assert "column v: type variant has no single-value bytes" in run.stderr
