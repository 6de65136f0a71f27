"""The OpenAPI document is complete, and answers follow it; ``at_length`` has random requests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import schemathesis
from deltalake import write_deltalake

from tests.server.iceberg_face import table_of_files


@pytest.fixture
def document(tmp_path: Path, client_of: Callable[..., Any]) -> Any:
    return client_of(tmp_path, token=b"x").get("/openapi.json", headers={"Authorization": "Bearer x"}).json()


def test_answers_follow_the_document(
    tmp_path: Path, client_of: Callable[..., Any], analyzed: Callable[..., Path], write_table: Callable[..., Path]
) -> None:
    """These need an existing table, which random requests do not find."""
    table, broken = str(analyzed(tmp_path / "t", range(100), 200)), str(write_table(tmp_path / "broken"))
    files = tmp_path / "files"
    write_deltalake(files, pa.table({"a": [1], "p": ["x"]}), partition_by=["p"])
    side, client = {"table": table, "column": "a"}, client_of(tmp_path)
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    answers = {
        ("GET", "/v1/stats"): client.stats(table),
        ("GET", "/v1/history"): client.get("/v1/history", params=side),
        ("GET", "/v1/distribution"): client.get("/v1/distribution", params=side),
        ("GET", "/v1/dump"): client.get("/v1/dump", params={"table": table}),
        ("GET", "/v1/tables"): client.get("/v1/tables"),
        ("GET", "/v1/status"): client.get("/v1/status"),
        ("POST", "/v1/stats"): client.post("/v1/stats", json={"requests": [{"table": table}, {"table": broken}]}),
        ("POST", "/v1/plan"): client.post("/v1/plan", json={"table": str(files), "where": "a = 1"}),
        ("GET", "/v1/plans"): client.get("/v1/plans"),
        ("POST", "/v1/estimate/filter"): client.post("/v1/estimate/filter", json={"table": side["table"]}),
        ("POST", "/v1/estimate/join"): client.post("/v1/estimate/join", json={"left": side, "right": side}),
    }
    another = client.get("/healthz")
    for (method, path), answer in answers.items():
        assert answer.status_code == 200
        schema[path][method].validate_response(answer)
        with pytest.raises(AssertionError):
            schema[path][method].validate_response(another)


def test_every_operation_describes_its_parameters_and_responses(document: Any) -> None:
    operations = {
        (method, path): operation for path, of in document["paths"].items() for method, operation in of.items()
    }
    assert set(operations) == {
        ("get", "/v1/stats"),
        ("post", "/v1/stats"),
        ("post", "/v1/estimate/filter"),
        ("post", "/v1/estimate/join"),
        ("post", "/v1/plan"),
        ("get", "/v1/plans"),
        ("get", "/v1/tables"),
        ("get", "/v1/status"),
        ("get", "/v1/history"),
        ("get", "/v1/distribution"),
        ("get", "/v1/dump"),
        ("get", "/healthz"),
        ("get", "/readyz"),
        ("get", "/metrics"),
    }
    for (_, path), operation in operations.items():
        assert operation["description"]
        assert operation["responses"]["200"]["content"]
        problems = {status: of for status, of in operation["responses"].items() if status >= "4"}
        assert all(list(of["content"]) == ["application/problem+json"] for of in problems.values())
        assert ("401" in problems) == (path not in ("/healthz", "/readyz"))
        if path.startswith("/v1/"):
            assert problems.keys() >= {"400", "403", "404", "413", "422", "429", "503", "504"}


def test_query_of_stats_is_described(document: Any) -> None:
    parameters = {each["name"]: each for each in document["paths"]["/v1/stats"]["get"]["parameters"]}
    assert parameters.keys() == {"table", "column", "snapshot-id", "ref", "If-None-Match"}
    assert [name for name, each in parameters.items() if each["required"]] == ["table"]
    assert document["paths"]["/v1/stats"]["get"]["responses"]["304"]["headers"]["ETag"]


def test_operations_of_the_face_have_errors_of_the_protocol(face_of: Callable[..., Any], tmp_path: Path) -> None:
    face = face_of(tmp_path, token=b"x")
    headers = {"Authorization": "Bearer x"}
    paths = face.client.get("/openapi.json", headers=headers).json()["paths"]
    operations = {
        (method.upper(), path.removeprefix("/iceberg")): operation
        for path, of in paths.items()
        for method, operation in of.items()
        if path.startswith("/iceberg/")
    }
    for operation in operations.values():
        errors = {status: of["content"] for status, of in operation["responses"].items() if status >= "4"}
        assert errors.keys() >= {"400", "401", "404", "406", "413", "422", "429", "500", "503", "504"}
        expected = {"application/json": {"schema": {"$ref": "#/components/schemas/IcebergErrorDocument"}}}
        assert all(content == expected for content in errors.values())
    assert operations["GET", "/v1/namespaces/{namespace}/tables/{table}"]["responses"]["304"]["headers"]["ETag"]
    endpoints = (each.split() for each in face.get("/config", headers=headers).json()["endpoints"])
    named = {
        (method, path.replace("/{prefix}", "").replace("-", "_")) for method, path in endpoints if method != "HEAD"
    }
    assert named <= operations.keys()


def test_answers_of_the_face_follow_the_document(tmp_path: Path, face_of: Callable[..., Any]) -> None:
    table_of_files(tmp_path / "db" / "t", "f")
    face = face_of(tmp_path)
    schema = schemathesis.openapi.from_dict(face.client.get("/openapi.json").json())
    of_table = "/namespaces/{namespace}/tables/{table}"
    answers = {
        ("GET", "/config"): face.get("/config"),
        ("GET", "/namespaces"): face.get("/namespaces", params={"pageToken": "", "pageSize": 1}),
        ("GET", "/namespaces/{namespace}"): face.get("/namespaces/db"),
        ("GET", "/namespaces/{namespace}/tables"): face.get("/namespaces/db/tables"),
        ("GET", of_table): face.load("db", "t"),
        ("POST", f"{of_table}/plan"): face.plan("db", "t"),
    }
    refused = face.plan("db", "t", filter=1)
    for (method, path), answer in answers.items():
        assert answer.status_code == 200
        schema[f"/iceberg/v1{path}"][method].validate_response(answer)
        schema[f"/iceberg/v1{path}"][method].validate_response(refused)
