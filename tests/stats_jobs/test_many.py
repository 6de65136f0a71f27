"""Many tables in one session: what runs at once, in which order results arrive, and how it ends."""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
import time
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from puffin.errors import PuffinError, SetupError, StorageError, TableNotFound, UsageError
from puffin.iceberg.catalogs.sql import SqlDatabase
from puffin.storage import LocalStore
from stats_jobs import Options, SparkStarter, analyze, index
from stats_jobs.many import TABLES_AT_ONCE, analyze_many, in_order, index_many
from stats_jobs.options import IndexOptions
from stats_jobs.session import SLOTS, Turn, Turns

SOON = 60  # seconds in which whatever ought to happen has happened


# --- the catalog ---------------------------------------------------------------------------------------------------


def test_tables_of_a_catalog_share_one_client(tmp_path, monkeypatch):
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": tmp_path.as_uri()}
    catalog = SqlCatalog("shop", **properties)
    catalog.create_namespace("db")
    names = [f"db.t{number}" for number in range(6)]
    for name in names:
        catalog.create_table(name, pa.schema([("k", pa.int64())])).append(pa.table({"k": [1, 2]}))
    opened = []
    open_database = SqlDatabase.of
    monkeypatch.setattr(SqlDatabase, "of", lambda *of: opened.append(of) or open_database(*of))
    found = dict(analyze_many(names, catalog="shop", catalog_properties=properties))
    assert [found[name].columns[0].distinct.ndv for name in names] == [2] * 6
    assert opened == [("shop", properties)]


# --- names --------------------------------------------------------------------------------------------------------


def test_tables_may_be_named_by_path_objects(tmp_path):
    write_deltalake(tmp_path / "t", pa.table({"k": [1, 2]}))
    ((name, report),) = analyze_many([tmp_path / "t"])
    assert (name, report.columns[0].distinct.ndv) == (str(tmp_path / "t"), 2)
    assert analyze(tmp_path / "t").current
    assert index(tmp_path / "t", IndexOptions(columns=("k",))).files_indexed == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: analyze_many("ab"),
        lambda: analyze_many(Path("ab")),
        lambda: index_many("ab"),
        lambda: Options(columns="ab"),
        lambda: Options(joint="ab"),
        lambda: Options(no_values="ab"),
        lambda: IndexOptions(columns="ab"),
        lambda: IndexOptions(drop="ab"),
    ],
)
def test_text_or_path_is_no_list(call):
    with pytest.raises(UsageError, match=r"expected a list of .*, found the (text|path) 'ab'"):
        call()


# --- the order, and what overlaps ---------------------------------------------------------------------------------


def test_results_keep_the_requested_order():
    """The last may be done first."""
    done = {name: threading.Event() for name in "abc"}

    def analyze_one(name):
        following = chr(ord(name) + 1)
        if following in done:
            assert done[following].wait(SOON)
        done[name].set()
        return name.upper()

    assert list(in_order(analyze_one, "abc", at_once=3)) == [("a", "A"), ("b", "B"), ("c", "C")]


class Told:
    """A report."""

    def __init__(self, table):
        self.table = table


def test_results_are_let_go_once_they_are_taken(monkeypatch):
    """So memory does not grow with the tables, of which only some are worked on before the first is taken."""
    monkeypatch.setattr("stats_jobs.many._AHEAD", 8)
    made = weakref.WeakSet()
    asked = []

    def analyze_one(number):
        made.add(report := Told(number))
        return report

    outcomes = in_order(analyze_one, (asked.append(number) or number for number in range(100)), at_once=2)
    for number, report in outcomes:
        assert report.table == number
        assert (len(asked) <= number + 8, len(made) <= 9) == (True, True)
    assert len(asked) == 100


def test_result_arrives_as_soon_as_its_table_is_done():
    told = threading.Event()
    outcomes = in_order(lambda name: name == "first" or told.wait(SOON), ["first", "second"])
    assert next(outcomes) == ("first", True)
    told.set()
    assert list(outcomes) == [("second", True)]


def test_allowed_number_of_tables_runs_at_once():
    """All of them meet, and no other starts."""
    meeting = threading.Barrier(3)
    lock, under_way, most = threading.Lock(), set(), 0

    def analyze_one(name):
        nonlocal most
        with lock:
            under_way.add(name)
            most = max(most, len(under_way))
        meeting.wait(SOON)
        with lock:
            under_way.remove(name)

    assert [name for name, _ in in_order(analyze_one, range(9), at_once=3)] == list(range(9))
    assert most == 3


def test_table_commits_while_others_compute(starter):
    """Even if those take every slot."""
    left, committed, all_slots_taken = threading.Event(), threading.Event(), threading.Barrier(SLOTS + 1)

    def analyze_one(name):
        if name == "commits":
            with starter.slot():
                pass
            left.set()
            all_slots_taken.wait(SOON)
            committed.set()
        else:
            assert left.wait(SOON)
            with starter.slot():
                all_slots_taken.wait(SOON)
                assert committed.wait(SOON)

    tables = ["commits", *range(SLOTS)]
    assert [name for name, _ in in_order(analyze_one, tables, at_once=SLOTS + 1)] == tables


# --- failures and interrupts --------------------------------------------------------------------------------------


def test_failing_table_stops_no_other():
    def analyze_one(name):
        if name == "bad":
            raise TableNotFound("bad: not there")
        return name

    (first, failed, last) = in_order(analyze_one, ["good", "bad", "better"], at_once=1)
    assert (first, last) == (("good", "good"), ("better", "better"))
    assert (failed[0], type(failed[1])) == ("bad", TableNotFound)


def test_internal_error_is_raised_after_all_results():
    """A program error is no table's result; the first one is raised unchanged."""

    def analyze_one(name):
        if name.startswith("bad"):
            raise BrokenPipeError(name)
        return name

    told = []
    with pytest.raises(BrokenPipeError, match="bad1"):
        told.extend(in_order(analyze_one, ["a", "bad1", "b", "bad2", "c"], at_once=1))
    assert [name for name, _ in told] == ["a", "b", "c"]


def test_closing_the_iterator_stops_the_work():
    """Waiting tables never start, running ones are cancelled repeatedly, and have ended when close returns."""
    begun, ended, cancels = [], [], []
    stop = threading.Event()

    def cancel():
        cancels.append(None)
        if len(cancels) == 2:  # the first one came too early
            stop.set()

    def analyze_one(name):
        begun.append(name)
        if name:
            assert stop.wait(SOON)
        ended.append(name)

    outcomes = in_order(analyze_one, range(50), at_once=2, cancel=cancel)
    assert next(outcomes) == (0, None)
    outcomes.close()
    assert sorted(begun) == sorted(ended)
    assert len(begun) <= 4


def test_interrupt_lets_each_table_clean_up(tmp_path):
    """No half-written file stays, and the interrupt is raised when the tables are done."""
    stop, meeting = threading.Event(), threading.Barrier(2)

    def analyze_one(name):
        with LocalStore().create(str(tmp_path / name)) as sink:
            sink.write(b"half")
            if meeting.wait(SOON) == 0:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            assert stop.wait(SOON)
            raise StorageError("the Spark job was cancelled")

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # not that of a Spark that has ended
    try:
        with pytest.raises(KeyboardInterrupt):
            list(in_order(analyze_one, ["a", "b", "c", "d"], at_once=2, cancel=stop.set))
    finally:
        signal.signal(signal.SIGINT, handler)
    assert list(tmp_path.iterdir()) == []


# --- the session that they share ----------------------------------------------------------------------------------


@pytest.fixture
def context():
    """A Spark context with what starting and grouping need; properties are per thread, as in PySpark."""
    local, cancelled = threading.local(), []
    return SimpleNamespace(
        defaultParallelism=2,
        _jsc="running",
        listFiles=[],
        addPyFile=lambda _: None,
        parallelize=lambda *_: SimpleNamespace(foreach=lambda _: None),
        getLocalProperty=lambda key: getattr(local, key, None),
        setLocalProperty=functools.partial(setattr, local),
        cancelJobGroup=cancelled.append,
        cancelled=cancelled,
    )


@pytest.fixture
def starter(context, tmp_path, monkeypatch):
    """A starter that starts nothing real, slowly; ``starts`` counts the calls."""
    starter = SparkStarter()
    starter.starts = 0

    def start(*_):
        starter.starts += 1
        time.sleep(0.1)
        return context, tmp_path / "spark.log"

    monkeypatch.setattr("stats_jobs.jvm.started_context", start)
    with starter:
        yield starter


def test_session_starts_once_whoever_needs_it_first(starter):
    """That table's report has the time; the others waited."""

    def analyze_one(_):
        with starter.slot() as turn:
            return turn

    turns = [turn for _, turn in in_order(analyze_one, range(4), at_once=4)]
    assert starter.starts == 1
    (payer,) = (turn for turn in turns if turn.session_seconds)
    assert payer.session_seconds >= 0.1 > payer.waited_seconds
    assert sum(turn.waited_seconds for turn in turns if turn is not payer) > 0.1


def test_time_of_a_run_is_without_what_passes_before_its_turns():
    lent: Any = SimpleNamespace(slot=lambda: contextlib.nullcontext(Turn(3, 5)), cluster="ours")
    turns = Turns(lent, 2)
    for _ in range(2):
        with turns.slot() as cluster:
            assert cluster == "ours"
    assert turns.spent().session_seconds == 2 + 2 * 3
    assert turns.spent().elapsed_seconds == pytest.approx(-2 * (3 + 5), abs=1)  # these turns began at once


def test_session_that_is_open_is_not_started_again(starter):
    """A catalog needs no Python workers, and those who read files start them in the same session."""
    assert starter.open() >= 0.1
    assert starter.open() == 0
    assert starter.start() > 0
    assert starter.start() == starter.open() == 0
    assert starter.starts == 1


def test_few_tables_compute_at_once(starter):
    lock, computing, most = threading.Lock(), 0, 0

    def analyze_one(_):
        nonlocal computing, most
        with starter.slot():
            with lock:
                computing += 1
                most = max(most, computing)
            time.sleep(0.02)
            with lock:
                computing -= 1

    list(in_order(analyze_one, range(8), at_once=4))
    assert most == SLOTS


def test_failing_session_start_is_tried_once(starter, monkeypatch):
    """Every table that needs it fails alike, and at once."""
    tries = []

    def fail(*_):
        tries.append(None)
        raise SetupError("Spark did not start")

    monkeypatch.setattr("stats_jobs.jvm.started_context", fail)
    outcomes = [outcome for _, outcome in in_order(lambda _: starter.start(), range(3))]
    assert [type(outcome) for outcome in outcomes] == [SetupError] * 3
    assert len(tries) == 1


def test_each_job_has_its_own_group_and_cancelling_ends_them_all(starter, context):
    """The progress of tables stays separate; no further job begins."""
    meeting = threading.Barrier(3)

    def analyze_one(_):
        with starter.slot(), starter.cluster.job(1, None):
            group = context.getLocalProperty("spark.jobGroup.id")
            meeting.wait(SOON)
            meeting.wait(SOON)
        return group, context.getLocalProperty("spark.jobGroup.id")

    def cancel_while_they_run():
        meeting.wait(SOON)
        starter.cancel()
        meeting.wait(SOON)

    canceller = threading.Thread(target=cancel_while_they_run)
    canceller.start()
    groups = [outcome for _, outcome in in_order(analyze_one, range(2))]
    canceller.join()
    assert {group for group, _ in groups} == set(context.cancelled)
    assert [after for _, after in groups] == [None, None]
    assert len(set(context.cancelled)) == 2
    with pytest.raises(StorageError, match="cancelled"), starter.cluster.job(1, None):
        pytest.fail("a job began")


def test_cancelled_starter_starts_nothing(starter):
    starter.cancel()
    with pytest.raises(StorageError, match="cancelled"), starter.slot():
        pytest.fail("got a slot")
    assert starter.starts == 0


def test_callers_job_group_is_kept(starter, context):
    """It is how a notebook cancels its cell."""
    starter.start()
    context.setLocalProperty("spark.jobGroup.id", "cell-7")
    with starter.cluster.job(1, None):
        starter.cancel()
    assert context.cancelled == ["cell-7"]
    assert context.getLocalProperty("spark.jobGroup.id") == "cell-7"


def test_reason_for_which_spark_gave_up_is_told(starter, tmp_path, monkeypatch):
    """It stands in the log; what fails after that is any call."""
    log = tmp_path / "spark.log"
    log.write_text("WARN: no\n26/11/25 ERROR Backend: Application has been killed. Reason: No master.\nERROR: more\n")
    monkeypatch.setattr(starter.cluster, "_log", log)
    starter.start()
    with pytest.raises(StorageError, match=r"the Spark job failed: No master\. "), starter.cluster.job(1, None):
        raise ConnectionError("Answer from Java side is empty")


def test_threads_share_the_callers_real_session(spark, monkeypatch):
    """Jobs run in the caller's scheduler pool, each in its own group, and end when nobody listens."""
    monkeypatch.setattr("stats_jobs.jvm._WATCHED_EVERY", 0.1)
    meeting, working = threading.Barrier(2), threading.Event()
    seen = {"a": [], "b": []}

    def property_of(name):
        return spark.sparkContext.getLocalProperty(f"spark.{name}")

    with SparkStarter(spark) as starter:

        def analyze_one(name):
            with starter.slot(), starter.cluster.job(2, lambda done, total: seen[name].append((done, total))):
                meeting.wait(SOON)
                pool, group = property_of("scheduler.pool"), property_of("jobGroup.id")
                meeting.wait(SOON)
                return starter.cluster.context.parallelize(range(8), 2).map(sleep_for(0.4)).count(), pool, group

        def work_for_minutes(name):
            if name == "quick":
                return working.wait(SOON)
            with starter.slot(), starter.cluster.job(1, None):
                working.set()
                return starter.cluster.context.parallelize([0], 1).map(sleep_for(120)).count()

        spark.sparkContext.setLocalProperty("spark.scheduler.pool", "nightly")
        try:
            outcomes = dict(in_order(analyze_one, "ab", thread_setup=starter.thread_setup(TABLES_AT_ONCE)))
        finally:
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)
        with contextlib.closing(in_order(work_for_minutes, ["quick", "slow"], cancel=starter.cancel)) as running:
            assert next(running) == ("quick", True)
            stopped = time.monotonic()
        assert time.monotonic() - stopped < SOON

    assert [outcome[:2] for outcome in outcomes.values()] == [(8, "nightly")] * 2
    assert len({group for _, _, group in outcomes.values()}) == 2
    assert [progress[-1] for progress in seen.values()] == [(2, 2)] * 2
    assert property_of("jobGroup.id") is None
    assert spark.sparkContext.parallelize([1], 1).count() == 1


# --- which tables -------------------------------------------------------------------------------------------------


def test_only_stale_takes_stale_tables(table_with, tmp_path):
    """Given as names or tables; one that cannot be judged has failed."""
    current, half = table_with("current", (1, 11), (2, 11)), table_with("half", (1, 11))
    tables = [current, str(tmp_path / "absent"), current.name]
    assert [(name, type(o)) for name, o in analyze_many(tables, only_stale=True)] == [(tables[1], TableNotFound)]
    ((name, outcome),) = analyze_many([half], Options(columns=("b",)), only_stale=True)
    assert name == half.name
    assert isinstance(outcome, PuffinError)  # it was taken, and has no data


def test_all_tables_are_taken_without_only_stale(table_with):
    """Each has a report and a progress bar, which closes before the report."""
    shown = []

    @contextlib.contextmanager
    def watch(name):
        yield None
        shown.append(name)

    tables = [table_with(name, (1, 11), (2, 11)) for name in "xyz"]
    reports = list(analyze_many(tables, watch=watch))
    assert [name for name, _ in reports] == [report.table for _, report in reports] == [t.name for t in tables]
    assert sorted(shown) == [table.name for table in tables]
    assert not any(report.committed for _, report in reports)


def sleep_for(seconds):
    """Sleep for each row, as a task."""

    def sleep(row):
        import time

        time.sleep(seconds if row == 0 else 0)
        return row

    return sleep
