"""The endpoints beside ``/v1/stats``: batches, joins, lists, histories, dumps, health and metrics."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import puffin
from puffin.inspection import describe
from puffin.load import Tables


def test_batch_has_an_answer_or_problem_for_each_question_in_order(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path]
) -> None:
    """A problem says which question it is about."""
    table = str(write_table(tmp_path / "t", snapshots=(10, 20), ndv={10: 5, 20: 7}))
    questions = [
        {"table": table},
        {"table": table, "columns": ["b"], "snapshot-id": 10},
        {"table": "/etc"},
        {"table": table, "columns": ["nope"]},
        {"table": table, "snapshot-id": 10, "ref": "main"},
    ]
    answer = client_of(tmp_path).post("/v1/stats", json={"requests": questions})
    whole, one, *problems = answer.json()["results"]
    assert answer.status_code == 200
    assert whole == puffin.ndv(table).to_json()
    assert one == puffin.ndv(table, ["b"], snapshot_id=10).to_json()
    assert [problem["status"] for problem in problems] == [403, 404, 404]
    assert [problem["instance"] for problem in problems] == [f"/v1/stats#/requests/{place}" for place in (2, 3, 4)]


def test_batch_may_repeat_a_table(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path]
) -> None:
    table = str(write_table(tmp_path / "t", columns=[f"c{i}" for i in range(100)]))
    questions = [{"table": table, "columns": [f"c{i}"]} for i in range(100)]
    client = client_of(tmp_path)
    for _ in range(2):
        results = client.post("/v1/stats", json={"requests": questions}).json()["results"]
        assert [[column["column"] for column in result["columns"]] for result in results] == [
            [f"c{i}"] for i in range(100)
        ]


def test_defect_at_one_table_touches_no_other(
    tmp_path: Path,
    client_of: Callable[..., Any],
    write_table: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is told in the place of its table, and each time in the log."""
    bad, good = (str(write_table(tmp_path / name)) for name in ("bad", "good"))
    load = Tables.load

    def faulty(tables: Tables, name: str) -> Any:
        return load(tables, name) if name == good else {}[name]

    monkeypatch.setattr(Tables, "load", faulty)
    client = client_of(tmp_path)
    batch = client.post("/v1/stats", json={"requests": [{"table": bad}, {"table": good}]}).json()["results"]
    assert (batch[0]["status"], batch[1]["table"]) == (500, good)
    listed = client.get("/v1/tables").json()
    assert ([each["table"] for each in listed["tables"]], listed["unreadable"]) == ([good], [bad])
    errors = {each["table"]: each["error"] for each in client.get("/v1/status").json()["tables"]}
    assert (errors[bad], len(errors)) == ("a defect of the server; its log has the details", 2)
    assert [each.exc_info[0] for each in caplog.records if each.exc_info] == [KeyError] * 3


def test_join_is_estimated_from_the_sketches(
    tmp_path: Path, client_of: Callable[..., Any], analyzed: Callable[..., Path]
) -> None:
    """The document has the overlap of 50 of 100 and 100 values, each of them in two rows on both sides."""
    left, right = (str(analyzed(tmp_path / name, range(at, at + 100), 200)) for name, at in (("l", 0), ("r", 50)))
    asked = {"left": {"table": left, "column": "a"}, "right": {"table": right, "column": "a"}}
    answer = client_of(tmp_path).post("/v1/estimate/join", json=asked).json()
    assert answer["left"] == {"table": left, "column": "a", "ndv": 100, "row-count": 200}
    assert answer["right"]["table"] == right
    assert (answer["overlap-ndv"], answer["containment-left"], answer["join-rows"]) == (50, 0.5, 200)


@pytest.mark.parametrize("side", ["left", "right"])
def test_both_sides_of_a_join_must_be_served(
    tmp_path: Path, client_of: Callable[..., Any], analyzed: Callable[..., Path], side: str
) -> None:
    inside, outside = (str(analyzed(tmp_path / name / "t", [1], 1)) for name in ("in", "out"))
    asked = {each: {"table": inside, "column": "a"} for each in ("left", "right")}
    asked[side]["table"] = outside
    assert client_of(tmp_path / "in").post("/v1/estimate/join", json=asked).status_code == 403


def test_analyzed_tables_are_listed_by_name_page_by_page(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path]
) -> None:
    """Unreadable tables are listed separately, tables without statistics not at all."""
    for name in ("a", "b", "d"):
        write_table(tmp_path / name, snapshots=(10, 20), ndv={10: 5})
    write_table(tmp_path / "c", ndv={})
    (tmp_path / "b" / "metadata" / "v1.metadata.json").write_text("{")
    client = client_of(tmp_path)
    first = client.get("/v1/tables", params={"limit": 2}).json()
    second = client.get("/v1/tables", params={"limit": 2, "after": first["next"]}).json()
    assert first["tables"] == [
        {
            "table": str(tmp_path / "a"),
            "format": "iceberg",
            "snapshot-id": 20,
            "statistics-snapshot-id": 10,
            "snapshots-behind": 1,
        }
    ]
    assert first["unreadable"] == [str(tmp_path / "b")]
    assert first["next"] == str(tmp_path / "b")
    assert [table["table"] for table in second["tables"]] == [str(tmp_path / "d")]
    assert second["next"] is None


def test_lists_tell_that_there_are_more_tables_than_they_consider(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        write_table(tmp_path / name)
    client = client_of(tmp_path)
    for most, told in ((2, None), (1, True)):
        monkeypatch.setattr("puffin.server.table_lists._MOST_NAMES", most)
        for path in ("/v1/tables", "/v1/status"):
            answer = client.get(path).json()
            assert (len(answer["tables"]), answer.get("truncated")) == (most, told)


def test_lists_tell_of_directories_that_were_not_searched(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(tmp_path / "a" / "t")
    client = client_of(tmp_path)
    monkeypatch.setattr("puffin.lookup.places.found_below.__defaults__", (2,))
    for path in ("/v1/tables", "/v1/status"):
        assert client.get(path).json()["truncated"]
    assert client.get("/v1/tables").json()["unreadable"] == [str(tmp_path)]
    (root,) = client.get("/v1/status").json()["tables"]
    assert root["error"].startswith(f"{tmp_path}: expected at most 2 directories, found more")


def test_directory_with_a_name_that_is_not_served_hides_no_table(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path]
) -> None:
    """It is listed as what cannot be, also at the end of a page."""
    table, odd = write_table(tmp_path / "t"), tmp_path / "a\nb"
    odd.mkdir()
    client = client_of(tmp_path)
    first = client.get("/v1/tables", params={"limit": 1}).json()
    assert (first["unreadable"], first["next"]) == ([str(odd)], str(odd))
    second = client.get("/v1/tables", params={"limit": 1, "after": first["next"]}).json()
    assert [each["table"] for each in second["tables"]] == [str(table)]


def test_table_below_two_roots_is_listed_once(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path]
) -> None:
    table = str(write_table(tmp_path / "db" / "t"))
    client = client_of(tmp_path, tmp_path / "db")
    for path in ("/v1/tables", "/v1/status"):
        assert [each["table"] for each in client.get(path).json()["tables"]] == [table]


def test_tables_are_found_by_part_of_their_names(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path]
) -> None:
    for name in ("sales/orders", "sales/order_lines", "web/clicks"):
        write_table(tmp_path / name)
    client = client_of(tmp_path)

    def found(part: str) -> list[str]:
        tables = client.get("/v1/tables", params={"contains": part}).json()["tables"]
        return [str(Path(table["table"]).relative_to(tmp_path)) for table in tables]

    assert found("ORDER") == ["sales/order_lines", "sales/orders"]
    assert found("web/") == ["web/clicks"]
    assert found("nothing") == []


def test_history_has_the_counted_snapshots(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path]
) -> None:
    table = write_table(tmp_path / "t", snapshots=(10, 20, 30), ndv={30: 9, 10: 5})
    history = client_of(tmp_path).get("/v1/history", params={"table": str(table), "column": "b"}).json()
    assert (history["table"], history["column"]) == (str(table), "b")
    assert [(point["snapshot-id"], point["ndv"]) for point in history["points"]] == [(10, 5), (30, 9)]
    assert history["points"][0]["timestamp"] == "1970-01-01T00:00:01.000+00:00"


def test_dump_describes_the_statistics_file(
    tmp_path: Path, client_of: Callable[..., Any], analyzed: Callable[..., Path]
) -> None:
    table = analyzed(tmp_path / "t", [1, 2, 3], 3)
    answer = client_of(tmp_path).get("/v1/dump", params={"table": str(table)})
    assert answer.json() == describe(str(table / "metadata" / "10.stats")).to_json()


def test_dump_follows_replaced_and_removed_statistics(
    tmp_path: Path, client_of: Callable[..., Any], analyzed: Callable[..., Path]
) -> None:
    """Within the time to live too."""
    client, table = client_of(tmp_path, ttl_seconds=60), analyzed(tmp_path / "t", [1, 2, 3], 3)
    client.stats(table)
    metadata = table / "metadata"
    (metadata / "10.stats").rename(metadata / "11.stats")
    assert client.get("/v1/dump", params={"table": str(table)}).status_code == 404
    document = (metadata / "v1.metadata.json").read_text().replace("10.stats", "11.stats")
    (metadata / "v2.metadata.json").write_text(document)
    (metadata / "version-hint.text").write_text("2")
    answer = client.get("/v1/dump", params={"table": str(table)})
    assert answer.json() == describe(str(metadata / "11.stats")).to_json()


def test_dump_of_a_corrupt_file_is_a_problem(
    tmp_path: Path, client_of: Callable[..., Any], analyzed: Callable[..., Path]
) -> None:
    table = analyzed(tmp_path / "t", [1, 2, 3], 3)
    (table / "metadata" / "10.stats").write_bytes(b"PFA1")
    answer = client_of(tmp_path).get("/v1/dump", params={"table": str(table)})
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:puffin-sidecar:problem:corrupt")


def test_dump_shows_no_file_outside_the_roots(
    tmp_path: Path, client_of: Callable[..., Any], analyzed: Callable[..., Path]
) -> None:
    """Writers of table metadata below a root cannot make it show other files."""
    inside, outside = (analyzed(tmp_path / name / "t", [1], 1) for name in ("in", "out"))
    metadata = inside / "metadata" / "v1.metadata.json"
    metadata.write_text(metadata.read_text().replace(f"{inside}/metadata/10.stats", f"{outside}/metadata/10.stats"))
    client = client_of(tmp_path / "in")
    assert client.stats(inside).status_code == 200
    assert client.get("/v1/dump", params={"table": str(inside)}).status_code == 404


def test_server_without_its_root_is_healthy_but_not_ready(tmp_path: Path, client_of: Callable[..., Any]) -> None:
    root = tmp_path / "root"
    root.mkdir()
    client = client_of(root)
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}
    root.rmdir()
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 503


def test_metrics_count_requests_and_reads(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path]
) -> None:
    """By route and status; paths without a route are counted without their names."""
    table = write_table(tmp_path / "t")
    client = client_of(tmp_path, ttl_seconds=60)
    for _ in range(3):
        client.stats(table)
    client.stats("/etc")
    client.get('/"nowhere')
    answer = client.get("/metrics")
    lines = answer.text.splitlines()
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'puffin_http_requests_total{route="/v1/stats",status="200"} 3' in lines
    assert 'puffin_http_requests_total{route="/v1/stats",status="403"} 1' in lines
    assert 'puffin_http_requests_total{route="other",status="404"} 1' in lines
    assert 'puffin_http_request_duration_seconds_count{route="/v1/stats"} 4' in lines
    assert 'puffin_http_request_duration_seconds_bucket{route="/v1/stats",le="+Inf"} 4' in lines
    assert "puffin_lookup_hits_total 2" in lines
    assert "puffin_lookup_metadata_reads_total 1" in lines
    assert "puffin_http_requests_running 1" in lines
    assert "nowhere" not in answer.text
    described = {line.split()[2] for line in lines if line.startswith("# HELP ")}
    assert described == {line.split()[2] for line in lines if line.startswith("# TYPE ")}


def test_wrong_method_is_405_and_lists_the_allowed_ones(tmp_path: Path, client_of: Callable[..., Any]) -> None:
    client = client_of(tmp_path)
    answer = client.run(client.http.delete("/v1/stats"))
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
    assert answer.json()["type"] == "urn:puffin-sidecar:problem:method-not-allowed"


def test_catalog_tables_are_served_by_name(
    tmp_path: Path, client_of: Callable[..., Any], analyzed: Callable[..., Path]
) -> None:
    """By path only below a root, if there is one; joins and lists take both."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    told = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path / "warehouse"), "type": "sql"}
    catalog = SqlCatalog("prod", **told)
    catalog.create_namespace("db")
    catalog.create_table("db.events", Schema(NestedField(1, "a", LongType(), required=False)))
    client = client_of(catalog="prod", catalog_properties=told)
    assert client.stats("db.events").json()["columns"][0]["source"] == "missing"
    assert client.stats("db.nope").status_code == 404
    assert client.stats("events").status_code == 404
    assert client.stats(tmp_path / "warehouse" / "db" / "events").status_code == 403
    assert client.get("/v1/tables").json() == {"tables": [], "unreadable": [], "next": None}
    assert client.get("/readyz").status_code == 200
    table = str(analyzed(tmp_path / "root" / "t", [1, 2], 2))
    both = client_of(tmp_path / "root", catalog="prod", catalog_properties=told)
    assert both.stats(table).json()["columns"][0]["ndv"] == 2
    assert both.stats("db.events").status_code == 200
    assert [found["table"] for found in both.get("/v1/tables").json()["tables"]] == [table]
    assert both.get("/v1/tables", params={"namespace": "db"}).json()["tables"] == []
    assert both.get("/v1/tables", params={"namespace": "absent"}).status_code == 404
    asked = {"left": {"table": table, "column": "a"}, "right": {"table": "db.events", "column": "a"}}
    assert "no statistics" in both.post("/v1/estimate/join", json=asked).json()["detail"]
    (tmp_path / "catalog.db").write_bytes(b"no database")
    assert both.get("/v1/tables", params={"namespace": "db"}).status_code == 503
