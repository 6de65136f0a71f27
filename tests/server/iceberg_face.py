"""A caller of the REST face, and the tables that it asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from tests import table_directory
from tests.hand_made_table import HandMadeTable

JAVA = {"X-Client-Version": "Apache Iceberg 1.12.0 (commit abc)"}
PYTHON = {"X-Client-Version": "PyIceberg 0.12.0"}


class Face:
    """Calls the face of a server; paths begin below the version, and a table is named by its levels."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def send(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        answer: httpx.Response = self.client.run(self.sending(method, path, **arguments))
        return answer

    def sending(self, method: str, path: str, **arguments: Any) -> Any:
        """The same, not awaited yet."""
        return self.client.http.request(method, f"/iceberg/v1{path}", **arguments)

    def get(self, path: str, **arguments: Any) -> httpx.Response:
        return self.send("GET", path, **arguments)

    def load(self, *levels: str, **arguments: Any) -> httpx.Response:
        return self.get(table_path(*levels), **arguments)

    def plan(self, *levels: str, headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
        keys = {key.replace("_", "-"): value for key, value in body.items()}
        return self.send("POST", f"{table_path(*levels)}/plan", json=keys, headers=headers)

    def tasks(self, *levels: str, plan_task: Any, headers: dict[str, str] | None = None) -> httpx.Response:
        body = {"plan-task": plan_task}
        return self.send("POST", f"{table_path(*levels)}/tasks", json=body, headers=headers)


def table_path(*levels: str) -> str:
    """The path of a table: the levels of its namespace, then its name."""
    return f"/namespaces/{namespace(*levels[:-1])}/tables/{quote(levels[-1], safe='')}"


def namespace(*levels: str) -> str:
    """A namespace as a segment of a path."""
    return quote("\x1f".join(levels), safe="")


def problem_of(answer: httpx.Response) -> tuple[int, str]:
    """The status and type of an error, which has the protocol's form and one line of text."""
    assert answer.headers["content-type"] == "application/json"
    (error,) = answer.json().values()
    assert list(error) == ["message", "type", "code"]
    assert error["code"] == answer.status_code
    assert error["message"]
    assert "\n" not in error["message"]
    return answer.status_code, error["type"]


def publish(table: HandMadeTable, **keys: Any) -> None:
    """Make what the table's document says, with some keys changed, the newest metadata of its directory."""
    table_directory.publish(table.root, {**table.document, **keys})


def table_of_files(root: Path, *names: str, **options: Any) -> HandMadeTable:
    """A published table of one column, ``a``, without its data files; file i has values from 10 i to 10 i + 9."""
    table = HandMadeTable(root, [(1, "a", "long")], **options)
    table.snapshot(*(table.data(root / name, record_count=10, **bounds_of(10 * i)) for i, name in enumerate(names)))
    publish(table)
    return table


def bounds_of(lower: int, field_id: int = 1) -> dict[str, dict[int, bytes]]:
    """Bounds of a column of type long: this number and nine more."""
    lower_bound, upper_bound = (number.to_bytes(8, "little", signed=True) for number in (lower, lower + 9))
    return {"lower_bounds": {field_id: lower_bound}, "upper_bounds": {field_id: upper_bound}}


def paths(document: Any) -> list[str]:
    """The names of the data files of an answer."""
    return [task["data-file"]["file-path"].rpartition("/")[2] for task in document["file-scan-tasks"]]
