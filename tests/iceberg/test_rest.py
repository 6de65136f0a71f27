"""
Tables of REST catalogs on a server that misbehaves on request; the interop tests use a real one.

The server keeps one table and its versions in files, so that its metadata log can be followed.
"""

from __future__ import annotations

import datetime
import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from puffin.clean import clean
from puffin.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptMetadataError,
    PuffinError,
    SnapshotNotFound,
    StorageError,
    TableNotFound,
    UnsupportedTableError,
)
from puffin.iceberg import bounded_rest
from puffin.iceberg.sdk import list_namespaces, list_tables, said_by_library
from puffin.load import load_table
from puffin.tables.commit import commit_statistics
from tests.http_server import Answer, Asked, answering

TABLE = "/v1/namespaces/db/tables/t"
ENDPOINTS = [f"{verb} /v1/{{prefix}}/namespaces/{{namespace}}/tables/{{table}}" for verb in ("GET", "POST")]


class Server:
    """
    A REST catalog with the table ``db.t``.

    Attributes:
        commits: The body of every commit that was posted.
        statuses: HTTP statuses with which the next commits are answered; 200 and 5xx ones are applied.
        before: Called, each once and in order, when a commit has come in and is not yet applied.
        ignored: Actions that are answered with success and not applied.
        endpoints: What it says it can do.
        vended: What else it says of the table to those who load it.
        loads: How often the table was asked for.
        tokens: How many it gave; only the last one is accepted, and none is asked for before the first.
        is_late: Whether commits that are answered with 4xx are applied too.
        instead: Statuses and bodies that it answers instead, by method and path.
    """

    def __init__(self, document: dict, directory: Path) -> None:
        self.document = document
        self.directory = directory
        self.version = 0
        self.commits: list[dict] = []
        self.statuses: list[int] = []
        self.before: list[Callable[[], None]] = []
        self.ignored: set[str] = set()
        self.endpoints = ENDPOINTS
        self.vended: dict = {"config": {}}
        self.loads = 0
        self.tokens = 0
        self.is_late = False
        self.instead: dict[str, tuple[int, bytes]] = {}
        self.location = ""
        self.change()

    def change(self, **fields) -> None:
        log = [*self.document["metadata-log"]]
        if self.location:
            log.append({"timestamp-ms": self.version, "metadata-file": self.location})
        self.version += 1
        self.location = f"{self.directory}/{self.version:05d}.metadata.json"
        self.document = {**self.document, "metadata-log": log, **fields}
        Path(self.location).write_text(json.dumps(self.document))

    def answer(self, asked: Asked) -> tuple[int, dict]:
        """Status and document."""
        if asked.path.startswith("/v1/config"):
            return 200, {"defaults": {}, "overrides": {}, "endpoints": self.endpoints}
        if asked.path == "/v1/oauth/tokens":
            self.tokens += 1
            return 200, {"access_token": f"token-{self.tokens}", "token_type": "bearer"}
        if self.tokens and asked.headers["Authorization"] != f"Bearer token-{self.tokens}":
            return 419, {"error": {"message": "old", "type": "Expired", "code": 419}}
        if asked.method == "GET":
            return 200, self.table()
        assert asked.path == TABLE
        return self.commit(json.loads(asked.body))

    def table(self) -> dict:
        self.loads += 1
        return {"metadata-location": self.location, "metadata": self.document, **self.vended}

    def commit(self, body: dict) -> tuple[int, dict]:
        self.commits.append(body)
        status = self.statuses.pop(0) if self.statuses else 200
        if status // 100 == 4 and not self.is_late:
            return status, {"error": {"message": "no", "type": "Refused", "code": status}}
        if self.before:
            self.before.pop(0)()
        for update in body["updates"]:
            if update["action"] not in self.ignored:
                key = "partition-statistics" if "partition" in update["action"] else "statistics"
                others = [s for s in self.document.get(key, []) if s["snapshot-id"] != update["snapshot-id"]]
                new = [update["statistics"]] if update["action"] == "set-statistics" else []
                self.change(**{key: others + new})
        if status != 200:
            return status, {"error": {"message": "hm", "type": "Failed", "code": status}}
        return 200, {"metadata-location": self.location, "metadata": self.document}

    def columns(self) -> list[int]:
        (entry,) = self.document["statistics"]
        return [field for blob in entry["blob-metadata"] for field in blob["fields"]]


@pytest.fixture
def server(table_document, tmp_path):
    (tmp_path / "metadata").mkdir()
    properties = {"commit.status-check.num-retries": "0"}
    return Server(table_document(tmp_path, properties=properties), tmp_path / "metadata")


@pytest.fixture
def open_table(server):
    """Opens the table through pyiceberg's own client."""

    def answer(asked: Asked) -> Answer:
        key = f"{asked.method} {asked.path.partition('?')[0]}"
        status, body = server.answer(asked)
        status, data = server.instead.get(key, (status, json.dumps(body).encode()))
        return status, {"Content-Type": "application/json"}, data

    with answering(answer) as uri:
        properties = {"type": "rest", "uri": uri, "oauth2-server-uri": f"{uri}/v1/oauth/tokens"}
        yield lambda **more: load_table("db.t", catalog="fake", catalog_properties={**properties, **more})


@pytest.fixture
def commit(open_table, draft_of):
    """Commit statistics of columns, as a separate job."""

    def run(**values):
        table = open_table()
        return commit_statistics(table, draft_of(table, values or {"a": [1]}), sleep=lambda _: None)

    return run


@pytest.fixture
def files(tmp_path):
    return lambda: sorted(str(path) for path in (tmp_path / "metadata").rglob("*.stats"))


SIGNED = {"rest.sigv4-enabled": "true", "rest.signing-region": "us-east-1", "rest.signing-name": "glue"}
OAUTH2 = {"client_id": "a", "client_secret": "b", "token_url": "{uri}/tokens"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "Read timed out"),
        ({"credential": "a:b"}, "Read timed out"),
        ({**SIGNED, "client.access-key-id": "a", "client.secret-access-key": "b"}, "Max retries exceeded"),
        ({"auth": {"type": "oauth2", "oauth2": OAUTH2}}, "no token came within 0.2 seconds"),
    ],
    ids=["plain", "credential", "signed", "oauth2"],
)
def test_silent_catalog_is_given_up(monkeypatch, more, said):
    """It accepts connections and never answers, also not when it is asked for a token."""
    monkeypatch.setattr(bounded_rest, "ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        more = json.loads(json.dumps(more).replace("{uri}", uri))
        properties = {"type": "rest", "uri": uri, "oauth2-server-uri": f"{uri}/tokens", **more}
        with pytest.raises(StorageError, match=f"catalog 'silent' failed, try again: .*{said}"):
            load_table("db.t", catalog="silent", catalog_properties=properties).open()


def test_commit_asserts_the_table_and_schema_it_was_made_for(server, commit):
    """The protocol lets a statistics commit assert nothing else."""
    entry = commit().entry
    (body,) = server.commits
    assert body["requirements"] == [
        {"type": "assert-table-uuid", "uuid": server.document["table-uuid"]},
        {"type": "assert-current-schema-id", "current-schema-id": 0},
    ]
    (update,) = body["updates"]
    assert update["action"] == "set-statistics"
    assert update["statistics"]["statistics-path"] == entry.statistics_path
    assert update["statistics"]["file-footer-size-in-bytes"] == entry.file_footer_size_in_bytes


def test_overwritten_entry_is_found_in_the_metadata_log_and_merged(server, commit):
    server.before = [lambda: commit(b=[1, 2])]
    assert commit(a=[1]).attempts == 2
    assert server.columns() == [1, 2]


def test_unrelated_commits_in_between_cost_nothing(server, commit):
    server.before = [lambda: server.change(properties={"x": "y"})]
    assert commit().attempts == 1


def test_unreadable_previous_version_is_taken_for_the_base(server, commit, caplog):
    """Its content is unknown; a warning says so, and the commit stands."""

    def change_in_secret() -> None:
        server.change(properties={"x": "y"})
        Path(server.location).unlink()

    server.before = [change_in_secret]
    assert commit().attempts == 1
    assert "statistics of another job" in caplog.text


def test_entry_of_a_snapshot_expired_in_between_is_removed(server, commit, files):
    server.before = [lambda: server.change(snapshots=[], **{"current-snapshot-id": None})]
    with pytest.raises(SnapshotNotFound, match="expired"):
        commit()
    assert [body["updates"][0]["action"] for body in server.commits] == ["set-statistics", "remove-statistics"]
    assert server.document["statistics"] == []
    assert files() == []


def test_entry_that_cannot_be_removed_keeps_its_file(server, commit, files):
    """The table refers to it, though the snapshot is gone: clean handles that."""
    server.before = [lambda: server.change(snapshots=[], **{"current-snapshot-id": None})]
    server.statuses = [200, 409]
    with pytest.raises(SnapshotNotFound):
        commit()
    assert [entry["statistics-path"] for entry in server.document["statistics"]] == files()


def test_server_that_ignores_statistics_is_detected(server, commit, files):
    server.ignored = {"set-statistics"}
    with pytest.raises(CommitUnknownError, match="does not have it"):
        commit()
    assert len(files()) == 1


def test_failed_assertion_is_a_conflict_and_retried(server, commit):
    server.statuses = [409]
    assert commit().attempts == 2


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, StorageError), (401, StorageError), (403, StorageError), (404, TableNotFound), (422, StorageError)],
)
def test_clear_refusal_is_final_and_deletes_the_file(server, commit, files, status, error):
    server.statuses = [status] * 9
    with pytest.raises(error, match=r"db\.t"):
        commit()
    assert files() == []
    assert server.document["statistics"] == []


@pytest.mark.parametrize("status", [400, 404, 409])
def test_refusal_of_a_commit_that_was_done_is_a_success(server, commit, files, status):
    """A proxy sends the request again, and the second answer is what the client sees."""
    server.is_late = True
    server.statuses = [status] * 9
    assert commit().attempts == 1
    assert [entry["statistics-path"] for entry in server.document["statistics"]] == files()


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_server_error_is_unclear_and_checked(server, commit, status):
    """Here the commit succeeded."""
    server.statuses = [status]
    assert commit().attempts == 1
    assert server.columns() == [1]


def test_server_error_keeps_the_file_if_nothing_is_found(server, commit, files):
    server.statuses = [500]
    server.ignored = {"set-statistics"}
    with pytest.raises(CommitUnknownError, match="no clear answer"):
        commit()
    assert len(files()) == 1


def test_server_without_commits_is_refused_without_a_request(server, commit, files):
    server.endpoints = ENDPOINTS[:1]
    with pytest.raises(UnsupportedTableError, match="takes no commits"):
        commit()
    assert (server.commits, files()) == ([], [])


def test_endless_conflict_deletes_the_file(server, commit, files):
    server.statuses = [409] * 9
    with pytest.raises(ConflictError):
        commit()
    assert len(server.commits) == 5
    assert files() == []


# --- entries of snapshots that are gone ---------------------------------------------------------------------------


def test_server_removes_entries_of_missing_snapshots(server, open_table, commit, files):
    """Of both kinds; other changes in between do not matter."""
    path = commit().entry.statistics_path
    partitions = {"snapshot-id": 10, "statistics-path": "p", "file-size-in-bytes": 1}
    server.change(snapshots=[], **{"current-snapshot-id": None, "partition-statistics": [partitions]})
    server.before = [lambda: server.change(properties={"x": "y"})]
    cleaning = clean(open_table(), older_than=datetime.timedelta(), remove=True)
    assert [entry.statistics_path for entry in cleaning.entries] == [path, "p"]
    assert [update["action"] for update in server.commits[-1]["updates"]] == [
        "remove-statistics",
        "remove-partition-statistics",
    ]
    assert server.commits[-1]["requirements"][0]["type"] == "assert-table-uuid"
    assert (server.document["statistics"], server.document["partition-statistics"]) == ([], [])
    assert files() == [path], "earlier versions of the metadata name it"


def test_server_that_ignores_removals_is_detected(server, open_table, commit):
    commit()
    server.change(snapshots=[], **{"current-snapshot-id": None})
    server.ignored = {"remove-statistics"}
    with pytest.raises(CommitUnknownError, match="still has them"):
        clean(open_table(), older_than=datetime.timedelta(), remove=True, sleep=lambda _: None)


def test_no_entry_is_dead_if_the_client_leaves_snapshots_out(server, open_table, commit):
    """It loads only those of branches and tags, but the others exist."""
    commit()
    server.change(snapshots=[], **{"current-snapshot-id": None})
    assert clean(open_table(**{"snapshot-loading-mode": "refs"})).entries == ()
    assert len(clean(open_table()).entries) == 1


# --- whether anything was committed -------------------------------------------------------------------------------


def test_state_is_reused_while_the_server_names_the_same_metadata(server, open_table):
    opened = open_table().open()
    assert opened.refreshed().state is opened.state
    server.change(properties={"changed": "yes"})
    assert opened.refreshed().state.properties["changed"] == "yes"


# --- answers of another form --------------------------------------------------------------------------------------

HTML = b"<html>\n<body>Sign in</body></html>"
CONFIG, NAMESPACES = "/v1/config", "/v1/namespaces"


@pytest.mark.parametrize(
    ("asked", "status", "body", "said"),
    [
        (f"GET {CONFIG}", 200, HTML, "expected a JSON object, found '<html> <body>Sign in</body></html>'"),
        (f"GET {CONFIG}", 200, b"", "expected a JSON object, found nothing"),
        (f"GET {CONFIG}", 502, HTML, "expected a JSON object, found '<html>"),
        (f"GET {NAMESPACES}", 200, HTML, "expected a JSON object, found '<html>"),
        (f"GET {NAMESPACES}", 403, HTML, "expected a JSON object, found '<html>"),
        (f"GET {NAMESPACES}", 200, b"{}", "expected another form of JSON: namespaces: Field required"),
        (f"GET {NAMESPACES}/db/tables", 200, b"[1]", "expected a JSON object, found 3 bytes of another form"),
        (f"GET {NAMESPACES}", 200, b'"a token"', "expected a JSON object, found 9 bytes of another form"),
        (f"GET {TABLE}", 200, HTML, "expected a JSON object, found '<html>"),
        (f"GET {TABLE}", 200, b'{"config": {"s3.secret', "expected a JSON object, found 22 bytes of another form"),
        (f"POST {TABLE}", 200, HTML, "expected a JSON object, found '<html>"),
    ],
)
def test_answer_that_is_no_json_is_quoted_with_its_place(server, open_table, commit, asked, status, body, said):
    """A proxy that wants people to sign in answers in HTML, and pydantic only counts its errors in that."""
    server.endpoints = [*ENDPOINTS, "GET /v1/{prefix}/namespaces", "GET /v1/{prefix}/namespaces/{namespace}/tables"]
    server.instead[asked] = status, body
    server.ignored = {"set-statistics"}
    ask = {
        f"GET {NAMESPACES}": lambda: list_namespaces(open_table()._catalog),
        f"GET {NAMESPACES}/db/tables": lambda: list_tables(open_table()._catalog, "db"),
    }
    with pytest.raises(PuffinError, match=f"{asked} answered {status}: {said}"):
        ask.get(asked, commit)()


def ask_again(response: requests.Response, failure: Exception) -> None:
    """Fail at a second request, or elsewhere, when the first one was answered."""
    raise failure


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (401, requests.ConnectionError("no route to host")),
        (200, KeyError("no route to host")),
        (200, json.JSONDecodeError("no route to host", "", 0)),
    ],
    ids=["no-connection", "elsewhere", "answer-without-its-request"],
)
def test_error_after_an_answer_is_about_itself(status, failure):
    answer = requests.Response()
    answer.status_code, answer._content, answer.url = status, HTML, "http://host/v1/config"
    if not isinstance(failure, ValueError):
        answer.request = requests.Request("GET", answer.url).prepare()
    with pytest.raises(type(failure)) as caught:
        ask_again(answer, failure)
    assert "no route to host" in said_by_library(caught.value)


# --- what the server says, and who asks ---------------------------------------------------------------------------


def test_blobs_and_types_unknown_to_pyiceberg_are_kept(server, open_table, commit):
    """Its models refuse the whole table; a reader must not."""
    schema = server.document["schemas"][0]
    fields = [*schema["fields"], {"id": 9, "name": "new", "required": False, "type": "geography(OGC:CRS84, karney)"}]
    blob = {"type": "bloom-v9", "snapshot-id": 7, "sequence-number": 1, "fields": [1], "properties": {}}
    entry = {
        "snapshot-id": 7,
        "statistics-path": "x.stats",
        "file-size-in-bytes": 9,
        "file-footer-size-in-bytes": 3,
        "blob-metadata": [blob],
    }
    server.change(statistics=[entry], schemas=[{**schema, "fields": fields}], **{"never-heard-of": {"x": 1}})
    assert open_table().open().state.document["never-heard-of"] == {"x": 1}
    commit(a=[1])
    assert server.document["statistics"][0] == entry
    assert len(server.document["statistics"]) == 2


def test_lookup_requests_the_table_once(server, open_table):
    open_table().open()
    assert server.loads == 1


def test_credentials_of_the_longest_prefix_open_the_files(server, open_table):
    """They win over the server's for all files, and those over the catalog's and the table's."""
    server.vended = {
        "config": {"s3.region": "of-the-table", "s3.access-key-id": "config"},
        "storage-credentials": [
            {"prefix": prefix, "config": {"s3.access-key-id": prefix}}
            for prefix in (str(server.directory.parent), str(server.directory), "s3://elsewhere-and-longer" * 9)
        ],
    }
    table = open_table(**{"s3.endpoint": "http://catalog", "s3.region": "of-the-catalog"})
    properties = dict(table.open().scan_context.io_properties)
    assert properties.pop("credentials.by-prefix")
    assert properties == {
        "s3.endpoint": "http://catalog",
        "s3.region": "of-the-table",
        "s3.access-key-id": str(server.directory),
    }


def test_expired_token_is_renewed_once(server, open_table, draft_of):
    table = open_table(credential="who:secret")
    draft = draft_of(table, {"a": [1]})
    server.tokens += 1  # the one that was given is an old one now
    assert commit_statistics(table, draft).attempts == 1
    assert server.columns() == [1]


def test_success_without_a_table_is_unclear_and_checked(server, commit, monkeypatch):
    done = server.commit
    monkeypatch.setattr(server, "commit", lambda body: (done(body)[0], {"metadata": None}))
    assert commit().attempts == 1
    assert server.columns() == [1]


@pytest.mark.parametrize("answer", [[], {}, "<html>", {"metadata-location": 3, "metadata": {}}])
def test_answer_that_is_no_table_is_reported(server, open_table, monkeypatch, answer):
    monkeypatch.setattr(server, "table", lambda: answer)
    with pytest.raises(CorruptMetadataError, match=r"db\.t"):
        open_table().open()
