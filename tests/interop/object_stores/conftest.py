"""
S3 on this machine: moto's server, made strict and, when a test wants it, unreliable.

It knows ``If-None-Match`` on a put, but looks and writes in two steps, so puts are let in one at a time. It takes any
credentials, so those of others are turned away before it sees them. The server runs in this process, so a client that
holds the GIL while it waits never gets an answer.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tests.interop.object_stores.lending import Lending, lending
from tests.interop.object_stores.tables import IcebergTable

KEY_ID, SECRET = "sidecar", "of-the-tests"
REGION = "eu-central-1"
_SIGNED_BY = re.compile(rf"Credential={KEY_ID}/")
_DENIED = b'<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>no</Message></Error>'
_EXPIRED = b'<?xml version="1.0"?><Error><Code>ExpiredToken</Code><Message>no</Message></Error>'
_FAILED = b'<?xml version="1.0"?><Error><Code>InternalError</Code><Message>no</Message></Error>'


class S3:
    """
    A server, and what opens it.

    Attributes:
        url: Where it listens.
        is_deaf_to_conditions: Whether it writes over objects whatever the header says, as servers of old do.
        fault: Asked of each put's path; what it returns is done instead: ``refuse``, ``fail``, or, of a put that is
            carried out all the same, ``lose the answer``.
        requests: Method and path of each, in order.
        lent: Until when a session token holds, in seconds since the epoch; those that are not here never do.
    """

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Silent(WSGIRequestHandler):
            protocol_version = "HTTP/1.1"

            def log(self, *args: Any) -> None: ...

        self._moto = DomainDispatcherApplication(create_backend_app)
        self._writing = threading.Lock()
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True, request_handler=Silent)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.is_deaf_to_conditions = False
        self.fault: Callable[[str], str | None] = lambda _: None
        self.requests: list[tuple[str, str]] = []
        self.lent: dict[str, float] = {}

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables with which a process finds the server."""
        return {
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": self.url,
        }

    @property
    def io_properties(self) -> dict[str, str]:
        """Catalog properties that open the server."""
        return {
            "s3.endpoint": self.url,
            "s3.access-key-id": KEY_ID,
            "s3.secret-access-key": SECRET,
            "s3.region": REGION,
        }

    def filesystem(self, **others: Any) -> Any:
        """A file system for the test's own look at the server."""
        from pyarrow.fs import S3FileSystem

        login = {"access_key": KEY_ID, "secret_key": SECRET, "region": REGION, "endpoint_override": self.url}
        return S3FileSystem(**login, **others)

    def names(self, directory: str) -> list[str]:
        """Return what is below ``bucket/directory``, each by the rest of its path."""
        from pyarrow.fs import FileSelector

        found = self.filesystem().get_file_info(FileSelector(directory, allow_not_found=True, recursive=True))
        return [info.path.removeprefix(f"{directory}/") for info in found if info.is_file]

    def read(self, path: str) -> bytes:
        """Return the content of ``bucket/path``."""
        return self.filesystem().open_input_file(path).read()

    def files(self, directory: str) -> dict[str, bytes]:
        """Return the content of everything below ``bucket/directory``, by the rest of its path."""
        return {name: self.read(f"{directory}/{name}") for name in self.names(directory)}

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _serve(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        self.requests.append((method, path))
        if not _SIGNED_BY.search(environ.get("HTTP_AUTHORIZATION", "")):
            return answer(start_response, "403 Forbidden", _DENIED)
        token = environ.get("HTTP_X_AMZ_SECURITY_TOKEN")
        if token is not None and self.lent.get(token, 0) < time.time():
            return answer(start_response, "400 Bad Request", _EXPIRED)
        if self.is_deaf_to_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if method != "PUT":
            return self._moto(environ, start_response)
        fault = self.fault(path)
        if fault == "refuse":
            return answer(start_response, "403 Forbidden", _DENIED)
        if fault != "fail":
            with self._writing:
                if fault is None:
                    return self._moto(environ, start_response)
                list(self._moto(environ, lambda *_: None))
        return answer(start_response, "500 Internal Server Error", _FAILED)


def answer(start_response: Callable[..., Any], status: str, body: bytes) -> Iterable[bytes]:
    start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3]:
    """A server with the bucket ``lake``."""
    server = S3()
    server.filesystem(allow_bucket_creation=True).create_dir("lake")
    yield server
    server.close()


@pytest.fixture
def s3(s3_server: S3, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """The server, which no environment variable names."""
    import os

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    nowhere = tmp_path_factory.getbasetemp() / "no-aws-configuration"
    monkeypatch.setenv("AWS_CONFIG_FILE", str(nowhere))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(nowhere))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    s3_server.requests.clear()
    yield s3_server
    s3_server.is_deaf_to_conditions = False
    s3_server.fault = lambda _: None
    s3_server.lent.clear()


@pytest.fixture
def s3_environment(s3: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """The server, which environment variables name."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return s3


@pytest.fixture
def place(request: pytest.FixtureRequest) -> str:
    """A prefix in the bucket that no other test has."""
    return "lake/" + re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")


@pytest.fixture
def iceberg_table(s3, place, tmp_path) -> Callable[..., IcebergTable]:
    """Makes a table with a thousand rows in its catalog."""

    def make(version: int = 2) -> IcebergTable:
        table = IcebergTable(s3, place, tmp_path / "catalog.db", version)
        table.append(0, 1000)
        return table

    return make


@pytest.fixture
def lender(s3: S3, iceberg_table: Callable[..., IcebergTable]) -> Iterator[Lending]:
    """A REST catalog of one table that tells loaders of the table how to open its files."""
    table = iceberg_table()
    with lending(table.catalog, s3, {k: v for k, v in table.properties.items() if k.startswith("s3.")}) as made:
        yield made
