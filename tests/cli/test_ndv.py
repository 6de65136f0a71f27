"""``puffin ndv``, and the uses of ``puffin analyze`` that need no Spark: documents, exit codes, one-line errors."""

import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.table_directory import publish

COLUMN_KEYS = [
    *("column", "field-id", "type", "ndv", "lower", "upper", "exact", "stats-snapshot-id", "source"),
    *("row-count", "null-count", "nan-count", "min", "max", "avg-bytes"),
    *("snapshots-behind", "records-added", "records-deleted"),
]


@pytest.fixture
def table(golden_tables: Path) -> str:
    return str(golden_tables / "t_types")


def test_json_document_has_the_contracted_keys(puffin, table):
    """Spark's statistics are foreign: never exact, with nominal bounds; columns without any are missing."""
    document = puffin("ndv", table, "i", "st.x", "--json").document
    assert list(document) == ["table", "format", "snapshot-id", "columns"]
    assert (document["table"], document["format"]) == (table, "iceberg")
    known, missing = document["columns"]
    assert list(known) == list(missing) == COLUMN_KEYS
    assert (known["ndv"], known["exact"], known["source"]) == (4957, False, "snapshot")
    assert known["lower"] < 4957 < known["upper"]
    assert known["stats-snapshot-id"] == document["snapshot-id"]
    assert [missing[key] for key in ("ndv", "lower", "upper", "stats-snapshot-id", "source")] == [
        *[None] * 4,
        "missing",
    ]


def test_table_is_found_by_path_uri_and_metadata_file(puffin, table):
    for name in (table, f"file://{table}", f"{table}/metadata/v5.metadata.json"):
        assert puffin("ndv", name, "b", "--json").document["columns"][0]["ndv"] == 2


def test_table_without_a_snapshot_has_no_statistics(puffin, golden_tables):
    document = puffin("ndv", str(golden_tables / "t_nosnap"), "--json").document
    assert document["snapshot-id"] is None
    assert [c["source"] for c in document["columns"]] == ["missing"]


def test_filter_without_statistics_by_partition_says_how_to_get_them(puffin, table):
    assert "run puffin analyze --partitions" in puffin("ndv", table, "i", "--where", "i = 5").text


def test_text_is_a_table(puffin, table):
    run = puffin("ndv", table, "i", "st.x")
    assert run.code == 0
    assert "4,957" in run.text
    assert "no statistics" in run.text


def test_text_marks_min_and_max_that_may_be_cut(puffin, tmp_path):
    rows = pa.table({"s": ["a" * 15, "b" * 17], "b": [b"a" * 15, b"b" * 17], "k": [10**16, 10**17]})
    write_deltalake(tmp_path / "t", rows)
    assert puffin("analyze", tmp_path / "t").code == 0
    _, _, *columns = puffin("ndv", tmp_path / "t").text.splitlines()
    assert [line.split("0  ", 1)[1].split() for line in columns] == [
        ["a" * 15, "<=", "b" * 15 + "c"],
        ["61" * 15, "<=", "62" * 15 + "63"],
        ["10000000000000000", "100000000000000000"],
    ]


def test_text_shows_manifest_statistics_and_the_age_of_statistics(puffin, golden_tables):
    run = puffin("ndv", golden_tables / "t_dv_v3", "id", "--manifests")
    _, head, row = run.text.splitlines()
    assert head.split()[-4:] == ["rows", "nulls", "min", "max"]
    assert ["8,228", "-", "0", "11999"] in [row.split()[at : at + 4] for at in range(len(row.split()))]


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("{table}", "absent"), 1, "no primitive column 'absent' outside lists and maps\n"),
        (("{table}", "I"), 1, "no primitive column 'I' outside lists and maps; did you mean 'i'?"),
        (("{table}", "li"), 1, "no primitive column 'li'"),
        (("{table}", "--snapshot-id", "5"), 1, "no snapshot 5"),
        (("{table}", "--ref", "absent"), 1, "no branch or tag 'absent'; it has main"),
        (("{table}", "--as-of", "2001-01-01T00:00:00Z"), 1, "no snapshot as old as 2001-01-01T00:00:00+00:00"),
        (("{table}/absent",), 1, "no such file or directory"),
        (("{table}", "i, s"), 1, "no primitive column 'i, s' outside lists and maps; name each column by itself"),
        (("{table}", "--where", "i", "=", "5"), 2, "--where: expected the filter in quotes, found '=' as another"),
        (("{table}/data",), 1, "found neither; only Iceberg and Delta tables are read; puffin status --root finds"),
        (("{table}/metadata/",), 1, "found neither; name the directory that it is in"),
        (("db.t", "--catalog", "absent"), 1, "no catalog 'absent' is configured: pass --catalog-property uri="),
        (("{table}", "--catalog-property", "a=b"), 2, "--catalog-property needs --catalog"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_failure_is_one_line(puffin, table, args, code, says):
    run = puffin("ndv", *(arg.format(table=table) for arg in args))
    assert run.code == code
    assert run.stdout == b""
    assert len(run.stderr.splitlines()) == 1
    assert says in run.stderr


@pytest.mark.parametrize(("content", "found"), [(b"", "an empty file"), (b"PAR1\xa0\xff", "bytes that are no text")])
def test_file_that_is_no_metadata_is_told_from_broken_metadata(puffin, tmp_path, content, found):
    (tmp_path / "f").write_bytes(content)
    said = f"puffin: {tmp_path}/f: expected Iceberg table metadata in JSON, found {found}\n"
    assert puffin("ndv", tmp_path / "f").stderr == said


@pytest.mark.parametrize(
    "args",
    [
        ("ndv", "{table}", "--as-of", "yesterday"),
        ("ndv", "{table}", "--as-of", "2024-01-01T00:00:00"),
        ("ndv", "{table}", "--snapshot-id", "1", "--ref", "main"),
        ("ndv", "{table}", "--where", "id >"),
        ("ndv", "{table}", "--partition", "id"),
        ("analyze",),
        ("analyze", "{table}", "--namespace", "db"),
        ("analyze", "--namespace", "db"),
        ("analyze", "{table}", "--lg-k", "3"),
        ("analyze", "{table}", "--conf", "novalue"),
        ("analyze", "{table}/metadata/v5.metadata.json", "--mode", "full"),
    ],
    ids=" ".join,
)
def test_usage_error_exits_with_2(puffin, table, args):
    run = puffin(*(arg.format(table=table) for arg in args))
    assert run.code == 2
    assert run.stdout == b""
    assert run.stderr


@pytest.mark.parametrize(
    "command", [["analyze", "--columns"], ["index", "--columns"], ["index", "--drop"], ["estimate", "--group-by"]]
)
@pytest.mark.parametrize("names", ["", " , "])
def test_option_without_any_name_does_not_mean_every_column(puffin, tmp_path, command, names):
    run = puffin(command[0], tmp_path, command[1], names)
    assert run.code == 2
    assert f"expected names of columns, found {names!r}" in run.stderr


def test_current_statistics_are_left_alone(puffin, golden_tables):
    """Spark analyzed every column of this snapshot: nothing is read, started or committed."""
    table = golden_tables / "t_dv_v3"
    report = puffin("analyze", str(table), "--json").document
    assert (report["committed"], report["files-read"], report["mode"]) == (False, 0, "incremental")
    assert {c["basis"] for c in report["columns"]} == {"carried"}
    assert Path(report["statistics-file"]["path"].removeprefix("file:")).exists()
    assert (table / "metadata" / "version-hint.text").read_text() == "6"


def test_time_within_a_millisecond_is_not_rounded_up(puffin, tmp_path, table_document):
    document = table_document(tmp_path, snapshots=(10, 11))
    publish(tmp_path, document)
    of_second = datetime.datetime.fromtimestamp(
        document["snapshot-log"][1]["timestamp-ms"] / 1000, datetime.timezone.utc
    )
    for earlier, snapshot in ((0, 11), (1, 10)):
        at = of_second - datetime.timedelta(microseconds=earlier)
        assert puffin("ndv", tmp_path, "--as-of", at.isoformat(), "--json").document["snapshot-id"] == snapshot


@pytest.mark.parametrize("at", ["02.0Z", "02,000000001Z", "02+0000", "02.5+00"])
def test_time_may_have_any_number_of_digits_and_a_short_zone(puffin, tmp_path, table_document, at):
    """The datetime of Python 3.10 reads none of these."""
    publish(tmp_path, table_document(tmp_path, snapshots=(10, 11)))
    found = puffin("ndv", tmp_path, "--as-of", f"1970-01-01T00:00:{at}", "--json").document
    assert found["snapshot-id"] == 11
