"""
Commands as forks of one process that has imported what they need, which takes each more than a second.

``serve`` makes two programs, ``puffin`` and ``python``. Each hands its arguments, directory, environment and standard
streams to the process, and ends with the exit code of the fork. SIGTERM goes on to the fork.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_IMPORTED = (
    "puffin.autopilot.pilot",
    "puffin.cli.program",
    "puffin.lookup",
    "puffin.planning.plan",
    "puffin.server.app",
    "pyiceberg.io.pyarrow",
    "pyiceberg.table",
    "sqlalchemy.orm",
    "stats_jobs.analyze",
    "stats_jobs.index",
    "uvicorn",
)
_NOT_IMPORTED = "pyiceberg.catalog"
"""It reads the configuration, which depends on the directory and the environment, when it is imported."""

_CALL = """\
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as fork:
    fork.connect(sys.argv[1])
    call = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(fork, [len(call).to_bytes(4, "big")], [0, 1, 2])
    fork.sendall(call)
    process = int.from_bytes(fork.recv(4), "big")
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(process, number))
    sys.exit(int.from_bytes(fork.recv(4), "big"))
"""


@contextlib.contextmanager
def serve(programs: Path) -> Iterator[None]:
    """Write the two programs to a directory, and run their forks until the context ends."""
    address = str(programs / "forks")
    for name, words in {"puffin": "-m puffin ", "python": ""}.items():
        call = f'exec "{sys.executable}" -ISE "{programs}/call.py" "{address}" {words}"$@"'
        (programs / name).write_text(f"#!/bin/sh\n{call}\n")
        (programs / name).chmod(0o755)
    (programs / "call.py").write_text(_CALL)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        command = [sys.executable, "-m", __name__, str(listening.fileno())]
        process = subprocess.Popen(command, pass_fds=[listening.fileno()], cwd=Path(__file__).parents[1])
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Fork for each call to the socket whose number is the argument."""
    listening = socket.socket(fileno=int(sys.argv[1]))
    for name in _IMPORTED:
        importlib.import_module(name)
    assert _NOT_IMPORTED not in sys.modules
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    while True:
        call, _ = listening.accept()
        with call:
            if os.fork() == 0:
                listening.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _answer(call)
                os._exit(0)


def _answer(call: socket.socket) -> None:
    """Run one call in a fork of its own, and tell its process and its exit code."""
    length, streams, _, _ = socket.recv_fds(call, 4, 3)
    text = call.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)
    process = os.fork()
    if process == 0:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        call.close()
        _run(*json.loads(text))
    for stream in streams:
        os.close(stream)
    with contextlib.suppress(BrokenPipeError):
        call.sendall(process.to_bytes(4, "big"))
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        call.sendall((code if code >= 0 else 128 - code).to_bytes(4, "big"))


def _run(words: list[str], directory: str, environment: dict[str, str]) -> None:
    """Run a module, a file or standard input as Python does, and end the process."""
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    code = 1
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        elif words[0] == "-":
            sys.argv = words
            exec(compile(sys.stdin.read(), "<stdin>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - Python prints it and ends
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
