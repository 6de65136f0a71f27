"""Which credentials of a REST catalog open a file, and for how long; the interop tests use a real store."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

from puffin.errors import StorageError
from puffin.iceberg import vended
from puffin.iceberg.vended import RENEWAL, LentStores, filesystems_for, lent_properties

KEY = "s3.access-key-id"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """File systems are the keys that open them."""
    monkeypatch.setattr(vended, "filesystem_for", lambda properties: lambda _: properties[KEY])


def test_file_is_opened_with_the_credentials_of_its_prefix() -> None:
    """Data may be in another bucket than metadata."""
    answer = {
        "config": {"s3.region": "here"},
        "storage-credentials": [
            {"prefix": "s3://meta/t/", "config": {KEY: "meta"}},
            {"prefix": "s3://data/", "config": {KEY: "wide"}},
            {"prefix": "s3://data/t/", "config": {KEY: "data"}},
        ],
    }
    opened_by: Any = filesystems_for(lent_properties(answer, "s3://meta/t/metadata/1.metadata.json"))
    places = (
        "s3://meta/t/metadata/2.avro",
        "s3://data/t/1.parquet",
        "s3://data/u/1.parquet",
        "s3://elsewhere/1.parquet",
    )
    assert [opened_by(place) for place in places] == ["meta", "data", "wide", "meta"]


def test_only_credentials_may_be_for_data_alone() -> None:
    answer = {"config": {KEY: "table"}, "storage-credentials": [{"prefix": "s3://data/", "config": {KEY: "data"}}]}
    opened_by: Any = filesystems_for(lent_properties(answer, "s3://meta/t/metadata/1.metadata.json"))
    assert [opened_by(place) for place in ("s3://meta/t/2.avro", "s3://data/t/1.parquet")] == ["table", "data"]


@pytest.mark.parametrize("is_guess", [True, False])
def test_credentials_end_when_the_catalog_said_so_and_not_when_we_guess(
    monkeypatch: pytest.MonkeyPatch, is_guess: bool
) -> None:
    """The store knows better than we do; the catalog is down."""

    def down(*_: object) -> None:
        raise StorageError("down")

    monkeypatch.setattr(vended, "_renewed", down)
    ended = time.time() - 1
    renewal = json.dumps({"from": ended, "ends": ended, "is-guess": is_guess})
    stores = LentStores({KEY: "old", RENEWAL: renewal})
    if is_guess:
        assert stores._filesystem("s3://data/t/1.parquet") == "old"
    else:
        with pytest.raises(StorageError, match="down"):
            stores._filesystem("s3://data/t/1.parquet")


@pytest.mark.parametrize(("is_guess", "ends", "asked_at"), [(True, 900, [0, 1050]), (False, 2000, [0, 1300])])
def test_silent_catalog_is_asked_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch, is_guess: bool, ends: int, asked_at: list[int]
) -> None:
    """Whoever opens a file waits ten minutes for its answer, so the others have to be opened without it."""
    clock, asked = [0], []

    def silent(*_: object) -> None:
        asked.append(clock[0])
        clock[0] += 600
        raise StorageError("silent")

    monkeypatch.setattr(vended, "_renewed", silent)
    monkeypatch.setattr(vended, "time", SimpleNamespace(time=lambda: clock[0]))
    stores = LentStores({KEY: "old", RENEWAL: json.dumps({"from": 0, "ends": ends, "is-guess": is_guess})})
    while clock[0] < 1955:  # the last try ended at 1900, and the next one is a minute later at least
        assert stores._filesystem("s3://data/t/1.parquet") == "old"
        clock[0] += 5
    assert asked == asked_at
