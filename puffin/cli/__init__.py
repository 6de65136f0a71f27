"""The ``puffin`` command; `puffin.cli.program` is what it does."""

from __future__ import annotations

import gc
from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> None:
    """
    Run the command line and exit with its code.

    Args:
        args: What stands behind ``puffin``; by default what this process was called with.
    """
    # Of the time that a dump takes to start, a twentieth would be spent on looking for garbage among what is imported.
    gc.disable()
    try:
        from puffin.cli.program import run

        run(args)
    finally:
        gc.enable()
