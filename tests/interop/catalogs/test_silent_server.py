"""A REST catalog that accepts commits and ignores them: Iceberg's own, behind a proxy that drops statistics."""

from __future__ import annotations

import json
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest

from puffin.cli import main
from tests.http_server import Answer, Asked, answering

ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})


@pytest.fixture
def silent(rest):
    """The properties of the catalog behind the proxy."""

    def answer(asked: Asked) -> Answer:
        body = None
        if asked.method == "POST":
            commit = json.loads(asked.body)
            kept = [update for update in commit["updates"] if "statistics" not in update["action"]]
            body = json.dumps({**commit, "updates": kept}).encode()
        headers = {"Content-Type": "application/json"}
        with urlopen(Request(rest.properties["uri"] + asked.path, data=body, headers=headers)) as found:
            return found.status, headers, found.read()

    with answering(answer) as url:
        yield {**rest.properties, "uri": url}


def test_job_fails_if_committed_statistics_are_missing(rest, silent, capsys):
    """The exit code is 1, one line says so, and the statistics file stays."""
    catalog = rest.open()
    catalog.create_namespace("silent")
    catalog.create_table("silent.t", ROWS.schema).append(ROWS)
    properties = [word for item in silent.items() for word in ("--catalog-property", "=".join(item))]
    with pytest.raises(SystemExit) as left:
        main(["analyze", "silent.t", "--catalog", "silent", *properties])
    said = capsys.readouterr().err.strip()
    assert left.value.code == 1
    assert "the commit was reported as done, but" in said
    assert "\n" not in said
    assert said.endswith(".stats")
    assert catalog.load_table("silent.t").metadata.statistics == []
