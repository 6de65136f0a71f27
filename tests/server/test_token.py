"""With a token file, only health and the empty page are available without the token."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from puffin.errors import UsageError
from puffin.server.settings import read_token

TOKEN = b"s3cret-token"
GUARDED = [
    "/v1/stats?table=/x",
    "/v1/plan",
    "/v1/plans",
    "/v1/tables",
    "/v1/status",
    "/v1/history",
    "/v1/dump",
    "/metrics",
    "/openapi.json",
    "/nowhere",
]


@pytest.fixture(scope="module")
def guarded_client(lasting_client_of: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    return lasting_client_of(tmp_path_factory.mktemp("guarded"), token=TOKEN)


@pytest.mark.parametrize("path", GUARDED)
@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Authorization", "s3cret-token")],
        [("Authorization", "Basic s3cret-token")],
        [("Authorization", "Bearer s3cret-toke")],
        [("Authorization", "Bearer s3cret-tokens")],
        [("Authorization", "Bearer")],
        [("Authorization", "Bearer other"), ("Authorization", "Bearer s3cret-token")],
        [("Cookie", "s3cret-token")],
    ],
)
def test_request_without_the_token_is_401(guarded_client: Any, path: str, headers: list[tuple[str, str]]) -> None:
    answer = guarded_client.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["type"] == "urn:puffin-sidecar:problem:unauthorized"
    assert "s3cret" not in answer.text


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_request_with_the_token_is_answered(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path], scheme: str
) -> None:
    client = client_of(tmp_path, token=TOKEN)
    headers = {"Authorization": f"{scheme} s3cret-token"}
    answer = client.get("/v1/stats", params={"table": str(write_table(tmp_path / "t"))}, headers=headers)
    assert answer.status_code == 200
    assert client.get("/metrics", headers=headers).status_code == 200


def test_cached_answer_needs_the_token_too(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path]
) -> None:
    client = client_of(tmp_path, token=TOKEN, ttl_seconds=60)
    asked = {"params": {"table": str(write_table(tmp_path / "t"))}}
    assert client.get("/v1/stats", **asked, headers={"Authorization": "Bearer s3cret-token"}).status_code == 200
    assert client.get("/v1/stats", **asked).status_code == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/", "/page.js", "/charts.js", "/page.css"])
def test_health_and_the_empty_page_need_no_token(tmp_path: Path, client_of: Callable[..., Any], path: str) -> None:
    assert client_of(tmp_path, token=TOKEN).get(path).status_code == 200


def test_white_space_around_the_token_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b" s3cret-token\n")
    assert read_token(str(tmp_path / "token")) == TOKEN


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"\xc3\xa4", b"x" * 5000])
def test_token_that_no_header_can_carry_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(UsageError):
        read_token(str(tmp_path / "token"))


def test_missing_token_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_token(str(tmp_path / "none"))
