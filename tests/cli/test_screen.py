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


def test_names_neither_steer_the_terminal_nor_are_markup(monkeypatch):
    terminal = Console(file=io.StringIO(), force_terminal=True, width=80, highlight=False, markup=False)
    monkeypatch.setattr(screen, "error_console", lambda: terminal)
    monkeypatch.setattr(screen.sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(screen.sys.stdout, "isatty", lambda: True, raising=False)
    name = "t[/b]\x1b]0;owned\x07"
    with screen.screen(bars=True) as shown, shown.watch(name):
        shown.say([f"{name}: failed \x1b[2J"])
    said = terminal.file.getvalue()
    assert r"t[/b]\x1b]0;owned\x07: failed \x1b[2J" in said
    assert not any(steering in said for steering in ("\x1b]", "\x1b[2J"))
