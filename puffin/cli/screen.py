"""Progress bars of the tables that a job works on, and lines above them."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from puffin.cli.logs import about
from puffin.cli.render import error_console, print_lines, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars

Progress: TypeAlias = Callable[[int, int], None]


class Screen:
    """Progress for a person; shows nothing without ``bars``."""

    def __init__(self, bars: Bars | None) -> None:
        self._bars = bars

    @contextlib.contextmanager
    def watch(self, table: str) -> Iterator[Progress | None]:
        """Show a bar for the table during the block, and mark logs as about it; yields what moves the bar."""
        bars = self._bars
        with about(table):
            if bars is None:
                yield None
                return
            from rich.markup import escape  # a bar's text is markup

            task = bars.add_task(escape(printable(table)), total=None)
            try:
                yield lambda done, total: bars.update(task, completed=done, total=total)
            finally:
                bars.remove_task(task)

    def say(self, lines: Sequence[str]) -> None:
        """Print lines on stdout; on a terminal, above the bars, so that they do not tear."""
        if self._bars is not None and sys.stdout.isatty():
            self._bars.console.print("\n".join(map(printable, lines)), emoji=False)
        else:
            print_lines(lines)


@contextlib.contextmanager
def screen(*, bars: bool) -> Iterator[Screen]:
    if not (bars and sys.stderr and sys.stderr.isatty()):
        yield Screen(None)
        return
    from rich.progress import Progress as Bars

    err = error_console()
    with Bars(console=err, transient=True, redirect_stdout=False) as progress, _told_of_kernels(err):
        yield Screen(progress)


@contextlib.contextmanager
def _told_of_kernels(err: Console) -> Iterator[None]:
    """Print during the block, above the bars, why nothing moves while kernels are compiled; a log has that anyway."""
    log, handler = logging.getLogger("puffin.kernels"), logging.Handler(logging.INFO)
    if log.isEnabledFor(logging.INFO):
        yield
        return
    handler.emit = lambda record: err.print(record.getMessage())  # type: ignore[method-assign]
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)
