"""PostgreSQL as a process of this machine, for tests: it starts empty, and is gone with the ``with`` block."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
START_SECONDS = 30
USER = "puffin"


class PostgresError(Exception):
    """There is no server to start, or it does not come up; the message says why."""


@contextmanager
def running_postgres(port: int | None = None) -> Iterator[str]:
    """
    Run a server that asks nobody for a password, and has one user, ``puffin``.

    Args:
        port: Where it listens on 127.0.0.1, for what cannot take a socket of the file system; by default it listens on
            no network.

    Yields:
        The directory of its socket.

    Raises:
        PostgresError: No such programs are on this machine and none could be installed, or the server does not start.
    """
    programs = _programs()
    as_user = ["setpriv"]
    with tempfile.TemporaryDirectory(prefix="postgres-") as directory:  # a socket's path has to be a short one
        if os.getuid() == 0:  # whom it refuses to run as
            user = pwd.getpwnam("postgres")
            os.chown(directory, user.pw_uid, user.pw_gid)
            as_user += [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        data, log = Path(directory) / "data", Path(directory) / "log"
        initdb = [str(programs / "initdb"), f"--pgdata={data}", f"--username={USER}", "--auth=trust", "--no-sync"]
        subprocess.run([*as_user, *initdb], check=True, capture_output=True, cwd=directory)
        settings = [f"unix_socket_directories={directory}", "fsync=off"]
        settings += ["listen_addresses="] if port is None else ["listen_addresses=127.0.0.1", f"port={port}"]
        server = [str(programs / "postgres"), "-D", str(data), *(f"--{setting}" for setting in settings)]
        with log.open("w") as output:
            process = subprocess.Popen(
                [*as_user, "--pdeathsig=INT", *server], stdout=output, stderr=output, cwd=directory
            )
        try:
            is_ready = [str(programs / "pg_isready"), "--quiet", "--host", directory, f"--username={USER}"]
            _wait_for([*is_ready, *([] if port is None else [f"--port={port}"])], log)
            yield directory
        finally:
            process.send_signal(signal.SIGINT)  # the shutdown that does not wait for clients
            process.wait(START_SECONDS)


def _programs() -> Path:
    """Return the directory of the server's programs."""
    found = subprocess.run(["sh", TOOLS / "postgres.sh", "--install"], check=False, capture_output=True, text=True)
    if found.returncode != 0:
        raise PostgresError(found.stderr.strip().rpartition("\n")[2])
    return Path(found.stdout.strip())


def _wait_for(is_ready: list[str], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while subprocess.run(is_ready, check=False).returncode != 0:
        if time.monotonic() > deadline:
            raise PostgresError(f"PostgreSQL is not there after {START_SECONDS} s: {log.read_text()[-2000:]}")
        time.sleep(0.1)
