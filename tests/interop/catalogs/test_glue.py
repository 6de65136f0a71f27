"""Commits to Glue: what they leave unchanged, who wins a race, and what happens to files after an unclear answer."""

from __future__ import annotations

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError, ConnectionClosedError
from pyiceberg.catalog.glue import GlueCatalog

from puffin.errors import CommitUnknownError, ConflictError, StorageError, TableNotFound, UnsupportedTableError
from puffin.iceberg.catalogs.glue import IcebergGlueTable
from puffin.tables.commit import commit_statistics

ROWS = pa.table({"a": pa.array([1, 2], pa.int64()), "b": pa.array([1, 1], pa.int64())})


@pytest.fixture(scope="module")
def namespace(glue):
    glue.open().create_namespace("commits")
    return "commits"


@pytest.fixture
def catalog(glue, namespace, tmp_path):
    """A catalog with its own client, which never retries; its tables are local files."""
    return GlueCatalog("glue", **{**glue.properties, "glue.max-retries": 0, "warehouse": tmp_path.as_uri()})


@pytest.fixture
def table(catalog, namespace, tmp_path):
    name = f"{namespace}.{tmp_path.name}"
    catalog.create_table(name, ROWS.schema, properties={"commit.status-check.num-retries": "0"}).append(ROWS)
    return IcebergGlueTable(catalog, name)


@pytest.fixture
def in_glue(catalog):
    return lambda table: catalog.glue.get_table(DatabaseName="commits", Name=table.name.partition(".")[2])["Table"]


@pytest.fixture
def files(tmp_path):
    """Return the names of the metadata files and of the statistics files."""
    return lambda: {path.name for kind in ("*.metadata.json", "*.stats") for path in tmp_path.rglob(kind)}


def refuse(code: str, status: int = 400):
    """Answer that an update was not done."""
    response = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}

    def update_table(**_):
        raise ClientError(response, "UpdateTable")

    return update_table


def test_commit_changes_only_the_location_of_the_glue_table(catalog, table, draft_of, in_glue):
    before = in_glue(table)
    settable = {"Name", "TableType", "StorageDescriptor", "Parameters"}
    described = {**{key: before[key] for key in settable}, "Description": "what it is", "Owner": "somebody"}
    described["Parameters"] = {**before["Parameters"], "classification": "kept"}
    described["PartitionKeys"] = [{"Name": "p", "Type": "int"}]
    catalog.glue.update_table(DatabaseName="commits", TableInput=described)
    commit_statistics(table, draft_of(table, {"a": [1, 2]}))
    after = in_glue(table)
    assert after["Parameters"].pop("previous_metadata_location") == before["Parameters"]["metadata_location"]
    assert after["Parameters"].pop("metadata_location") == table.open().state.metadata_location
    for parameter in ("previous_metadata_location", "metadata_location"):
        described["Parameters"].pop(parameter, None)
    assert {key: after[key] for key in described} == described


def test_append_during_the_update_is_a_conflict_by_version_id(catalog, table, draft_of, monkeypatch, files):
    """Only the version's id shows it: the update was already on its way."""
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    update_table = catalog.glue.update_table

    def append_first(**request):
        monkeypatch.undo()
        catalog.load_table(table.name).append(ROWS)
        update_table(**request)

    monkeypatch.setattr(catalog.glue, "update_table", append_first)
    with pytest.raises(ConflictError, match="ConcurrentModification"):
        base.commit(entry)
    state = table.open().state
    assert len(state.snapshots) == 2
    assert state.statistics == {}
    logged = {state.metadata_location, *(e["metadata-file"] for e in state.document["metadata-log"])}
    assert {name for name in files() if name.endswith(".json")} == {name.rpartition("/")[2] for name in logged}


def test_update_that_a_retry_finds_done_counts_as_done(catalog, namespace, glue, draft_of, tmp_path):
    """The answer is lost, the client retries, and Glue refuses the retry as if someone else had committed."""
    catalog = GlueCatalog("glue", **{**glue.properties, "warehouse": tmp_path.as_uri()})
    catalog.create_table("commits.repeated", ROWS.schema).append(ROWS)
    table = IcebergGlueTable(catalog, "commits.repeated")
    sent = lose_the_answer(catalog, times=1)
    assert commit_statistics(table, draft_of(table, {"a": [1, 2]})).attempts == 1
    assert len(sent) == 2
    assert len(table.open().state.statistics) == 1


@pytest.mark.parametrize("code", ["ConcurrentModificationException", "ThrottlingException", "AccessDeniedException"])
def test_update_that_was_done_counts_as_done_though_it_was_refused_in_plain_view(
    catalog, table, draft_of, monkeypatch, code
):
    """Somebody else than the client repeated it, such as a proxy, so the client knows of one request only."""
    update_table = catalog.glue.update_table

    def update_and_refuse(**request):
        update_table(**request)
        refuse(code)()

    monkeypatch.setattr(catalog.glue, "update_table", update_and_refuse)
    assert commit_statistics(table, draft_of(table, {"a": [1, 2]})).attempts == 1
    assert len(table.open().state.statistics) == 1


def test_answer_without_a_table_is_a_storage_error(catalog, table, monkeypatch):
    monkeypatch.setattr(catalog.glue, "get_table", lambda **_: {})
    with pytest.raises(StorageError, match="answered without a table"):
        table.open()


def test_lost_answer_is_checked_against_the_table(catalog, table, draft_of):
    sent = lose_the_answer(catalog, times=1)
    assert commit_statistics(table, draft_of(table, {"a": [1, 2]})).attempts == 1
    assert len(sent) == 1
    assert len(table.open().state.statistics) == 1


@pytest.mark.parametrize(("code", "status"), [("InternalServiceException", 500), ("OperationTimeoutException", 400)])
def test_unclear_answer_keeps_the_files_if_nothing_is_found(catalog, table, draft_of, monkeypatch, files, code, status):
    before = files()
    monkeypatch.setattr(catalog.glue, "update_table", refuse(code, status))
    with pytest.raises(CommitUnknownError, match=code):
        commit_statistics(table, draft_of(table, {"a": [1]}))
    assert len(files() - before) == 2
    assert table.open().state.statistics == {}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("AccessDeniedException", StorageError),
        ("ThrottlingException", StorageError),
        ("EntityNotFoundException", TableNotFound),
    ],
)
def test_clear_refusal_is_final_and_deletes_the_files(catalog, table, draft_of, monkeypatch, files, code, error):
    before = files()
    monkeypatch.setattr(catalog.glue, "update_table", refuse(code))
    with pytest.raises(error, match=code):
        commit_statistics(table, draft_of(table, {"a": [1]}))
    assert files() == before


def test_table_without_a_version_id_is_refused(catalog, table, draft_of, monkeypatch, files):
    """Glue always has one; a server that only speaks its API may overwrite another writer's commit."""
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    before = files()
    get_table = catalog.glue.get_table

    def without_version(**request):
        answer = get_table(**request)
        return {"Table": {key: value for key, value in answer["Table"].items() if key != "VersionId"}}

    monkeypatch.setattr(catalog.glue, "get_table", without_version)
    with pytest.raises(UnsupportedTableError, match="version"):
        base.commit(entry)
    assert files() == before


def test_table_of_another_kind_is_named_as_such(catalog, namespace):
    catalog.glue.create_table(DatabaseName=namespace, TableInput={"Name": "csv", "Parameters": {"a": "b"}})
    with pytest.raises(UnsupportedTableError, match="metadata_location"):
        IcebergGlueTable(catalog, f"{namespace}.csv").open()


def test_missing_table_is_not_found(catalog, namespace):
    with pytest.raises(TableNotFound, match=r"commits\.absent"):
        IcebergGlueTable(catalog, f"{namespace}.absent").open()


def lose_the_answer(catalog: GlueCatalog, times: int) -> list[str]:
    """Let updates arrive and lose their answers; returns a list that collects the requested URLs."""
    sent: list[str] = []

    def send(request, **_):
        sent.append(request.url)
        if len(sent) <= times:
            catalog.glue._endpoint.http_session.send(request)
            raise ConnectionClosedError(endpoint_url=request.url)

    catalog.glue.meta.events.register("before-send.glue.UpdateTable", send)
    return sent
