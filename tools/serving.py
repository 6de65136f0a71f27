"""``puffin serve`` as users run it, in a process of its own, for tests, benchmarks and pictures."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any


class Server(contextlib.AbstractContextManager["Server"]):
    """
    A server that answers, at a free port of 127.0.0.1 unless the arguments name another; gone with the ``with`` block.

    ``program`` is what Python runs as ``puffin``. SystemExit tells what the server said if it does not come up.
    """

    def __init__(
        self,
        *arguments: object,
        program: Sequence[str] = ("-m", "puffin"),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        command = [sys.executable, *program, "serve", "--port", "0", *map(str, arguments)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)
        assert self.process.stderr is not None
        before = []
        while (line := self.process.stderr.readline()) and not line.startswith("serving at http://"):
            before.append(line)
        # What nobody reads would fill the pipe, and the server would wait for a reader.
        self._logged: list[str] = []
        self._reader = threading.Thread(target=self._logged.extend, args=(self.process.stderr,), daemon=True)
        self._reader.start()
        if not line:
            self.end()
            raise SystemExit(f"puffin serve does not come up: {''.join(before)}")
        self.url = line.split()[-1]
        self.port = int(self.url.rpartition(":")[2])

    def __exit__(self, *_: Any) -> None:
        self.end()

    def end(self) -> None:
        """Make sure that the process has ended."""
        if self.process.poll() is None:
            self.process.kill()
        with self.process:  # closes its pipes
            self._reader.join()

    def logged(self) -> str:
        """What the server has written to stderr since it came up; waits until it has ended."""
        self._reader.join()
        return "".join(self._logged)
