"""The ``puffin`` command; `puffin.cli.program` implements it."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line with these arguments, by default the process's own, and exit with its code."""
    # Garbage collection during imports would take 5 % of the start time of a dump.
    gc.disable()
    end = None if args is not None else _QuickEnd()
    try:
        from puffin.cli.program import run
        from puffin.no_pandas import refuse_pandas

        if end is not None:  # the process is our own
            refuse_pandas()
            atexit.register(end)  # first, so it is called last
        code = run(args)
    finally:
        gc.enable()
    if end is not None:
        end.code = code
    sys.exit(code)


class _QuickEnd:
    """
    Ends the process once threads and all else that waits for its end are done.

    Python would free every object of every library, which takes longer than many a command.
    """

    code: int | None = None

    def __call__(self) -> None:
        if self.code is None:
            return
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except (OSError, ValueError):
            return  # Python tells of it
        os._exit(self.code)
