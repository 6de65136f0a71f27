"""The OpenAPI document is complete, and the server follows it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import schemathesis
from deltalake import write_deltalake


@pytest.fixture
def document(tmp_path: Path, client_of: Callable[..., Any]) -> Any:
    return client_of(tmp_path, token=b"x").get("/openapi.json", headers={"Authorization": "Bearer x"}).json()


def test_schemathesis_finds_no_violation(guarded: Any, analyzed: Callable[..., Path], tmp_path: Path) -> None:
    """It sends valid and invalid requests to a server that demands a token."""
    analyzed(guarded.root / "t", range(100), 200)
    options = ["--max-examples", "4", "--seed", "1", "--generation-database", "none", "--no-color"]
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{guarded.url}/openapi.json", *options]
    command += ["--header", "Authorization: Bearer abc"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout


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
        ("GET", "/v1/dump"): client.get("/v1/dump", params={"table": table}),
        ("GET", "/v1/tables"): client.get("/v1/tables"),
        ("POST", "/v1/stats"): client.post("/v1/stats", json={"requests": [{"table": table}, {"table": broken}]}),
        ("POST", "/v1/plan"): client.post("/v1/plan", json={"table": str(files), "where": "a = 1"}),
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
        ("post", "/v1/estimate/join"),
        ("post", "/v1/plan"),
        ("get", "/v1/tables"),
        ("get", "/v1/history"),
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
