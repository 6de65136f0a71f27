"""``GET /v1/stats``: the ndv document, entity tags, and the answers without statistics."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import puffin


@pytest.fixture
def table(tmp_path: Path, write_table: Callable[..., Path]) -> Path:
    return write_table(
        tmp_path / "t", snapshots=(10, 20), ndv={10: 5, 20: 7}, refs={"old": {"snapshot-id": 10, "type": "tag"}}
    )


def test_answer_equals_the_ndv_document(table: Path, client_of: Callable[..., Any]) -> None:
    answer = client_of(table.parent).stats(table)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == puffin.ndv(str(table)).to_json()


def test_requested_columns_keep_their_order(table: Path, client_of: Callable[..., Any]) -> None:
    answer = client_of(table.parent).stats(table, column=["c", "a"]).json()
    assert [column["column"] for column in answer["columns"]] == ["c", "a"]


@pytest.mark.parametrize("which", [{"snapshot-id": 10}, {"ref": "old"}, {"snapshot-id": 10, "ref": "old"}])
def test_snapshot_is_chosen_by_id_or_ref(table: Path, client_of: Callable[..., Any], which: dict[str, Any]) -> None:
    answer = client_of(table.parent).stats(table, **which).json()
    assert answer["snapshot-id"] == 10
    assert {column["ndv"] for column in answer["columns"]} == {5}


@pytest.mark.parametrize(
    ("parameters", "status", "kind"),
    [
        ({"table": "TABLE", "column": "nope"}, 404, "not-found"),
        ({"table": "TABLE", "snapshot-id": "99"}, 404, "not-found"),
        ({"table": "TABLE", "ref": "nope"}, 404, "not-found"),
        ({"table": "TABLE/nope"}, 404, "not-found"),
        ({"table": "TABLE", "snapshot-id": "20", "ref": "old"}, 404, "not-found"),
        ({"table": "TABLE", "snapshot-id": "ten"}, 422, "invalid"),
        ({"table": "TABLE", "snapshot-id": str(2**70)}, 404, "not-found"),
        ({"table": "TABLE", "columns": "a"}, 422, "invalid"),
        ({"table": ["TABLE", "TABLE"]}, 422, "invalid"),
        ({"table": "TABLE", "snapshot-id": ["10", "20"]}, 422, "invalid"),
        ({"table": ""}, 422, "invalid"),
        ({}, 422, "invalid"),
        ({"table": "TABLE/metadata/version-hint.text"}, 422, "corrupt"),
        ({"table": "/"}, 403, "forbidden"),
    ],
)
def test_errors_are_problem_documents(
    table: Path, client_of: Callable[..., Any], parameters: dict[str, str | list[str]], status: int, kind: str
) -> None:
    """Every mistake of a caller is a 4xx with an explanation."""
    values = {key: value if isinstance(value, list) else [value] for key, value in parameters.items()}
    asked = {key: [value.replace("TABLE", str(table)) for value in of_key] for key, of_key in values.items()}
    answer = client_of(table.parent).get("/v1/stats", params=asked)
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (status, status)
    assert problem["type"] == f"urn:puffin-sidecar:problem:{kind}"
    assert problem["instance"] == "/v1/stats"
    assert problem["title"]
    assert problem["detail"]


@pytest.mark.parametrize("as_sent", ["{}", "W/{}", '"other", {}', "*"])
def test_matching_tag_gets_304(table: Path, client_of: Callable[..., Any], as_sent: str) -> None:
    """In every form that RFC 9110 allows, cold and warm."""
    client = client_of(table.parent)
    tag = client.stats(table).headers["etag"]
    for _ in range(2):
        again = client.get("/v1/stats", params={"table": str(table)}, headers={"If-None-Match": as_sent.format(tag)})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)


def test_other_tag_gets_the_answer(table: Path, client_of: Callable[..., Any]) -> None:
    client = client_of(table.parent)
    assert client.get("/v1/stats", params={"table": str(table)}, headers={"If-None-Match": '"x"'}).status_code == 200


def test_tag_depends_on_snapshot_statistics_files_and_arguments(
    table: Path, client_of: Callable[..., Any], write_table: Callable[..., Path]
) -> None:
    client = client_of(table.parent, ttl_seconds=0)
    tags = [client.stats(table, **which).headers["etag"] for which in ({}, {"column": "a"}, {"snapshot-id": 10})]
    write_table(table, snapshots=(10, 20), ndv={10: 5, 20: 8})
    tags.append(client.stats(table).headers["etag"])
    write_table(table, snapshots=(10, 20, 30), ndv={10: 5, 20: 8})
    tags.append(client.stats(table).headers["etag"])
    assert len(set(tags)) == 5


def test_new_analysis_is_visible_after_the_time_to_live(
    table: Path, client_of: Callable[..., Any], write_table: Callable[..., Path]
) -> None:
    """Until then the previous answer and its 304 are allowed; afterwards they are not."""
    client = client_of(table.parent)
    first = client.stats(table)
    write_table(table, snapshots=(10, 20), ndv={20: 900})
    time.sleep(0.25)
    second = client.get("/v1/stats", params={"table": str(table)}, headers={"If-None-Match": first.headers["etag"]})
    assert second.status_code == 200
    assert {column["ndv"] for column in second.json()["columns"]} == {900}


def test_warm_answer_has_the_same_bytes_and_reads_nothing(
    table: Path, client_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(table.parent, ttl_seconds=60)
    first = client.stats(table)
    monkeypatch.setattr("puffin.server.workers.threading.Thread", None)
    assert client.stats(table).content == first.content


def test_corrupt_statistics_file_makes_its_column_missing(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path]
) -> None:
    """The column says why, and the status is 200."""
    table = write_table(tmp_path / "t", properties={"ndv": None})
    (table / "metadata" / "10-7.stats").write_bytes(b"x" * 100)
    answer = client_of(tmp_path).stats(table, column="a")
    (column,) = answer.json()["columns"]
    assert (answer.status_code, column["source"], column["ndv"]) == (200, "missing", None)
    assert "10-7.stats" in column["reason"]


def test_table_without_statistics_has_missing_columns(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path]
) -> None:
    answer = client_of(tmp_path).stats(write_table(tmp_path / "t", ndv={})).json()
    assert {column["source"] for column in answer["columns"]} == {"missing"}


def test_corrupt_metadata_is_reported_and_affects_nothing_else(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path]
) -> None:
    good, bad = write_table(tmp_path / "good"), write_table(tmp_path / "bad")
    (bad / "metadata" / "v1.metadata.json").write_text("{")
    client = client_of(tmp_path)
    assert client.stats(bad).status_code == 422
    assert client.stats(good).status_code == 200
