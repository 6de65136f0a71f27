"""A server in this process, a server in its own process, and the tables that they serve."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin.format import THETA_V1, Blob, PuffinWriter
from puffin.server.app import create_app
from puffin.server.hosts import Hosts
from puffin.server.settings import Limits, Settings
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.storage.local import LocalStore
from tests.server.iceberg_face import Face
from tests.table_directory import publish
from tools.serving import Server

TTL = 0.2
PATIENCE = 60  # seconds, after which what has not come never will


class Client:
    """Calls an application without a network; every call returns when it is complete."""

    def __init__(self, settings: Settings, hosts: Hosts | None) -> None:
        self._loop = asyncio.new_event_loop()
        transport = httpx.ASGITransport(app=create_app(settings, hosts), raise_app_exceptions=True)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://server")

    def get(self, path: str, **arguments: Any) -> httpx.Response:
        return self.run(self.http.get(path, **arguments))

    def post(self, path: str, **arguments: Any) -> httpx.Response:
        return self.run(self.http.post(path, **arguments))

    def stats(self, table: object, **parameters: Any) -> httpx.Response:
        return self.get("/v1/stats", params={"table": str(table), **parameters})

    def run(self, asked: Any) -> Any:
        return self._loop.run_until_complete(asked)

    def together(self, *asked: Any) -> list[Any]:
        async def all_of() -> list[Any]:
            return await asyncio.gather(*asked)

        return self._loop.run_until_complete(all_of())

    def close(self) -> None:
        self.run(self.http.aclose())
        self._loop.close()


def made_clients() -> Iterator[Callable[..., Client]]:
    """Makes a client of a server with these settings."""
    clients = []

    def make(*roots: object, hosts: Hosts | None = None, **settings: Any) -> Client:
        settings = {"ttl_seconds": TTL, "limits": Limits(request_seconds=PATIENCE), **settings}
        client = Client(Settings(roots=[str(root) for root in roots], **settings), hosts)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


client_of = pytest.fixture(made_clients, name="client_of")
lasting_client_of = pytest.fixture(made_clients, name="lasting_client_of", scope="module")


@pytest.fixture
def face_of(client_of: Callable[..., Client]) -> Callable[..., Face]:
    """Makes a caller of the REST face of a server with these settings."""
    return lambda *roots, **settings: Face(client_of(*roots, iceberg=True, **settings))


@pytest.fixture
def write_table(table_document: Callable[..., dict[str, Any]]) -> Callable[..., Path]:
    """
    Writes a table of metadata alone, or its next version.

    Every snapshot of ``ndv`` has statistics with that NDV for every column, but no file. ``properties`` override those
    of the blobs; an ``ndv`` of None leaves it out.
    """

    def make(
        directory: Path,
        *,
        snapshots: Sequence[int] = (10,),
        ndv: Mapping[int, int] | None = None,
        properties: Mapping[str, str | None] | None = None,
        **others: Any,
    ) -> Path:
        columns = others.get("columns", ("a", "b", "c"))
        entries = [
            {
                "snapshot-id": snapshot_id,
                "statistics-path": f"{directory}/metadata/{snapshot_id}-{count}.stats",
                "file-size-in-bytes": 100,
                "file-footer-size-in-bytes": 50,
                "blob-metadata": [
                    {
                        "type": THETA_V1,
                        "snapshot-id": snapshot_id,
                        "sequence-number": 1,
                        "fields": [field],
                        "properties": {
                            key: value
                            for key, value in {"ndv": str(count), **(properties or {})}.items()
                            if value is not None
                        },
                    }
                    for field in range(1, len(columns) + 1)
                ],
            }
            for snapshot_id, count in (ndv if ndv is not None else {snapshots[-1]: 7}).items()
        ]
        publish(directory, table_document(directory, snapshots=snapshots, statistics=entries, **others))
        return directory

    return make


class Hanging:
    """Storage that hangs below some directories."""

    def __init__(self) -> None:
        self._directories: list[str] = []
        self._is_over = threading.Event()

    def __call__(self, directory: Path) -> None:
        """Make every read of a file below this directory hang from now on."""
        self._directories.append(str(directory))

    def wait_for(self, uri: str) -> None:
        """Runs before each read of a file."""
        if any(uri.startswith(directory) for directory in self._directories):
            self._is_over.wait()

    def end(self) -> None:
        """Let every hanging read continue."""
        self._is_over.set()


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    """Makes storage hang below the given directories until it is ended or the test is over."""
    hanging, opened = Hanging(), LocalStore.open_source

    def open_source(self: LocalStore, uri: str) -> Any:
        hanging.wait_for(uri)
        return opened(self, uri)

    monkeypatch.setattr(LocalStore, "open_source", open_source)
    yield hanging
    hanging.end()


class Process(Server):
    """``puffin serve`` of the tables below ``root``."""

    def __init__(self, root: Path, *arguments: object) -> None:
        super().__init__("--allow-root", root, *arguments)
        self.root = root

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code; TimeoutExpired if it hangs, however busy the machine is."""
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        return self.process.wait(PATIENCE)

    def resident_kib(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1])

    def threads_and_files(self) -> tuple[int, int]:
        of_process = Path(f"/proc/{self.process.pid}")
        return len(list((of_process / "task").iterdir())), len(list((of_process / "fd").iterdir()))


@pytest.fixture
def process_of() -> Iterator[Callable[..., Process]]:
    """Starts ``puffin serve`` with this root and these arguments, and ends it after the test."""
    processes = []

    def start(root: Path, *arguments: object) -> Process:
        processes.append(Process(root, *arguments))
        return processes[-1]

    yield start
    for process in processes:
        process.end()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One process for all tests that do not change it."""
    process = Process(tmp_path_factory.mktemp("shared"))
    yield process
    process.end()


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Another process, which demands the token ``abc`` and has the REST face."""
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text("abc\n")
    process = Process(tmp_path_factory.mktemp("guarded"), "--token-file", str(token), "--iceberg")
    yield process
    process.end()


@pytest.fixture
def analyzed(table_document: Callable[..., dict[str, Any]]) -> Callable[..., Path]:
    """Writes a table of one column ``a`` with a real statistics file: the sketch of these values."""

    def make(directory: Path, values: Sequence[int], row_count: int) -> Path:
        sketch = ThetaSketch.from_arrow(pa.array(values, pa.int64()), "long")
        summary = json.dumps([row_count, 0, None, 8 * row_count, min(values), max(values)])
        told = {"ndv": str(sketch.ndv), "puffin-sidecar.type": "long", "puffin-sidecar.summary": summary}
        told |= {"puffin-sidecar.bounds": f"{sketch.ndv},{sketch.ndv}", "puffin-sidecar.reading": "1"}
        blob = Blob(
            type=THETA_V1,
            fields=(1,),
            snapshot_id=10,
            sequence_number=1,
            payload=sketch.to_bytes(),
            properties=told,
        )
        metadata = directory / "metadata"
        metadata.mkdir(parents=True)
        file = metadata / "10.stats"
        with file.open("wb") as sink, PuffinWriter(sink, properties={"created-by": "puffin-sidecar test"}) as writer:
            writer.add(blob)
            written = writer.finish()
        entry = {
            "snapshot-id": 10,
            "statistics-path": str(file),
            "file-size-in-bytes": written.file_size,
            "file-footer-size-in-bytes": written.footer_size,
            "blob-metadata": [
                {"type": THETA_V1, "snapshot-id": 10, "sequence-number": 1, "fields": [1], "properties": told}
            ],
        }
        publish(directory, table_document(directory, columns=("a",), statistics=[entry]))
        return directory

    return make


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    """The metadata file of an Iceberg table whose first snapshot has a tag."""
    catalog = SqlCatalog("t", uri="sqlite://", warehouse=tmp_path.as_uri())
    catalog.create_namespace("n")
    rows = pa.table({"a": pa.array([1, 2], pa.int64())})
    made = catalog.create_table("n.t", rows.schema)
    made.append(rows)
    made.manage_snapshots().create_tag(made.current_snapshot().snapshot_id, "old").commit()
    made.append(rows)
    return Path(made.metadata_location.removeprefix("file://"))
