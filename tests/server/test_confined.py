"""No file outside the roots is opened, whatever a table below a root names or links to."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from puffin.errors import FileNotFound, StorageError
from puffin.server.roots import Roots
from puffin.storage import Store, store_for
from puffin.storage.local import ConfinedLocalStore

COMMIT = "00000000000000000000.json"


@pytest.fixture
def really_opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the real name of every file that is opened, with links resolved."""
    files: list[str] = []
    opens = ConfinedLocalStore._open

    def seen(self: ConfinedLocalStore, uri: str) -> Any:
        file = opens(self, uri)
        files.append(str(Path(f"/proc/self/fd/{file.fileno()}").readlink()))
        return file

    monkeypatch.setattr(ConfinedLocalStore, "_open", seen)
    return files


@pytest.fixture
def tables(tmp_path: Path, analyzed: Callable[..., Path]) -> tuple[Path, Path]:
    """A table below the root ``in`` and one outside."""
    return analyzed(tmp_path / "in" / "t", [1, 2, 3], 3), analyzed(tmp_path / "out" / "t", [1, 2, 3], 3)


def name_statistics_file(table: Path, path: str) -> None:
    """Make the metadata name another statistics file, which alone has the ndv."""
    metadata = table / "metadata" / "v1.metadata.json"
    document = json.loads(metadata.read_text())
    entry = document["statistics"][0]
    entry["statistics-path"] = path
    del entry["blob-metadata"][0]["properties"]["ndv"]
    metadata.write_text(json.dumps(document))


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}", "/../../..{}", "{}/../10.stats"])
def test_statistics_file_outside_the_roots_is_missing_with_a_reason(
    tables: tuple[Path, Path], client_of: Callable[..., Any], really_opened: list[str], form: str
) -> None:
    inside, outside = tables
    name_statistics_file(inside, form.format(outside / "metadata" / "10.stats"))
    client = client_of(inside.parent)
    (column,) = client.stats(inside).json()["columns"]
    assert (column["source"], column["ndv"]) == ("missing", None)
    assert "outside" in column["reason"]
    assert all(file.startswith(str(inside)) for file in really_opened)


def test_statistics_file_inside_is_read_by_any_path(tables: tuple[Path, Path], client_of: Callable[..., Any]) -> None:
    """Through ``..`` and through a link that stays inside."""
    inside, _ = tables
    (inside.parent / "link").symlink_to(inside)
    name_statistics_file(inside, f"{inside.parent}/x/../link/metadata/10.stats")
    (inside.parent / "x").mkdir()
    assert client_of(inside.parent).stats(inside).json()["columns"][0]["ndv"] == 3


def test_statistics_file_that_links_outside_is_not_read(
    tables: tuple[Path, Path], client_of: Callable[..., Any], really_opened: list[str]
) -> None:
    """Not by a lookup, a join or a dump; the other side of the join is read."""
    inside, outside = tables
    other = inside.parent / "other"
    shutil.copytree(inside, other)
    file = inside / "metadata" / "10.stats"
    file.unlink()
    file.symlink_to(outside / "metadata" / "10.stats")
    name_statistics_file(inside, str(file))
    client = client_of(inside.parent)
    side, right = ({"table": str(table), "column": "a"} for table in (inside, other))
    assert client.post("/v1/estimate/join", json={"left": side, "right": right}).status_code == 404
    assert client.get("/v1/dump", params={"table": str(inside)}).status_code == 404
    assert client.stats(inside).json()["columns"][0]["source"] == "missing"
    assert all(each.startswith(str(inside.parent)) for each in really_opened)


@pytest.mark.parametrize("name", ["v1.metadata.json", "version-hint.text"])
@pytest.mark.parametrize("asked", ["table", "file"])
def test_metadata_that_links_outside_is_not_read(
    tables: tuple[Path, Path], client_of: Callable[..., Any], really_opened: list[str], name: str, asked: str
) -> None:
    inside, outside = tables
    file = inside / "metadata" / name
    file.unlink()
    file.symlink_to(outside / "metadata" / name)
    status = client_of(inside.parent).stats(inside if asked == "table" else file).status_code
    # Without its hint the table is found by a listing.
    assert status == {"table": 404 if name != "version-hint.text" else 200, "file": 403}[asked]
    assert all(each.startswith(str(inside)) for each in really_opened)


@pytest.mark.parametrize("hint", ["../../../out/t/metadata/v1", "/out/t/metadata/00001-x.metadata.json", "1-/../../x"])
def test_version_hint_cannot_name_a_file_elsewhere(
    tables: tuple[Path, Path], client_of: Callable[..., Any], really_opened: list[str], hint: str
) -> None:
    inside, _ = tables
    (inside / "metadata" / "version-hint.text").write_text(hint)
    assert client_of(inside.parent).stats(inside).status_code == 200
    assert all(each.startswith(str(inside)) for each in really_opened)


def test_delta_log_entry_that_links_outside_is_not_read(
    tmp_path: Path, client_of: Callable[..., Any], really_opened: list[str]
) -> None:
    """The rest of the log is the table's own."""
    log, secret = tmp_path / "in" / "t" / "_delta_log", tmp_path / "out" / COMMIT
    for directory in (log, secret.parent):
        directory.mkdir(parents=True)
    secret.write_text('{"secret": 1}')
    (log / COMMIT).symlink_to(secret)
    assert client_of(tmp_path / "in").stats(log.parent).status_code == 404
    assert really_opened == []


def test_statistics_uri_of_another_host_makes_no_connection(
    tables: tuple[Path, Path], client_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a file system opened that could connect."""
    inside, _ = tables
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        name_statistics_file(inside, f"http://127.0.0.1:{listener.getsockname()[1]}/10.stats")
        (column,) = client_of(inside.parent).stats(inside).json()["columns"]
        assert "outside" in column["reason"]
        with pytest.raises(TimeoutError):
            listener.accept()


def confined(directory: Path) -> Store:
    return store_for(str(directory), confine=Roots([str(directory)]).confine)


def test_link_created_after_the_check_is_not_followed(tmp_path: Path) -> None:
    """The resolved path is opened name by name, so a fast writer below the root gains nothing."""
    (tmp_path / "in" / "d").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    for directory in ("in/d", "out"):
        (tmp_path / directory / "f").write_text(directory)

    def resolve_and_be_overtaken(uri: str) -> str:
        resolved = os.path.realpath(uri)
        if (tmp_path / "in" / "d").is_symlink() or not uri.endswith("/f"):
            return resolved
        (tmp_path / "in" / "d").rename(tmp_path / "in" / "moved")
        (tmp_path / "in" / "d").symlink_to(tmp_path / "out")
        return resolved

    store = store_for(str(tmp_path / "in"), confine=resolve_and_be_overtaken)
    with pytest.raises(StorageError):
        store.read(str(tmp_path / "in" / "d" / "f"))


def test_confined_store_refuses_every_operation_outside(tmp_path: Path) -> None:
    """Reading, listing, stat and writing; inside all of them work."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").write_text("secret")
    store, inside, outside = confined(tmp_path / "in"), str(tmp_path / "in" / "f"), str(tmp_path / "in" / ".." / "out")
    store.put_if_absent(inside, b"x")
    assert store.read(inside) == store.open_input(inside).read() == b"x"
    assert (store.info(inside).uri, store.exists(inside)) == (inside, True)
    ways: list[Callable[[str], Any]] = [store.read, store.open_input, store.info, store.exists, store.list]
    ways += [store.directories, store.delete, lambda uri: store.replace(uri, b"")]
    for way in ways:
        with pytest.raises(FileNotFound, match="outside"):
            way(outside)
    assert (tmp_path / "out").read_text() == "secret"


def test_store_of_uris_is_confined_too(tmp_path: Path) -> None:
    """fsspec's memory file system stands for stores that the operating system does not know."""
    roots = Roots(["memory://in/"])
    store = store_for("memory://in/f", confine=roots.confine)
    store.replace("memory://in/f", b"x")
    assert store.read("memory://in/f") == b"x"
    for outside in ("memory://out/f", "memory://in/../out/f", "s3://in/f", str(tmp_path)):
        with pytest.raises(FileNotFound):
            store.read(outside)
        with pytest.raises(FileNotFound):
            store_for(outside, confine=roots.confine)
