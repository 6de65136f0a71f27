"""What a terminal shows beside progress bars."""

from __future__ import annotations

import io
import logging

from rich.console import Console

from puffin.cli import screen


def test_compiling_of_kernels_is_told_on_the_terminal(monkeypatch, caplog):
    terminal = Console(file=io.StringIO(), force_terminal=True)
    monkeypatch.setattr(screen, "error_console", lambda: terminal)
    monkeypatch.setattr(screen.sys.stderr, "isatty", lambda: True, raising=False)
    caplog.set_level(logging.WARNING)  # as without --verbose
    log = logging.getLogger("puffin.kernels.compiler")
    log.info("before")
    with screen.screen(bars=True):
        log.info("compiling kernels")
        log.debug("details")
    log.info("after")
    with screen.screen(bars=False):
        log.info("no terminal")
    said = terminal.file.getvalue()
    assert "compiling kernels" in said
    assert not any(other in said for other in ("before", "details", "after", "no terminal"))
