"""The ``puffin`` command; `puffin.cli.program` implements it."""

from __future__ import annotations

import gc
from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line with these arguments, by default the process's own, and exit with its code."""
    # Garbage collection during imports would take 5 % of the start time of a dump.
    gc.disable()
    try:
        from puffin.cli.program import run
        from puffin.no_pandas import refuse_pandas

        if args is None:  # the process is our own
            refuse_pandas()
        run(args)
    finally:
        gc.enable()
