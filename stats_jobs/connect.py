"""
Spark behind a Spark Connect server: data frames, and nothing of Java in this process.

Documents are rows, one for each task, and `mapInArrow` runs our code on them, which travels as an artifact. Partial
results are merged as `stats_jobs.merge` does it: tasks cut them into pieces by groups of columns, a shuffle sorts the
pieces, and what arrives is merged one after the other. A piece is cut into rows that fit into every message.

There are no accumulators. A task whose file cannot be read raises an error that carries ours in its message, so that
Spark gives up after a few attempts at that task, and not when all files are read.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from puffin.errors import SetupError, StorageError, UsageError
from stats_jobs import connect_tasks
from stats_jobs.cluster import Cluster, Progress, ResultT, SharedT, zipped_packages
from stats_jobs.connect_client import client_class, client_errors, few_attempts, frame_in_one_message, telling_line
from stats_jobs.connect_tasks import DOCUMENTS, KEY, PIECES
from stats_jobs.merge import Gathered, Groups
from stats_jobs.partial import Partial
from stats_jobs.shipment import Document, Shipment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEME = "sc://"
_UNKNOWN_SETTING = "[SQL_CONF_NOT_FOUND]"  # what the client asks an older server for


class ConnectCluster(Cluster):
    """
    Spark over Spark Connect.

    Args:
        session: The caller's session, which is left running; by default `open` makes one.
        remote: The URL of the server.
        conf: Settings of the session.

    Raises UsageError if the URL is not one of Spark Connect.
    """

    def __init__(
        self, session: SparkSession | None = None, *, remote: str | None = None, conf: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        self._remote = remote or ""
        self._place = self._remote.partition(";")[0].removesuffix("/")  # parameters may have a token
        if session is None and not self._remote.startswith(_SCHEME):
            raise UsageError(f"Spark Connect: expected sc://HOST:PORT, found {self._place or 'nothing'}")
        self._callers = session
        self._session: Any = session
        self._conf = dict(conf or {})
        self._tasks_at_once = 1
        self._has_failed = False

    def open(self) -> None:
        if self._session is None:
            self._session = self._connected()

    def start(self) -> None:
        self.open()
        with self.job(0, None):
            self._ship_packages()
            workers = self._session.range(0, 100_000).mapInArrow(connect_tasks.prepare, "worker int").collect()
            self._tasks_at_once = max(1, len(workers))

    def close(self) -> None:
        if self._session is not None and self._callers is None:
            with contextlib.suppress(*client_errors()), few_attempts(self._session):
                self._session.stop()
            self._session = None

    @property
    def parallelism(self) -> int:
        return self._tasks_at_once

    @property
    def has_ended(self) -> bool:
        """Whether a job has failed for another reason than its files: another session costs little."""
        return self._has_failed

    @property
    def java_session(self) -> SparkSession:
        raise UsageError(
            "Spark Connect cannot load tables of Spark's own catalogs for us: expected a path, or --catalog "
            "(in Python catalog) with the name of a pyiceberg catalog, found a Spark table"
        )

    def read(self, shipment: Shipment, groups: Groups, progress: Progress | None) -> Partial:
        tasks = len(shipment.documents)
        # There are no broadcasts either. The arguments of a function reach each executor once, with its code.
        read = functools.partial(connect_tasks.read, shipment.shared)
        try:
            with self.job(tasks, progress):
                frame = self._in_tasks(shipment.documents, tasks)
                if groups.take_as_they_are(tasks):
                    return _gather(Gathered(groups), frame.mapInArrow(read, PIECES))
                pieces = frame.mapInArrow(functools.partial(read, groups=groups), PIECES)
                for reducers in groups.reducers(tasks):
                    shuffled = pieces.repartition(reducers, *KEY[:2]).sortWithinPartitions(*KEY)
                    pieces = shuffled.mapInArrow(connect_tasks.merge, PIECES)
                return _fetched(pieces, groups)
        except StorageError as exc:
            failure = connect_tasks.failure_in(str(exc.__cause__))
            if failure is None:
                self._has_failed = True
                raise
            return Partial(failure=failure)

    def map(
        self, function: Callable[[SharedT, bytes], ResultT], shared: SharedT, documents: Sequence[bytes]
    ) -> list[ResultT]:
        call = functools.partial(connect_tasks.call, function, shared)
        try:
            with self.job(len(documents), None):
                tasks = self._tasks_for(len(documents))
                frame = self._in_tasks([(0, document) for document in documents], tasks).mapInArrow(call, PIECES)
                found = dict(connect_tasks.joined(frame.toLocalIterator()))
        except StorageError:
            self._has_failed = True
            raise
        return [pickle.loads(found[key]) for key in sorted(found)]  # noqa: S301 - ours

    def _in_tasks(self, documents: Sequence[Document], tasks: int) -> DataFrame:
        """A data frame with the documents in ``tasks`` partitions."""
        rows = [(place, *document) for place, document in enumerate(documents)]
        try:
            frame: DataFrame = self._session.createDataFrame(rows, DOCUMENTS)
        except client_errors() as exc:
            if _UNKNOWN_SETTING not in str(exc):
                raise
            frame = frame_in_one_message(self._session, rows)
        # By range, since that puts as many rows into each partition.
        return frame.repartitionByRange(tasks, "place")

    @contextlib.contextmanager
    def job(self, tasks: int, progress: Progress | None) -> Iterator[None]:
        """Run a job in the block, calling ``progress(done, tasks)``; StorageError if it fails or is cancelled."""
        self.check_not_cancelled()
        with self._under(None) as tag, contextlib.ExitStack() as cleanup:
            self._session.addTag(tag)
            cleanup.callback(self._session.removeTag, tag)
            if progress is not None and hasattr(self._session, "registerProgressHandler"):  # since PySpark 4.0
                watch = _watch(tasks, self._tasks_at_once, progress)
                self._session.registerProgressHandler(watch)
                cleanup.callback(self._session.removeProgressHandler, watch)
            try:
                yield
            except client_errors() as exc:
                self.check_not_cancelled()
                raise StorageError(f"the Spark job failed: {telling_line(exc)}") from exc
        if progress is not None:
            progress(tasks, tasks)

    def thread_setup(self, threads: int) -> Callable[[], None]:  # noqa: ARG002
        """The caller's tags, by which the caller may cancel, belong to the calling thread."""
        session, tags = self._session, () if self._session is None else tuple(self._session.getTags())

        def set_up() -> None:
            for tag in tags:
                session.addTag(tag)

        return set_up

    def _interrupt(self, name: str) -> None:
        with contextlib.suppress(*client_errors()):
            self._session.interruptTag(name)

    def _connected(self) -> Any:
        client, session = client_class(), None  # before the clause that names its errors: it may not be installed
        try:
            session = client(self._remote)  # not by its builder, which in PySpark 3.5 tries for ten minutes
            with few_attempts(session):
                _ = session.version
                for key, value in self._conf.items():
                    session.conf.set(key, value)
        except client_errors(ValueError) as exc:
            if session is not None:
                session.client.close()
            raise SetupError(f"Spark Connect at {self._place}: {telling_line(exc)}") from exc
        return session

    def _ship_packages(self) -> None:
        archive = str(zipped_packages())
        try:
            self._session.addArtifacts(archive, pyfile=True)
        except client_errors() as exc:
            from pyspark.errors import UnsupportedOperationException

            if isinstance(exc, UnsupportedOperationException):
                message = f"Spark Connect: expected a server that takes artifacts, found: {telling_line(exc)}"
                raise SetupError(message) from exc
            # Spark 3.5 refuses what a session already has, and does not say so. What comes next needs the packages.
            if not str(self._session.version).startswith("3."):
                raise
        finally:
            if archive in sys.path:  # where PySpark's client puts it, for an interactive caller
                sys.path.remove(archive)


def _watch(tasks: int, at_once: int, progress: Progress) -> Callable[..., None]:
    """
    What the client calls as stages advance: tells how many documents are read.

    Of the stages with so many tasks, those that put documents into partitions come first, if they have as many.
    """
    ours, before = threading.get_ident(), 2 if tasks <= at_once else 0
    most = 0  # when merged groups are fetched later, nothing is read again

    def watch(stages: Iterable[Any], **_: Any) -> None:
        nonlocal most
        if threading.get_ident() != ours:  # another table's: the client calls everybody
            return
        as_many = sorted((s for s in stages if s.num_tasks == tasks), key=lambda stage: int(stage.stage_id))
        for stage in as_many[before : before + 1]:
            most = max(most, stage.num_completed_tasks)
            progress(most, tasks)

    return watch


def _fetched(pieces: DataFrame, groups: Groups) -> Partial:
    """The merged pieces of all groups, some groups at a time, so that the server need not hold all of them."""
    waves = groups.waves()
    gathered = Gathered(groups)
    if len(waves) == 1:
        return _gather(gathered, pieces)
    kept = pieces.persist()
    try:
        for first, end in waves:
            _gather(gathered, kept.where(f"column_group >= {first} AND column_group < {end}"))
        return gathered.partial
    finally:
        with contextlib.suppress(*client_errors()):
            kept.unpersist()


def _gather(gathered: Gathered, pieces: DataFrame) -> Partial:
    return gathered.all(content for _, content in connect_tasks.joined(pieces.toLocalIterator()))
