"""
A server that is killed and started again while clients query through it.

``PUFFIN_SERVER_KILLS`` says how often it is killed.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.server.conftest import Process

KILLS = int(os.environ.get("PUFFIN_SERVER_KILLS", "1"))
CLIENTS = 8
PATIENCE = 120  # seconds, after which what has not come never will
FILES, ROWS = 10, 50
"""The keys from 0 to ``FILES * ROWS`` are spread over the files: a file has those with its number as remainder."""


class Querier(threading.Thread):
    """
    Asks for one key after the other until it is told to stop; knows what became of each query.

    Args:
        ask: Returns the keys and numbers of files of the rows with a key.
    """

    def __init__(self, ask: Callable[[int], Sequence[tuple[int, int]]], seed: int) -> None:
        super().__init__(daemon=True)
        self.is_over = threading.Event()
        self.right, self.wrong = 0, list[str]()
        self.errors: list[Exception] = []
        self._ask = ask
        self._random = random.Random(seed)

    def run(self) -> None:
        while not self.is_over.is_set():
            key = self._random.randrange(-5, FILES * ROWS + 5)
            try:
                rows = sorted(self._ask(key))
            except Exception as exc:  # noqa: BLE001 - the test judges it
                self.errors.append(exc)
            else:
                if rows == rows_of(key):
                    self.right += 1
                else:
                    self.wrong.append(f"{key}: {rows}")
            time.sleep(self._random.uniform(0, 0.5))


def rows_of(key: int) -> list[tuple[int, int]]:
    """The rows with a key: that of its own file, and a second one in the file before."""
    wanted = ((key, key % FILES), (key, (key - 1) % FILES))
    return sorted(row for row, first in zip(wanted, (key, key - 1), strict=True) if 0 <= first < FILES * ROWS)


def errors_of_queries(
    process: Process,
    start: Callable[[int], Process],
    ask: Callable[[int], Sequence[tuple[int, int]]],
    clients: int = CLIENTS,
) -> list[Exception]:
    """
    Kill a server while clients query through it; returns their errors if no client had a wrong row.

    Args:
        start: Starts the server again at a port.
    """
    queriers = [Querier(ask, seed) for seed in range(clients)]
    for querier in queriers:
        querier.start()
    wait_for_answers(queriers)
    for _ in range(KILLS):
        assert process.stop(signal.SIGKILL) == -signal.SIGKILL
        failed = sum(len(querier.errors) for querier in queriers)
        wait_until(lambda before=failed: sum(len(querier.errors) for querier in queriers) > before)
        process = start(process.port)
        wait_for_answers(queriers)
    for querier in queriers:
        querier.is_over.set()
    for querier in queriers:
        querier.join(PATIENCE)
        assert not querier.is_alive()
    assert [wrong for querier in queriers for wrong in querier.wrong] == []
    return [error for querier in queriers for error in querier.errors]


def wait_for_answers(queriers: Sequence[Querier]) -> None:
    """Wait until every client has had one more right answer."""
    before = [querier.right for querier in queriers]
    wait_until(lambda: all(querier.right > had for querier, had in zip(queriers, before, strict=True)))


def wait_until(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
