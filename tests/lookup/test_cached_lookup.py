"""A cached lookup: what it reads, how long its answers are valid, and how it serves many threads."""

from __future__ import annotations

import gc
import shutil
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import puffin
from puffin.errors import ColumnNotFound, FileNotFound, StorageError, TableNotFound, UsageError
from puffin.iceberg.catalogs.directory import IcebergDirectory
from puffin.iceberg.table import IcebergSnapshot
from puffin.load import Tables
from puffin.lookup import Lookup, Question
from puffin.storage import LocalStore
from puffin.storage.uri import local_name

COLD = ["version-hint.text", "v1.metadata.json"]


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lookup(clock):
    """A lookup whose answers are valid for ten seconds."""
    return Lookup(ttl_seconds=10, clock=clock)


def counts(lookup):
    made = lookup.counts
    return made.hits, made.misses, made.revalidations, made.metadata_reads


# --- what is read -------------------------------------------------------------------------------------------------


def test_cold_lookup_reads_the_hint_and_the_metadata(lookup, directory, entry_of, opened):
    assert lookup.ndv(str(directory("t", entry_of(10, {1: 3}))), ["a"]).columns[0].ndv == 3
    assert opened.names == COLD


def test_sketch_without_an_ndv_costs_one_more_read(lookup, directory, sketched, opened):
    assert lookup.ndv(str(directory("t", sketched(10, {1: 3, 2: 4})))).columns[1].ndv == 4
    assert opened.names == [*COLD, "10.stats"]


def test_repeated_question_gets_the_same_object_without_reading(lookup, directory, entry_of, opened):
    table = str(directory("t", entry_of(10, {1: 3})))
    first = lookup.ndv(table, ["a"])
    opened.clear()
    assert lookup.ndv(table, ("a",)) is first
    assert lookup.ndv(table, ["a", "b"]).columns[0] == first.columns[0]
    assert opened == []
    assert counts(lookup) == (1, 2, 0, 1)


@pytest.mark.parametrize(
    "question",
    [
        {"columns": ["b"]},
        {"snapshot_id": 10},
        {"ref": "main"},
        {"as_of_ms": 1500},
        {"max_staleness": 0},
        {"columns": ["a", "b"], "max_staleness": 1},
    ],
)
def test_every_argument_is_part_of_the_cache_key(lookup, directory, entry_of, question):
    table = str(directory("t", entry_of(10, {1: 3, 2: 4}), entry_of(20, {1: 5}), snapshots=(10, 20, 30)))
    lookup.ndv(table, ["a"])
    arguments = {"columns": ["a"], **question}
    assert lookup.ndv(table, **arguments) == puffin.ndv(table, **arguments)
    assert lookup.ndv(table, **arguments) is lookup.ndv(table, **arguments)


def test_other_names_of_a_snapshot_share_its_metadata(lookup, directory, entry_of, opened):
    table = str(directory("t", entry_of(10, {1: 3}), snapshots=(10, 20)))
    lookup.ndv(table)
    lookup.ndv(table, snapshot_id=10)
    assert opened.names.count("v1.metadata.json") == 1


# --- how long it counts -------------------------------------------------------------------------------------------


def test_answer_expires_after_its_time_to_live(lookup, clock, directory, entry_of):
    table = directory("t", entry_of(10, {1: 3}))
    assert lookup.ndv(str(table), ["a"]).columns[0].ndv == 3
    table.commit(entry_of(10, {1: 4}))
    clock.now += 9.99
    assert lookup.ndv(str(table), ["a"]).columns[0].ndv == 3
    clock.now += 0.01
    assert lookup.ndv(str(table), ["a"]).columns[0].ndv == 4


def test_answer_stays_valid_while_nothing_is_committed(lookup, clock, directory, entry_of, opened):
    table = str(directory("t", entry_of(10, {1: 3})))
    first = lookup.ndv(table, ["a"])
    opened.clear()
    for _ in range(3):
        clock.now += 10
        assert lookup.ndv(table, ["a"]) is first
    assert opened.names == ["version-hint.text"] * 3
    assert counts(lookup) == (0, 1, 3, 1)


def test_zero_time_to_live_asks_the_table_each_time(directory, entry_of):
    lookup, table = Lookup(ttl_seconds=0), directory("t", entry_of(10, {1: 3}))
    for ndv in (3, 4, 5):
        assert lookup.ndv(str(table), ["a"]).columns[0].ndv == ndv
        table.commit(entry_of(10, {1: ndv + 1}))


def test_recreated_table_is_noticed(lookup, clock, directory, entry_of):
    """Its version has the same name."""
    table = directory("t", entry_of(10, {1: 3}))
    assert lookup.ndv(str(table), ["a"]).columns[0].ndv == 3
    shutil.rmtree(table.root)
    directory("t", entry_of(10, {1: 77}))
    clock.now += 10
    assert lookup.ndv(str(table), ["a"]).columns[0].ndv == 77


@pytest.mark.parametrize("is_known", [False, True])
def test_check_under_way_does_not_count_for_who_asks_after_a_commit(lookup, clock, directory, monkeypatch, is_known):
    """The answer of the check was made before the commit, and arrives after the caller has."""
    table = directory("t")
    name = str(table.root)
    if is_known:
        lookup.opened(name)
        clock.now += 10
    opened = []

    def commit_meanwhile(method):
        def checked(*arguments):
            found = method(*arguments)
            if not opened:
                table.commit(snapshots=(10, 20))
                clock.now += 1
                caller = threading.Thread(target=lambda: opened.append(lookup.opened(name, checked=True).snapshot_id))
                opened.append(caller)
                caller.start()
                caller.join(0.1)  # it waits for this check
            return found

        return checked

    monkeypatch.setattr(IcebergSnapshot, "refreshed", commit_meanwhile(IcebergSnapshot.refreshed))
    monkeypatch.setattr(IcebergDirectory, "open", commit_meanwhile(IcebergDirectory.open))
    assert lookup.opened(name).snapshot_id == 10
    caller, *_ = opened
    caller.join()
    assert opened[1:] == [20]


# --- errors -------------------------------------------------------------------------------------------------------


def test_errors_are_not_cached(lookup, directory, entry_of, tmp_path):
    with pytest.raises(TableNotFound):
        lookup.ndv(str(tmp_path / "t"))
    assert len(lookup) == 0
    table = str(directory("t", entry_of(10, {1: 3})))
    with pytest.raises(ColumnNotFound):
        lookup.ndv(table, ["absent"])
    assert lookup.ndv(table, ["a"]).columns[0].ndv == 3


def test_errors_do_not_keep_each_other_alive(lookup, directory, entry_of):
    """Their tracebacks hold no frames either: of any number in a row, only the last survives."""
    table = directory("t", entry_of(10, {1: 5}))
    errors = []
    for _ in range(10):
        with pytest.raises(ColumnNotFound) as raised:
            lookup.ndv(str(table), ["nope"])
        errors.append(weakref.ref(raised.value))
        del raised
    gc.collect()
    assert [error() is not None for error in errors] == [False] * 9 + [True]


def test_dropped_table_disappears_after_its_time_to_live(lookup, clock, directory, entry_of):
    table = directory("t", entry_of(10, {1: 3}))
    lookup.ndv(str(table))
    shutil.rmtree(table.root)
    clock.now += 10
    with pytest.raises(TableNotFound):
        lookup.ndv(str(table))
    assert len(lookup) == 0


@pytest.mark.parametrize(
    "ask",
    [
        lambda lookup, table, other: lookup.estimate_join(table, "a", other, "a").left.ndv,
        lambda lookup, table, other: lookup.estimate_join(other, "a", table, "a").right.ndv,
        lambda lookup, table, other: lookup.union_ndv([(other, "a"), (table, "a")]).distinct.ndv,
    ],
    ids=["left", "right", "union"],
)
def test_statistics_replaced_within_the_time_to_live_are_found(lookup, directory, sketched, ask):
    """If a file is gone, the lookup reloads the table at once."""
    table, other = directory("t", sketched(10, {1: 3})), str(directory("u", sketched(11, {1: 2}), snapshots=(11,)))
    lookup.ndv(str(table))
    entry = sketched(20, {1: 9})
    Path(local_name(lookup.ndv(str(table), ["a"]).columns[0].statistics_path)).unlink()
    with pytest.raises(FileNotFound):
        ask(lookup, str(table), other)
    table.commit(entry, snapshots=(10, 20))
    assert ask(lookup, str(table), other) == 9
    assert lookup.ndv(str(table), ["a"]).columns[0].ndv == 9


def test_join_with_a_table_that_hangs_keeps_nobody_from_the_other_table(lookup, directory, sketched, monkeypatch):
    table = str(directory("t", sketched(10, {1: 3, 2: 4})))
    other = str(directory("u", sketched(11, {1: 2}), snapshots=(11,)))
    lookup.opened(table)
    lookup.opened(other)
    asked, answers, open_source = threading.Event(), threading.Event(), LocalStore.open_source

    def hanging(store, uri):
        if uri.endswith("/11.stats"):
            asked.set()
            answers.wait(60)
        return open_source(store, uri)

    monkeypatch.setattr(LocalStore, "open_source", hanging)
    with ThreadPoolExecutor(2) as pool:
        join = pool.submit(lookup.estimate_join, table, "a", other, "a")
        try:
            assert asked.wait(60)
            assert pool.submit(lookup.ndv, table, ["b"]).result(60).columns[0].ndv == 4
            assert not join.done()
        finally:
            answers.set()
        assert join.result(60).right.ndv == 2


def test_expired_answer_is_not_given_when_storage_fails(lookup, clock, directory, entry_of, monkeypatch):
    table = str(directory("t", entry_of(10, {1: 3})))
    first = lookup.ndv(table)

    def failing(*_: object) -> None:
        raise StorageError("down")

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "open_source", failing)
        assert lookup.ndv(table) is first
        clock.now += 10
        with pytest.raises(StorageError):
            lookup.ndv(table)
    assert lookup.ndv(table) is first


@pytest.mark.parametrize("older", [True, False])
def test_failed_storage_reads_are_retried_by_the_next_question(
    lookup, directory, entry_of, sketched, monkeypatch, older
):
    """Until then an older entry answers, or none, and that answer is not cached."""
    entries = [sketched(20, {1: 5}), *([entry_of(10, {1: 3})] if older else [])]
    table, open_source = str(directory("t", *entries, snapshots=(10, 20))), LocalStore.open_source

    def failing(store, uri):
        if uri.endswith(".stats"):
            raise StorageError(f"{uri}: down")
        return open_source(store, uri)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "open_source", failing)
        (column,) = lookup.ndv(table, ["a"]).columns
        assert (column.ndv, column.reason is None) == ((3, True) if older else (None, False))
    assert lookup.ndv(table, ["a"]).columns[0].ndv == 5


@pytest.mark.parametrize("arguments", [{"ttl_seconds": -1}, {"ttl_seconds": float("nan")}, {"max_tables": 0}])
def test_numbers_out_of_range_are_refused(arguments):
    with pytest.raises(UsageError):
        Lookup(**arguments)


def test_ambiguous_questions_are_refused(lookup, directory, entry_of):
    """One string as several columns, even if columns of its letters are cached; a snapshot named in two ways."""
    table = str(directory("t", entry_of(10, {1: 3, 2: 4})))
    lookup.ndv(table, ["a", "b"])
    for _ in range(2):
        with pytest.raises(UsageError, match="found the text 'ab'"):
            lookup.ndv(table, "ab")
        with pytest.raises(UsageError, match="found several"):
            lookup.ndv(table, ["a"], snapshot_id=10, ref="main")


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ({"snapshot_id": "10"}, "snapshot_id: expected an integer, found '10'"),
        ({"as_of_ms": 10.5}, "as_of_ms: expected milliseconds since the epoch, found 10.5"),
        ({"ref": 10}, "ref: expected a name, found 10"),
    ],
)
def test_snapshot_of_another_type_is_refused(lookup, directory, entry_of, selector, message):
    table = str(directory("t", entry_of(10, {1: 3})))
    with pytest.raises(UsageError, match=f"^{message}$"):
        lookup.ndv(table, ["a"], **selector)


# --- bounds -------------------------------------------------------------------------------------------------------


def test_table_may_be_named_by_a_path_object(lookup, directory, entry_of, tmp_path):
    """In one call and in a cache, where it is the table of that text."""
    path = Path(str(directory("t", entry_of(10, {1: 3}))))
    found = lookup.ndv(str(path), ["a"])
    assert lookup.ndv(path, ["a"]) is found
    assert lookup.opened(path) is lookup.opened(str(path))
    assert lookup.history(path, "a").table == lookup.analyzed(path).table == str(path)
    assert [each.table for each in lookup.tables(roots=[path])] == [str(path)]
    assert len(lookup) == 1
    assert puffin.load_table(path).name == str(path)
    write_deltalake(tmp_path / "rows", pa.table({"k": [1, 2]}))
    for ask in (puffin.ndv, puffin.plan, puffin.estimate, lookup.plan, lookup.estimate):
        assert ask(tmp_path / "rows").table == str(tmp_path / "rows")


@pytest.mark.parametrize(
    "ask",
    [
        lambda table: puffin.estimate(table, "a = 1", "b"),
        lambda table: puffin.ndv(table, partitions="b"),
        lambda table: Lookup().ndv(table, partitions="b"),
        lambda _: Lookup().union_ndv(("b", "a")),
        lambda _: Lookup().union_ndv("b"),
    ],
    ids=["group-by", "partitions", "cached", "pair", "pairs"],
)
def test_text_is_no_list(directory, entry_of, ask):
    with pytest.raises(UsageError, match=r"expected a list of .*, found the text 'b'"):
        ask(str(directory("t", entry_of(10, {1: 3}))))
    for given in ({"roots": "b"}, {"namespaces": "b"}):
        with pytest.raises(UsageError, match=r"expected a list of .*, found the text 'b'"):
            Lookup(catalog="c", locations=True).table_names(**given)


@pytest.mark.parametrize("given", [-1, 1.5, float("nan"), "1"])
def test_counts_are_integers_from_zero(lookup, given):
    for name, ask in (
        ("max_staleness", lambda: lookup.ndv("t", max_staleness=given)),
        ("max_staleness", lambda: puffin.ndv("t", max_staleness=given)),
        ("limit", lambda: lookup.tables(limit=given)),
    ):
        with pytest.raises(UsageError, match=f"{name}: expected an integer from 0, found {given!r}"):
            ask()


@pytest.mark.parametrize("pair", [("t",), ("t", "a", "b"), 5])
def test_pair_of_another_length_is_no_column(lookup, pair):
    with pytest.raises(UsageError, match="expected a table and a column, found"):
        lookup.union_ndv([pair])


def test_questions_are_equal_however_columns_are_given(lookup, directory, entry_of):
    """As a list or a tuple; a string is refused even after a question about columns named like its letters."""
    table = str(directory("t", entry_of(10, {1: 3})))
    found = lookup.ndv(table, ["a", "b"])
    assert lookup.at_hand(Question(table, ["a", "b"])).answer is found
    assert lookup.at_hand(Question(table, ("a", "b"))).answer is found
    with pytest.raises(UsageError, match="found the text 'ab'"):
        Question(table, "ab")


def test_least_recently_used_table_is_evicted(clock, directory, entry_of):
    lookup = Lookup(max_tables=2, clock=clock)
    one, two, three = (str(directory(name, entry_of(10, {1: 3}))) for name in ("one", "two", "three"))
    for table in (one, two, one, three):
        clock.now += 1
        lookup.ndv(table)
    assert (len(lookup), lookup.counts.evictions) == (2, 1)
    lookup.ndv(one)
    assert lookup.counts.metadata_reads == 3
    lookup.ndv(two)
    assert lookup.counts.metadata_reads == 4


def test_cached_answers_and_views_of_a_table_are_bounded(lookup, directory, entry_of):
    table = str(directory("t", entry_of(10, {1: 3})))
    for number in range(1000):
        lookup.ndv(table, ["a"], max_staleness=number)
        lookup.ndv(table, ["a"], as_of_ms=1000 + number)
    views = lookup._cache._tables[table].views
    assert len(views) <= 8
    assert all(len(view.questions) <= 256 for view in views.values())
    assert len(lookup._cache.answers) == sum(len(view.questions) for view in views.values())


def test_unneeded_history_is_not_kept(lookup, directory, entry_of):
    table = str(directory("t", entry_of(10, {1: 3}), snapshots=tuple(range(10, 200))))
    lookup.ndv(table)
    (view,) = lookup._cache._tables[table].views.values()
    assert not {"snapshots", "snapshot-log", "statistics"} & view.opened.state.document.keys()


# --- threads ------------------------------------------------------------------------------------------------------


def clock_of(count):
    """A clock at which this many threads, besides the main one, wait for each other on their first look."""
    arrived, known = threading.Barrier(count), threading.local()

    def clock():
        now = time.monotonic()
        if threading.current_thread() is not threading.main_thread() and not hasattr(known, "has_looked"):
            known.has_looked = True
            arrived.wait()
        return now

    return clock


def test_concurrent_questions_wait_for_one_load(directory, entry_of, opened):
    """The table is opened once, and all get the same answer."""
    table, lookup = str(directory("t", entry_of(10, {1: 3}))), Lookup(clock=clock_of(8))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: lookup.ndv(table, ["a"]), range(8)))
    assert {id(answer) for answer in answers} == {id(answers[0])}
    assert opened.names == COLD


def test_threads_waiting_for_a_failing_load_share_its_error(tmp_path, monkeypatch):
    tries = []

    def failing(tables, name):
        tries.append(name)
        time.sleep(0.5)  # until the other threads wait
        raise StorageError("down")

    def ask(_):
        with pytest.raises(StorageError):
            lookup.ndv(str(tmp_path))

    monkeypatch.setattr(Tables, "load", failing)
    lookup = Lookup(clock=clock_of(8))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    assert len(tries) == 1
    with pytest.raises(StorageError):
        lookup.ndv(str(tmp_path))
    assert len(tries) == 2


def test_slow_table_does_not_delay_another(directory, entry_of, monkeypatch):
    slow, fast = str(directory("slow", entry_of(10, {1: 3}))), str(directory("fast", entry_of(10, {1: 4})))
    loading, go_on, load = threading.Event(), threading.Event(), Tables.load

    def held_up(tables, name):
        if name == slow:
            loading.set()
            assert go_on.wait(60)
        return load(tables, name)

    monkeypatch.setattr(Tables, "load", held_up)
    lookup = Lookup()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lookup.ndv, slow, ["a"])
        assert loading.wait(60)
        assert lookup.ndv(fast, ["a"]).columns[0].ndv == 4
        go_on.set()
        assert waiting.result().columns[0].ndv == 3


def test_no_answer_outlives_its_time_to_live_under_concurrent_commits(directory, entry_of):
    """Threads use one lookup with room for half the tables; each version records when it was written."""
    ttl, lookup = 0.05, Lookup(ttl_seconds=0.05, max_tables=3)
    began = time.monotonic()
    tables = [directory(f"t{number}", entry_of(10, {1: 0})) for number in range(6)]
    written = [{0: (began, float("inf"))} for _ in tables]  # when a version came, and when the next one did
    done, errors, answered = threading.Event(), [], [0] * 4

    def analyze() -> None:
        for version in range(1, 30):
            for table, times in zip(tables, written, strict=True):
                table.commit(entry_of(10, {1: version}))
                now = time.monotonic()
                times[version - 1] = times[version - 1][0], now
                times[version] = now, float("inf")
                time.sleep(0.002)
        done.set()

    def ask(number: int) -> None:
        while not done.is_set():
            index = (number + answered[number]) % len(tables)
            asked = time.monotonic()
            version = lookup.ndv(str(tables[index]), ["a"]).columns[0].ndv
            answered[number] += 1
            _, superseded = written[index].get(version, (asked, float("inf")))  # so new that it is not noted yet
            if asked - superseded > ttl:
                errors.append(f"version {version}, superseded {asked - superseded:.3f} s before it was asked for")
            assert len(lookup) <= 3

    with ThreadPoolExecutor(5) as pool:
        running = [pool.submit(ask, number) for number in range(4)]
        pool.submit(analyze).result()
        for each in running:
            each.result()
    assert errors == []
    assert min(answered) > 10
