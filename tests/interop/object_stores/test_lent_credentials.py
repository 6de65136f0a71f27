"""Jobs go on when the credentials that a REST catalog lent for a table end."""

from __future__ import annotations

import time
from typing import Any

import pytest

import puffin
from puffin.errors import StorageError
from puffin.load import load_table
from stats_jobs import Options, analyze
from stats_jobs.run import Runner
from tests.interop.object_stores.lending import CREDENTIALS, TABLE_ENDPOINTS, Lending
from tests.interop.object_stores.tables import distinct, expected


def named(lender: Lending) -> dict[str, object]:
    return {"catalog": "rest", "catalog_properties": lender.properties}


def test_job_outlives_the_credentials_of_its_catalog(lender, s3, spark, monkeypatch):
    """When tasks begin, all credentials that were lent have ended, so executors have to get others."""
    lender.seconds, lender.endpoints = 3.0, [*TABLE_ENDPOINTS, CREDENTIALS]
    read = Runner.read

    def read_late(runner: Runner, scans: Any) -> Any:
        time.sleep(max(0, max(s3.lent.values()) - time.time()) + 0.1)
        lender.seconds = 600
        return read(runner, scans)

    monkeypatch.setattr(Runner, "read", read_late)
    assert analyze("db.t", Options(driver_bytes=0), spark, **named(lender)).committed
    assert any(path.endswith("/credentials") for path in lender.asked)
    assert distinct(puffin.ndv("db.t", **named(lender)).columns) == expected(1000)


def test_process_reads_with_the_credentials_of_its_catalog(lender, s3, processes):
    lender.seconds = 600
    assert analyze("db.t", **named(lender)).committed
    assert processes.read
    assert distinct(puffin.ndv("db.t", **named(lender)).columns) == expected(1000)


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still; a test adds seconds to its one value."""
    now = [time.time()]
    monkeypatch.setattr("puffin.iceberg.vended.time.time", lambda: now[0])
    return now


def test_credentials_are_renewed_in_half_of_their_time(lender, s3, clock):
    lender.seconds = 600
    opened = load_table("db.t", **named(lender)).open()
    store = opened.store_for(opened.state.metadata_location)
    assert store.exists(opened.state.metadata_location)
    clock[0] += 299
    assert store.exists(opened.state.metadata_location)
    assert len(s3.lent) == 1
    clock[0] += 2
    assert store.exists(opened.state.metadata_location)
    assert store.exists(opened.state.metadata_location)
    assert len(s3.lent) == 2


def test_catalog_that_does_not_answer_is_asked_again_until_credentials_end(lender, s3, clock):
    lender.seconds = 600
    opened = load_table("db.t", **named(lender)).open()
    lender.is_down = True
    clock[0] += 301
    assert opened.store_for(opened.state.metadata_location).exists(opened.state.metadata_location)
    lender.is_down = False
    clock[0] += 200
    assert opened.store_for(opened.state.metadata_location).exists(opened.state.metadata_location)
    assert len(s3.lent) == 2
    lender.is_down = True
    clock[0] += 601
    with pytest.raises(StorageError, match=r"db\.t: catalog 'rest' did not renew the credentials"):
        opened.store_for(opened.state.metadata_location)


def test_credentials_without_a_stated_end_are_renewed_too(lender, s3, clock):
    """Fifteen minutes is the shortest time for which AWS lends them."""
    lender.seconds = 0.0  # its end is in the past, of another clock
    s3.lent["token-2"] = clock[0] + 10_000
    opened = load_table("db.t", **named(lender)).open()
    clock[0] += 7 * 60
    opened.store_for(opened.state.metadata_location)
    assert len(lender.asked) == 2
    clock[0] += 60
    opened.store_for(opened.state.metadata_location)
    assert len(lender.asked) == 4


@pytest.mark.parametrize("has_keys_of_its_own", [False, True])
def test_catalog_may_lend_credentials_for_good_or_none_after_others_that_end(lender, s3, clock, has_keys_of_its_own):
    """The token that ended is forgotten with its keys; without others, the keys of the catalog's configuration open."""
    lender.seconds = 600
    if has_keys_of_its_own:
        lender.properties |= s3.io_properties
    opened = load_table("db.t", **named(lender)).open()
    lender.seconds = None
    if has_keys_of_its_own:
        lender.keys = {}
    clock[0] += 601
    for _ in range(2):
        assert opened.store_for(opened.state.metadata_location).exists(opened.state.metadata_location)
    assert len(lender.asked) == 4
