"""Tables on S3 are read, analyzed and committed to as on a disk, in any catalog and in races."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.table import StaticTable

import puffin
from puffin.errors import CommitUnknownError, MissingDependencyError, StorageError, UnsupportedTableError, UsageError
from puffin.load import Tables
from puffin.server.app import create_app
from puffin.server.settings import Settings
from puffin.storage import store_for
from stats_jobs import Options, analyze
from tests.interop.object_stores.conftest import answer
from tests.interop.object_stores.tables import COLUMNS, QUICK, IcebergTable, distinct, expected, rows
from tests.tables.committing import race

NOTE = "PUFFIN SIDECAR STATISTICS"


@pytest.fixture
def directory(s3_environment, iceberg_table) -> IcebergTable:
    """The same table, and its directory as a table without a catalog."""
    table = iceberg_table()
    table.publish()
    return table


@pytest.fixture
def delta_location(s3_environment, place, monkeypatch) -> str:
    """A Delta table with a thousand rows; deltalake finds the server through the environment too."""
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    write_deltalake(f"s3://{place}", rows(0, 1000))
    return f"s3://{place}"


@pytest.mark.parametrize("version", [2, 3])
def test_statistics_of_an_iceberg_directory_stay_current(s3_environment, iceberg_table, version):
    table = iceberg_table(version)
    table.publish()
    first = analyze(table.location)
    assert (first.committed, first.attempts, first.files_read) == (True, 1, 1)
    assert table.versions() == ["v1.metadata.json", "v2.metadata.json"]
    assert table.read("metadata/version-hint.text") == b"2"
    assert table.published["format-version"] == version
    assert distinct(puffin.ndv(table.location).columns) == expected(1000)

    table.append(1000, 1500)
    table.publish()
    second = analyze(table.location)
    assert (second.committed, second.mode, second.files_read) == (True, "incremental", 1)
    assert distinct(puffin.ndv(table.location).columns) == expected(1500)
    assert analyze(table.location).current
    assert [name for name in table.names() if "probe" in name] == []
    if version < 3:
        listed = StaticTable.from_metadata(
            f"{table.location}/metadata/v4.metadata.json", table.properties
        ).metadata.statistics
        assert [entry.statistics_path for entry in listed] == [entry.entry.statistics_path for entry in (first, second)]


def test_properties_of_a_sql_catalog_open_everything(s3, iceberg_table):
    """The environment does not know the server; for executors see `test_lent_credentials`."""
    table = iceberg_table()
    named = {"catalog": "lake", "catalog_properties": table.properties}
    for count in (1000, 1500):
        if count > 1000:
            table.append(1000, count)
        report = analyze("db.t", **named)
        assert (report.committed, report.files_read) == (True, 1)
        assert distinct(puffin.ndv("db.t", **named).columns) == expected(count)
    assert len(table.catalog.load_table("db.t").metadata.statistics) == 2


def test_rest_catalog_tells_how_to_open_files(lender):
    """The client has no keys until it loads the table."""
    named = {"catalog": "rest", "catalog_properties": lender.properties}
    assert analyze("db.t", **named).committed
    assert distinct(puffin.ndv("db.t", **named).columns) == expected(1000)


def test_statistics_of_a_delta_table_stay_current(delta_location, s3, place):
    first = analyze(delta_location)
    assert (first.committed, first.files_read) == (True, 1)
    assert operations(s3, place) == ["WRITE", NOTE]

    write_deltalake(delta_location, rows(1000, 1500), mode="append")
    second = analyze(delta_location)
    assert (second.committed, second.mode, second.files_read) == (True, "incremental", 1)
    assert distinct(puffin.ndv(delta_location).columns) == expected(1500)
    assert analyze(delta_location).current
    assert DeltaTable(delta_location).to_pyarrow_table().num_rows == 1500


def operations(s3, place: str) -> list[str]:
    """Read the operations from a Delta log; deltalake's ``history`` would block the server."""
    log = s3.files(f"{place}/_delta_log")
    entries = (content for name, content in sorted(log.items()) if name.endswith(".json") and "/" not in name)
    actions = (json.loads(line) for entry in entries for line in entry.splitlines())
    return [action["commitInfo"]["operation"] for action in actions if "commitInfo" in action]


def test_iceberg_directory_keeps_the_statistics_of_all_racers(directory, s3):
    """Four processes start at once, each with its own column."""
    race(directory.location, None, COLUMNS, s3.environment)
    (entry,) = directory.published["statistics"]
    found = {blob["fields"][0]: blob["properties"]["ndv"] for blob in entry["blob-metadata"]}
    assert found == {1: "1", 2: "2", 3: "3", 4: "4"}
    # Every version was made from the one before: none was lost.
    assert directory.versions() == [f"v{i}.metadata.json" for i in range(1, 6)]
    log = [Path(logged["metadata-file"]).name for logged in directory.published["metadata-log"]]
    assert log[-4:] == [f"v{i}.metadata.json" for i in range(1, 5)]


def test_delta_table_keeps_the_statistics_of_all_racers(delta_location, s3, place):
    """Four threads share nothing but the store."""
    with ThreadPoolExecutor(len(COLUMNS)) as racers:
        reports = list(racers.map(lambda column: analyze(delta_location, Options(columns=(column,))), COLUMNS))
    assert all(report.committed for report in reports)
    assert distinct(puffin.ndv(delta_location).columns) == expected(1000)
    assert operations(s3, place) == ["WRITE"] + [NOTE] * 4


def test_commit_retries_after_another_writer_puts_the_version_first(directory, s3):
    """The version appears after our look for the newest one, so only the condition can tell."""
    theirs = json.dumps({**directory.published, "properties": {**QUICK, "theirs": "kept"}}).encode()

    def put_theirs_first(path: str) -> None:
        if path.endswith("/v2.metadata.json") and "v2.metadata.json" not in directory.versions():
            s3.fault = lambda _: None
            directory._write("v2.metadata.json", theirs)

    s3.fault = put_theirs_first
    assert analyze(directory.location).attempts == 2
    assert directory.read("metadata/v2.metadata.json") == theirs
    assert directory.published["properties"]["theirs"] == "kept"
    assert directory.versions()[-1] == "v3.metadata.json"
    assert distinct(puffin.ndv(directory.location).columns) == expected(1000)


def test_commit_with_a_lost_answer_is_found(directory, s3):
    lost = iter(["lose the answer"])
    s3.fault = lambda path: next(lost, None) if path.endswith("/v2.metadata.json") else None
    assert analyze(directory.location).attempts == 1
    assert directory.versions() == ["v1.metadata.json", "v2.metadata.json"]


def test_unclear_failure_keeps_the_statistics_file(directory, s3, monkeypatch):
    """The version may turn out to be written."""
    monkeypatch.setattr("puffin.storage.new_objects._RETRIES", {"max_retries": 0})
    s3.fault = lambda path: "fail" if path.endswith("/v2.metadata.json") else None
    with pytest.raises(CommitUnknownError, match="the statistics file is kept"):
        analyze(directory.location)
    (statistics,) = (name for name in directory.names() if name.startswith("metadata/") and name.endswith(".stats"))
    assert statistics.replace("metadata/", "_puffin_sidecar/") in directory.names()
    assert directory.versions() == ["v1.metadata.json"]


@pytest.mark.parametrize("kind", ["directory", "delta_location"])
def test_missing_extra_stops_the_job_before_it_computes(kind, s3, place, request, monkeypatch):
    fixture = request.getfixturevalue(kind)
    location = fixture if isinstance(fixture, str) else fixture.location
    before = s3.files(place)
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(MissingDependencyError, match=r"obstore is not installed: run pip install .*\[object-stores\]"):
        analyze(location)
    assert s3.files(place) == before
    assert analyze(location, Options(commit=False)).entry is not None


def test_copy_of_a_table_is_refused_but_hadoops_name_is_not(directory, s3):
    copy = f"{directory.prefix}-copy"
    filesystem = s3.filesystem()
    for name, content in directory.files().items():
        with filesystem.open_output_stream(f"{copy}/{name}") as stream:
            stream.write(content)
    with pytest.raises(UnsupportedTableError, match=f"found that of {directory.location} "):
        analyze(f"s3://{copy}")
    assert analyze(directory.location.replace("s3://", "s3a://")).committed


def test_table_location_with_a_query_is_refused(directory, s3):
    """The files in its metadata would be looked up elsewhere; a single file may have a query."""
    query = f"?endpoint_override={s3.url.removeprefix('http://')}&scheme=http"
    with pytest.raises(UsageError, match="AWS_ENDPOINT_URL"):
        puffin.ndv(f"{directory.location}{query}")
    assert puffin.load_table(f"{directory.location}/metadata/v1.metadata.json{query}").open().state.uuid


def test_commands_and_server_find_tables_and_files_on_s3(directory, s3, place):
    report = analyze(directory.location)

    def puffin_says(*arguments: str) -> Any:
        ran = subprocess.run(
            [sys.executable, "-m", "puffin", *arguments, "--json"], capture_output=True, text=True, check=False
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        return json.loads(ran.stdout)

    dumped = puffin_says("dump", report.entry.statistics_path)
    assert [blob["sketch"]["estimate"] for blob in dumped["blobs"][:4]] == [1000, 500, 250, 125]
    assert [column["ndv"] for column in puffin_says("ndv", directory.location)["columns"]] == [1000, 500, 250, 125]

    assert [each.name for each in Tables().tables_below(f"s3://{place}")] == [directory.location]

    async def ask() -> tuple[httpx.Response, ...]:
        application = httpx.ASGITransport(app=create_app(Settings(roots=[f"s3://{place}"])))
        async with httpx.AsyncClient(transport=application, base_url="http://server") as client:
            other = {"table": f"s3://{place}-other/db/t"}
            return (
                await client.get("/v1/stats", params={"table": directory.location}),
                await client.get("/v1/stats", params=other),
                await client.get("/v1/tables"),
            )

    inside, outside, tables = asyncio.run(ask())
    assert [column["ndv"] for column in inside.json()["columns"]] == [1000, 500, 250, 125]
    assert outside.status_code == 403
    assert [table["table"] for table in tables.json()["tables"]] == [directory.location]


def test_range_behind_the_end_is_empty_as_on_a_disk(s3_environment, place):
    """A file that was cut short is broken then, which runs repair, and not a failure of the store."""
    uri = f"s3://{place}/cut"
    store = store_for(uri)
    store.replace(uri, b"0123456789")
    with store.open_source(uri) as source:
        assert (source.read_at(8, 9), source.read_at(10, 1), source.read_at(11, 1)) == (b"89", b"", b"")


@pytest.mark.parametrize("refusals", [2, 9])
def test_short_range_is_read_again_if_the_store_is_busy(s3_environment, place, monkeypatch, refusals):
    """The AWS SDK repeats reads of ranges that are longer than the refusal, and this one not."""
    uri, served = f"s3://{place}/version-hint.text", s3_environment._moto
    store = store_for(uri)
    store.replace(uri, b"7")
    left = iter(range(refusals))

    def busy(environ: dict[str, Any], start_response: Any) -> Any:
        if environ["REQUEST_METHOD"] == "GET" and next(left, None) is not None:
            return answer(start_response, "503 Slow Down", b"<Error><Code>SlowDown</Code></Error>")
        return served(environ, start_response)

    monkeypatch.setattr(s3_environment, "_moto", busy)
    monkeypatch.setattr("puffin.storage.arrow._WAITS", (0.01,) * 3)
    if refusals < 4:
        assert store.read(uri) == b"7"
    else:
        with pytest.raises(StorageError, match=rf"^{uri}: the store refused a short range"):
            store.read(uri)


@pytest.mark.parametrize("kind", ["directory", "delta_location"])
def test_store_that_refuses_a_file_does_not_make_the_file_corrupt(kind, s3, request, monkeypatch):
    """What is corrupt is not tried again, and an older checkpoint would take the place of a corrupt one."""
    fixture, served = request.getfixturevalue(kind), s3._moto
    location = fixture if isinstance(fixture, str) else fixture.location
    if kind == "delta_location":
        DeltaTable(location).create_checkpoint()

    def refusing(environ: dict[str, Any], start_response: Any) -> Any:
        if environ["REQUEST_METHOD"] == "GET" and environ["PATH_INFO"].endswith(".parquet"):
            return answer(start_response, "403 Forbidden", b"<Error><Code>AccessDenied</Code></Error>")
        return served(environ, start_response)

    monkeypatch.setattr(s3, "_moto", refusing)
    with pytest.raises(StorageError, match=rf"^{location}/\S+\.parquet: AWS Error ACCESS_DENIED"):
        analyze(location)
