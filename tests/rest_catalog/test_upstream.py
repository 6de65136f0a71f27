"""What a REST catalog behind this one tells a caller is taken as it is: its addresses, credentials and versions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from puffin.errors import StorageError
from puffin.lookup import Lookup
from puffin.rest_catalog.caller import Caller
from puffin.rest_catalog.callers_catalog import CallersCatalog
from puffin.rest_catalog.catalog import ServedCatalog
from puffin.rest_catalog.http import Answer, Http
from puffin.rest_catalog.names import Names, TableName
from puffin.rest_catalog.paging import Page
from puffin.rest_catalog.upstream import Upstream, UpstreamConfig
from puffin.rest_catalog.upstream_table import States, UpstreamTable
from puffin.tables.snapshot import CURRENT
from tests.hand_made_table import HandMadeTable
from tests.server.iceberg_face import table_of_files

TABLE = TableName(("a b", "c"), "t/ä")
PLAIN = UpstreamConfig.of({}, {"uri": "http://up/catalog/"})
OWN = {"s3.access-key-id": "own", "s3.secret-access-key": "own", "s3.role-arn": "own", "s3.endpoint": "http://own"}


@pytest.fixture
def loaded(table_document: Callable[..., dict[str, Any]]) -> Callable[..., UpstreamTable]:
    def make(**others: Any) -> UpstreamTable:
        location = "s3://bucket/t/metadata/1.metadata.json"
        document = table_document("s3://bucket/t", properties={"s3.endpoint": "http://of-the-table"})
        return UpstreamTable.of(TABLE, {"metadata-location": location, "metadata": document, **others})

    return make


def io_properties(table: UpstreamTable, config: UpstreamConfig = PLAIN) -> dict[str, str]:
    state = States().of(TABLE, "all", table.location, table.document)
    return dict(table.opened(state, CURRENT, config, OWN).io_properties)


def test_files_are_opened_with_what_was_vended(loaded: Callable[..., UpstreamTable]) -> None:
    vended = [
        {"prefix": "s3://bucket/", "config": {"s3.access-key-id": "wider"}},
        {"prefix": "s3://bucket/t", "config": {"s3.access-key-id": "vended", "s3.session-token": "vended"}},
        {"prefix": "s3://other", "config": {"s3.access-key-id": "other"}},
    ]
    table = loaded(**{"storage-credentials": vended, "config": {"s3.region": "there", "token": "not for files"}})
    found = io_properties(table)
    assert list(json.loads(found.pop("credentials.by-prefix"))) == [each["prefix"] for each in vended]
    assert found == {
        "s3.endpoint": "http://own",
        "s3.region": "there",
        "s3.access-key-id": "vended",
        "s3.session-token": "vended",
    }


def test_credentials_in_the_config_of_a_table_replace_ours(loaded: Callable[..., UpstreamTable]) -> None:
    table = loaded(config={"s3.access-key-id": "vended", "s3.secret-access-key": "vended"})
    assert io_properties(table).items() >= {("s3.access-key-id", "vended"), ("s3.secret-access-key", "vended")}
    assert "own" not in io_properties(table).values()


def test_our_credentials_open_files_only_if_none_are_vended(loaded: Callable[..., UpstreamTable]) -> None:
    config = UpstreamConfig.of({"overrides": {"s3.region": "there"}}, {"uri": "http://up"})
    assert io_properties(loaded(), config) == {**OWN, "s3.region": "there"}


def test_callers_share_a_state_only_if_they_are_shown_the_same(loaded: Callable[..., UpstreamTable]) -> None:
    states, shown = States(), loaded()
    first = states.of(TABLE, "all", shown.location, shown.document)
    assert states.of(TABLE, "all", shown.location, dict(shown.document)) is first
    less = {**shown.document, "snapshots": [], "current-snapshot-id": None}
    assert states.of(TABLE, "all", shown.location, less).snapshots == {}


@pytest.mark.parametrize(
    "restricted", [{"read-restrictions": {"filter": True}}, {"config": {"scan-planning-mode": "x"}}]
)
def test_table_with_rules_of_its_catalog_is_planned_there(
    loaded: Callable[..., UpstreamTable], restricted: dict[str, Any]
) -> None:
    assert loaded(**restricted).is_planned_by(PLAIN)
    assert not loaded(config={"scan-planning-mode": "CLIENT"}).is_planned_by(PLAIN)


@pytest.mark.parametrize(
    "vended",
    [
        {"config": ["s3.region"]},
        {"storage-credentials": 1},
        {"storage-credentials": ["s3:"]},
        {"storage-credentials": [{"config": {}}]},
        {"storage-credentials": [{"prefix": "s3:", "config": None}]},
    ],
)
def test_credentials_of_another_form_are_an_error_of_the_catalog(
    loaded: Callable[..., UpstreamTable], vended: dict[str, Any]
) -> None:
    with pytest.raises(StorageError, match="expected a table from the catalog"):
        loaded(**vended)


def upstream_that_answers(status: int, body: bytes) -> Upstream:
    class Odd(Http):
        def get(self, url: str, *_: object) -> Answer:
            return Answer(200, {}, b"{}") if url.endswith("/config") else Answer(status, {}, body)

    return Upstream({"uri": "http://up"}, Odd())


@pytest.mark.parametrize("status", [204, 307, 600, 999])
def test_status_that_is_neither_an_answer_nor_an_error_is_an_error_of_the_catalog(status: int) -> None:
    with pytest.raises(StorageError, match=f"found status {status}"):
        upstream_that_answers(status, b"{}").get("http://up/v1/namespaces", Caller())


@pytest.mark.parametrize(
    ("body", "ask"),
    [
        (b"<html>", lambda catalog: catalog.credentials(TABLE)),
        (b'{"namespaces": ["db"]}', lambda catalog: catalog.namespaces(())),
        (b'{"identifiers": [{"namespace": "db", "name": "t"}]}', lambda catalog: catalog.tables(("db",))),
        (b'{"identifiers": [{"namespace": ["db"], "name": 1}]}', lambda catalog: catalog.tables(("db",))),
    ],
)
def test_answer_of_another_form_is_an_error_of_the_catalog(body: bytes, ask: Callable[[CallersCatalog], Any]) -> None:
    with pytest.raises(StorageError, match="expected an answer of a REST catalog"):
        ask(CallersCatalog(Lookup(), upstream_that_answers(200, body), States(), Caller()))


@pytest.mark.parametrize("snapshots", ["all", "refs"])
def test_older_snapshots_count_that_the_catalog_leaves_out(tmp_path: Path, snapshots: str) -> None:
    """Spark fails over them later, if this service plans."""
    table = HandMadeTable(tmp_path / "t", [(1, "a", "int")], spec=[(1, "identity")])
    table.snapshot()
    table.evolve([(1, "a", "long")])
    table.snapshot()
    first, last = table.document["snapshots"]
    first["schema-id"], last["schema-id"] = 0, 1
    shown = [first, last] if snapshots == "all" else [last]
    answer = {"metadata-location": "file:/t/1.metadata.json", "metadata": {**table.document, "snapshots": shown}}
    upstream = upstream_that_answers(200, json.dumps(answer).encode())
    loaded = CallersCatalog(Lookup(), upstream, States(), Caller()).load(TABLE, snapshots)
    assert json.loads(loaded.body())["config"]["scan-planning-mode"] == "client"


def test_names_that_no_request_can_have_are_not_listed() -> None:
    """A client that goes through all that are listed would fail at the first of them."""
    names = {
        "namespaces": [["a"], ["b/c"]],
        "identifiers": [{"namespace": ["a"], "name": each} for each in ("t", "/u")],
    }
    catalog = CallersCatalog(Lookup(), upstream_that_answers(200, json.dumps(names).encode()), States(), Caller())
    assert catalog.namespaces(()).items == [("a",)]
    assert catalog.tables(("a",)).items == [TableName(("a",), "t")]


def test_namespace_of_directories_alone_is_listed(tmp_path: Path) -> None:
    """The catalog says that it does not know it."""
    table_of_files(tmp_path / "a" / "b" / "t", "f")
    lookup = Lookup()
    local = ServedCatalog(lookup, Names(lookup, [str(tmp_path)], has_catalog=False), lambda _: None)
    catalog = CallersCatalog(lookup, upstream_that_answers(404, b"{}"), States(), Caller(), local)
    assert catalog.namespaces(("a",)).items == [("a", "b")]
    assert catalog.tables(("a", "b")).items == [TableName(("a", "b"), "t")]


def test_name_of_a_directory_and_of_the_catalog_stands_on_one_page(tmp_path: Path) -> None:
    class Paged(Http):
        def get(self, url: str, query: Any, *_: object) -> Answer:
            token = dict(query).get("pageToken")
            pages = {"": b'{"namespaces": [["a"]], "next-page-token": "2"}', "2": b'{"namespaces": [["b"], ["c"]]}'}
            return Answer(200, {}, b"{}" if url.endswith("/config") else pages[token])

    table_of_files(tmp_path / "b" / "t", "f")
    lookup = Lookup()
    local = ServedCatalog(lookup, Names(lookup, [str(tmp_path)], has_catalog=False), lambda _: None)
    catalog = CallersCatalog(lookup, Upstream({"uri": "http://up"}, Paged()), States(), Caller(), local)
    listed = [catalog.namespaces((), Page(token, 2)) for token in ("", "2")]
    assert [each.items for each in listed] == [[("a",), ("b",)], [("c",)]]
    assert [each.next_token for each in listed] == ["2", None]


@pytest.mark.parametrize(
    ("document", "own", "address"),
    [
        ({}, {}, "http://up/v1/namespaces/a%20b%1Fc/tables/t%2F%C3%A4"),
        (
            {"overrides": {"prefix": "p/q"}},
            {"prefix": "own"},
            "http://up/v1/p/q/namespaces/a%20b%1Fc/tables/t%2F%C3%A4",
        ),
        ({"defaults": {"prefix": "p"}}, {"prefix": "own"}, "http://up/v1/own/namespaces/a%20b%1Fc/tables/t%2F%C3%A4"),
        ({"overrides": {"uri": "http://to/"}}, {}, "http://to/v1/namespaces/a%20b%1Fc/tables/t%2F%C3%A4"),
        (
            {"defaults": {"namespace-separator": "%2E"}},
            {},
            "http://up/v1/namespaces/a%20b%2Ec/tables/t%2F%C3%A4",
        ),
    ],
)
def test_tables_are_where_the_catalog_says(document: dict[str, Any], own: dict[str, str], address: str) -> None:
    assert UpstreamConfig.of(document, {"uri": "http://up/", **own}).path_of(TABLE) == address


def test_relative_addresses_become_those_of_the_catalog(loaded: Callable[..., UpstreamTable]) -> None:
    name = "gcs.oauth2.refresh-credentials-endpoint"
    credentials = [{"prefix": "gs:", "config": {name: "/v1/fresh", "gcs.oauth2.token": "t"}}]
    config = {name: "https://elsewhere/fresh", "s3.remote-signing-enabled": "true", "signer.uri": "https://signer"}
    body = loaded(config=config, **{"storage-credentials": credentials}).body({}, PLAIN).decode()
    assert f'"{name}":"https://elsewhere/fresh"' in body
    assert f'"{name}":"http://up/catalog/v1/fresh"' in body
    assert '"s3.signer.uri":"http://up/catalog"' in body
    assert '"signer.uri":"https://signer"' in body


def test_addresses_that_the_catalog_gives_for_all_tables_are_its_own() -> None:
    class Configured(Http):
        def get(self, *_: Any) -> Answer:
            defaults = {"oauth2-server-uri": "v1/oauth/tokens", "s3.signer.uri": "https://signer"}
            document = {"defaults": defaults, "overrides": {"s3.remote-signing-enabled": "true"}}
            return Answer(200, {}, json.dumps(document).encode())

    catalog = CallersCatalog(Lookup(), Upstream({"uri": "http://up"}, Configured()), States(), Caller())
    assert catalog.config() == {
        "defaults": {
            "oauth2-server-uri": "http://up/v1/oauth/tokens",
            "signer.uri": "http://up",
            "s3.signer.uri": "https://signer",
        },
        "overrides": {"s3.remote-signing-enabled": "true", "scan-planning-mode": "server"},
    }


@pytest.mark.parametrize("said", [{}, {"metadata-location": None}])
def test_catalog_may_keep_the_place_of_the_metadata_to_itself(
    table_document: Callable[..., dict[str, Any]], said: dict[str, None]
) -> None:
    credentials = [{"prefix": "s3://bucket/t/", "config": {"s3.access-key-id": "vended"}}]
    answer = {"metadata": table_document("s3://bucket/t"), "storage-credentials": credentials, **said}
    assert io_properties(UpstreamTable.of(TABLE, answer))["s3.access-key-id"] == "vended"


def test_nothing_shows_the_token_of_a_caller() -> None:
    headers = {"authorization": "Bearer secret", "x-realm": "secret"}
    caller = Caller.of(headers, ["x-realm"])
    assert "secret" not in repr(caller)
    assert caller.digest != Caller.of({"authorization": "Bearer secret"}, ["x-realm"]).digest
    assert caller.digest == Caller.of({**headers, "if-none-match": "x"}, ["x-realm"]).digest


@pytest.mark.parametrize(
    ("properties", "is_upstream"),
    [
        ({"type": "rest", "uri": "http://up"}, True),
        ({"uri": "https://up"}, True),
        ({"type": "rest", "uri": "http://up", "rest.sigv4-enabled": "true"}, False),
        ({"type": "sql", "uri": "sqlite://"}, False),
        ({"uri": "thrift://up"}, False),
        ({"type": "glue"}, False),
    ],
)
def test_catalog_that_takes_tokens_authorizes_callers(properties: dict[str, str], is_upstream: bool) -> None:
    assert (Upstream.of("up", properties) is not None) == is_upstream
