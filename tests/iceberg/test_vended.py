"""Which credentials of a REST catalog open a file, and for how long; the interop tests use a real store."""

from __future__ import annotations

import json
import time
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
