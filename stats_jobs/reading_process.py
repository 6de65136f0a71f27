"""What runs in a process that reads pieces for another one; `stats_jobs.reading_processes` starts it."""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import threading
from multiprocessing.connection import Connection
from typing import TypeAlias

from puffin.iceberg.stores import stores
from puffin.tables.scan_task import ScanContext
from stats_jobs.cluster import prepare_worker
from stats_jobs.partial import Partial
from stats_jobs.pieces import Piece, PieceReader

_RARELY = 50_000  # new objects between searches for garbage: readers make many objects, and hardly any cycles

_Request: TypeAlias = "ScanContext | Piece | None"
"""The beginning of a run, a piece of it, or its end."""


def main(place: str, idle_seconds: str) -> None:
    """Read what comes through the socket with this number, until its other end is closed or nothing comes for long."""
    connection = Connection(int(place))
    prepare_worker()
    gc.collect()
    gc.freeze()  # what stays in any case
    gc.set_threshold(_RARELY)
    connection.send(None)
    requests: queue.SimpleQueue[_Request] = queue.SimpleQueue()
    reading = _Reading(connection)
    threading.Thread(target=reading.run, args=(requests,), daemon=True).start()
    # This thread waits for the other process to end, also while a read of storage hangs.
    with contextlib.suppress(EOFError, OSError):
        while connection.poll(float(idle_seconds)) or reading.is_in_run:
            if connection.poll():
                requests.put(connection.recv())
    os._exit(0)


class _Reading:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.is_in_run = False

    def run(self, requests: queue.SimpleQueue[_Request]) -> None:
        try:
            while True:
                self._read_run(requests)
        finally:
            os._exit(1)  # the other process reads what is left, and raises the error if it has one too

    def _read_run(self, requests: queue.SimpleQueue[_Request]) -> None:
        from puffin.files.formats import FirstOpened

        self.is_in_run = False
        context = requests.get()
        self.is_in_run = True
        if not isinstance(context, ScanContext):
            raise TypeError(f"expected the beginning of a run, found {type(context)}")
        with contextlib.closing(PieceReader(context, stores(context.io_properties), FirstOpened())) as reader:
            while isinstance(piece := requests.get(), Piece):
                self._connection.send(_read(reader, piece))


def _read(reader: PieceReader, piece: Piece) -> Partial | None:
    try:
        return reader.read(piece)
    except Exception:  # noqa: BLE001 - the other process reads the piece too and raises it
        return None
