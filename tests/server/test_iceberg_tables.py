"""Tables of the REST face: the metadata as it stands, conditional requests, and who plans the scans."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hand_made_table import HandMadeTable, schema
from tests.server.iceberg_face import Face, problem_of, publish, table_of_files, table_path

FIELDS = [(1, "a", "long"), (2, "f", "float"), (3, "s", "string")]


@pytest.fixture
def table(tmp_path: Path) -> HandMadeTable:
    return table_of_files(tmp_path / "db" / "t", "f")


@pytest.fixture
def face(tmp_path: Path, face_of: Callable[..., Face]) -> Face:
    return face_of(tmp_path, ttl_seconds=0)


def test_config_names_what_is_served_and_nothing_that_writes(face: Face) -> None:
    document = face.get("/config", params={"warehouse": "any"}).json()
    assert document["defaults"] == {}
    assert document["overrides"] == {"scan-planning-mode": "server"}
    table = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
    assert sorted(document["endpoints"]) == sorted(
        [
            "GET /v1/{prefix}/namespaces",
            "GET /v1/{prefix}/namespaces/{namespace}",
            "HEAD /v1/{prefix}/namespaces/{namespace}",
            "GET /v1/{prefix}/namespaces/{namespace}/tables",
            f"GET {table}",
            f"HEAD {table}",
            f"POST {table}/plan",
            f"GET {table}/plan/{{plan-id}}",
            f"DELETE {table}/plan/{{plan-id}}",
            f"POST {table}/tasks",
        ]
    )


def test_table_is_its_metadata_as_it_stands(table: HandMadeTable, face: Face) -> None:
    answer = face.load("db", "t")
    assert answer.json() == {
        "metadata-location": f"{table.root}/metadata/v1.metadata.json",
        "metadata": table.document,
        "config": {"scan-planning-mode": "server"},
    }


def test_gzip_metadata_is_inflated(table: HandMadeTable, face: Face) -> None:
    metadata = table.root / "metadata"
    (metadata / "v1.metadata.json").unlink()
    (metadata / "v1.gz.metadata.json").write_bytes(gzip.compress(json.dumps(table.document).encode()))
    answer = face.load("db", "t")
    assert answer.json()["metadata"] == table.document
    assert answer.json()["metadata-location"].endswith("v1.gz.metadata.json")
    assert face.load("db", "t", params={"snapshots": "refs"}).json()["metadata"] == table.document


def test_commit_is_seen_at_once(table: HandMadeTable, tmp_path: Path, face_of: Callable[..., Face]) -> None:
    """Even within the time to live: what a client loads and plans is never older than its request."""
    face = face_of(tmp_path, ttl_seconds=600)
    assert len(face.plan("db", "t").json()["file-scan-tasks"]) == 1
    for count in (2, 3):
        table.snapshot(*(table.data(table.root / f"{i}") for i in range(count)))
        publish(table)
        assert len(face.plan("db", "t").json()["file-scan-tasks"]) == count
    table.snapshot()
    publish(table)
    assert face.load("db", "t").json()["metadata"]["current-snapshot-id"] == 4


def test_snapshots_of_refs_are_those_of_branches_and_tags(table: HandMadeTable, face: Face) -> None:
    for _ in range(3):
        table.snapshot(table.data(table.root / "f"))
    publish(table, refs={"old": {"snapshot-id": 2, "type": "tag"}, "main": {"snapshot-id": 4, "type": "branch"}})
    loaded = {which: face.load("db", "t", params={"snapshots": which}).json()["metadata"] for which in ("all", "refs")}
    ids = {which: [each["snapshot-id"] for each in document["snapshots"]] for which, document in loaded.items()}
    assert ids == {"all": [1, 2, 3, 4], "refs": [2, 4]}
    assert {**loaded["refs"], "snapshots": loaded["all"]["snapshots"]} == loaded["all"]


def test_snapshots_of_another_kind_are_refused(table: HandMadeTable, face: Face) -> None:
    assert problem_of(face.load("db", "t", params={"snapshots": "some"})) == (400, "BadRequestException")


def test_snapshots_of_refs_are_the_current_one_if_refs_are_null(table: HandMadeTable, face: Face) -> None:
    publish(table, refs=None)
    answer = face.load("db", "t", params={"snapshots": "refs"})
    assert [each["snapshot-id"] for each in answer.json()["metadata"]["snapshots"]] == [
        table.document["current-snapshot-id"]
    ]


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', 'W/"other" ,W/{}', "*"])
def test_client_that_has_the_table_gets_304(table: HandMadeTable, face: Face, form: str) -> None:
    etag = face.load("db", "t").headers["etag"]
    again = face.load("db", "t", headers={"If-None-Match": form.format(etag)})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert "content-type" not in again.headers


@pytest.mark.parametrize("form", ["", '"other"', "W/", "nonsense, {0}x"])
def test_client_that_has_another_table_gets_this_one(table: HandMadeTable, face: Face, form: str) -> None:
    etag = face.load("db", "t").headers["etag"]
    assert face.load("db", "t", headers={"If-None-Match": form.format(etag)}).status_code == 200


def test_etag_changes_with_metadata_snapshots_and_planning_mode(table: HandMadeTable, face: Face) -> None:
    etags = [face.load("db", "t").headers["etag"]]
    etags.append(face.load("db", "t", params={"snapshots": "refs"}).headers["etag"])
    publish(table)
    etags.append(face.load("db", "t").headers["etag"])
    shutil.rmtree(table.root / "metadata")
    publish(table, properties={"puffin-sidecar.scan-planning-mode": "client"})
    etags.append(face.load("db", "t").headers["etag"])
    assert len({*etags}) == len(etags)


def test_head_tells_whether_a_table_or_namespace_exists(table: HandMadeTable, face: Face) -> None:
    etag = face.load("db", "t").headers["etag"]
    found = face.send("HEAD", table_path("db", "t"))
    assert (found.status_code, found.content, found.headers["etag"]) == (204, b"", etag)
    assert face.send("HEAD", "/namespaces/db").status_code == 204
    assert face.send("HEAD", table_path("db", "nope")).status_code == 404
    assert face.send("HEAD", "/namespaces/nope").status_code == 404


def test_head_and_304_do_not_read_the_metadata_file(
    table: HandMadeTable, tmp_path: Path, face_of: Callable[..., Face], monkeypatch: pytest.MonkeyPatch
) -> None:
    face = face_of(tmp_path)
    etag = face.load("db", "t").headers["etag"]
    read: list[str] = []
    monkeypatch.setattr("puffin.rest_catalog.catalog.LoadedTable.body", lambda each: read.append(each.etag) or b"{}")
    assert face.send("HEAD", table_path("db", "t")).status_code == 204
    assert face.load("db", "t", headers={"If-None-Match": etag}).status_code == 304
    assert read == []
    face.load("db", "t")
    assert read == [etag]


def spec_of(table: HandMadeTable, *fields: tuple[int, str]) -> None:
    table.document["partition-specs"] = [
        {
            "spec-id": 0,
            "fields": [
                {"source-id": source, "field-id": 1000 + i, "name": f"p{i}", "transform": transform}
                for i, (source, transform) in enumerate(fields)
            ],
        }
    ]


def encrypted(table: HandMadeTable) -> None:
    table.document["properties"] = {"encryption.key-id": "k"}


def taken_back(table: HandMadeTable) -> None:
    table.document["properties"] = {"puffin-sidecar.scan-planning-mode": "CLIENT"}


def promoted(table: HandMadeTable, *, snapshots: int) -> None:
    """Partitioned by column ``s``, which was an int in all snapshots but the last of so many."""
    spec_of(table, (3, "identity"))
    table.document["schemas"] = [schema([*FIELDS[:2], (3, "s", "int")])]
    table.evolve([*FIELDS[:2], (3, "s", "long")])
    table.document["snapshots"] = []
    for _ in range(snapshots):
        table.snapshot()
    for number, each in enumerate(table.document["snapshots"], 1):
        each["schema-id"] = 1 if number == snapshots else 0


def swapped(table: HandMadeTable) -> None:
    table.evolve([(1, "f", "long"), (2, "a", "float"), (3, "s", "string")])


def reused(table: HandMadeTable) -> None:
    table.evolve(FIELDS[:2])
    table.evolve([*FIELDS[:2], (4, "s", "string")])


def reused_in_another_case(table: HandMadeTable) -> None:
    table.evolve([*FIELDS[:2], (4, "S", "string")])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (encrypted, "encrypted"),
        (taken_back, "puffin-sidecar.scan-planning-mode"),
        (swapped, "column"),
        (reused, "column s"),
        (reused_in_another_case, "column s"),
        (lambda table: spec_of(table, (2, "identity")), "floating-point"),
        (lambda table: spec_of(table, (1, "zorder")), "zorder"),
        (lambda table: promoted(table, snapshots=2), "p0: its column is an int in older snapshots"),
    ],
)
def test_table_is_taken_back_with_the_reason(
    tmp_path: Path, face: Face, change: Callable[[HandMadeTable], Any], reason: str
) -> None:
    table = HandMadeTable(tmp_path / "db" / "back", FIELDS, version=3)
    table.snapshot()
    change(table)
    publish(table)
    config = face.load("db", "back").json()["config"]
    assert config["scan-planning-mode"] == "client"
    assert reason in config["puffin-sidecar.scan-planning-reason"]


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.evolve([(1, "renamed", "long"), *FIELDS[1:]]),
        lambda table: table.evolve([*FIELDS, (4, "new", "string")]),
        lambda table: spec_of(table, (1, "bucket[4]"), (3, "truncate[2]"), (2, "void")),
        lambda table: promoted(table, snapshots=1),
        lambda table: table.document["properties"].update({"puffin-sidecar.scan-planning-mode": "server"}),
    ],
)
def test_table_that_can_be_planned_here_stays(
    tmp_path: Path, face: Face, change: Callable[[HandMadeTable], Any]
) -> None:
    table = HandMadeTable(tmp_path / "db" / "stays", FIELDS, version=3)
    table.snapshot()
    change(table)
    publish(table)
    assert face.load("db", "stays").json()["config"] == {"scan-planning-mode": "server"}
