"""Commits to Glue: what stays as it is, who wins, and what becomes of the files when it is not clear who did."""

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
    """A catalog of its own client, which asks once and does not repeat; its tables are in files."""
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
    """The names of the metadata files and of the statistics files."""
    return lambda: {path.name for kind in ("*.metadata.json", "*.stats") for path in tmp_path.rglob(kind)}


def refuse(code: str, status: int = 400):
    """An answer to an update that was not done."""
    response = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}

    def update_table(**_):
        raise ClientError(response, "UpdateTable")

    return update_table


def test_all_of_the_glue_table_stays_but_for_the_location(catalog, table, draft_of, in_glue):
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


def test_an_append_that_came_before_is_a_conflict_and_leaves_nothing(catalog, table, draft_of, files):
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    catalog.load_table(table.name).append(ROWS)
    before = files()
    with pytest.raises(ConflictError, match="another writer"):
        base.commit(entry)
    assert files() == before


def test_an_append_between_look_and_update_is_a_conflict_by_the_version(catalog, table, draft_of, monkeypatch, files):
    """Nothing but the version's id tells it: the update was on its way."""
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


def test_an_update_that_was_done_before_it_was_refused_is_done(catalog, namespace, glue, draft_of, tmp_path):
    """The answer is lost, the client asks again by itself, and Glue takes it for somebody else."""
    catalog = GlueCatalog("glue", **{**glue.properties, "warehouse": tmp_path.as_uri()})
    catalog.create_table("commits.repeated", ROWS.schema).append(ROWS)
    table = IcebergGlueTable(catalog, "commits.repeated")
    sent = lose_the_answer(catalog, times=1)
    assert commit_statistics(table, draft_of(table, {"a": [1, 2]})).attempts == 1
    assert len(sent) == 2
    assert len(table.open().state.statistics) == 1


def test_a_lost_answer_is_looked_into(catalog, table, draft_of):
    sent = lose_the_answer(catalog, times=1)
    assert commit_statistics(table, draft_of(table, {"a": [1, 2]})).attempts == 1
    assert len(sent) == 1
    assert len(table.open().state.statistics) == 1


@pytest.mark.parametrize(("code", "status"), [("InternalServiceException", 500), ("OperationTimeoutException", 400)])
def test_an_unclear_answer_after_which_nothing_is_found_keeps_the_files(
    catalog, table, draft_of, monkeypatch, files, code, status
):
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
def test_a_clear_refusal_is_final_and_takes_the_files_with_it(
    catalog, table, draft_of, monkeypatch, files, code, error
):
    before = files()
    monkeypatch.setattr(catalog.glue, "update_table", refuse(code))
    with pytest.raises(error, match=code):
        commit_statistics(table, draft_of(table, {"a": [1]}))
    assert files() == before


def test_a_table_without_a_version_to_compare_is_refused(catalog, table, draft_of, monkeypatch, files):
    """Glue has always one; what only speaks its language may overwrite another writer's commit."""
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


def test_what_is_no_iceberg_table_is_called_so(catalog, namespace):
    catalog.glue.create_table(DatabaseName=namespace, TableInput={"Name": "csv", "Parameters": {"a": "b"}})
    with pytest.raises(UnsupportedTableError, match="metadata_location"):
        IcebergGlueTable(catalog, f"{namespace}.csv").open()


def test_what_is_not_there_is_not_found(catalog, namespace):
    with pytest.raises(TableNotFound, match=r"commits\.absent"):
        IcebergGlueTable(catalog, f"{namespace}.absent").open()


def lose_the_answer(catalog: GlueCatalog, times: int) -> list[str]:
    """Have updates arrive and their answers go astray; returns what will be the URLs asked."""
    sent: list[str] = []

    def send(request, **_):
        sent.append(request.url)
        if len(sent) <= times:
            catalog.glue._endpoint.http_session.send(request)
            raise ConnectionClosedError(endpoint_url=request.url)

    catalog.glue.meta.events.register("before-send.glue.UpdateTable", send)
    return sent
