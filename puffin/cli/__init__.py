"""The ``puffin`` command; `puffin.cli.program` is what it does."""

from __future__ import annotations

import gc
from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> None:
    """
    Run the command line and exit with its code.

    Args:
        args: The arguments after ``puffin``; by default those of this process.
    """
    # Collecting garbage among imports would take a twentieth of the time that a dump takes to start.
    gc.disable()
    try:
        from puffin.cli.program import run

        run(args)
    finally:
        gc.enable()
