"""Logs a table whose run takes very long, once: if its storage hangs, it would hold its place for ever, unseen."""

from __future__ import annotations

import logging
from collections.abc import Mapping

_log = logging.getLogger(__name__)

LONG_SECONDS = 3600.0


class SlowRuns:
    """The runs under way that have been logged."""

    def __init__(self) -> None:
        self._known = set[str]()

    def log(self, under_way: Mapping[str, float]) -> None:
        """Log those that newly take long, of the seconds that each table's run has taken so far."""
        slow = {key for key, seconds in under_way.items() if seconds >= LONG_SECONDS}
        for key in sorted(slow - self._known):
            _log.error("%s: its run goes on for an hour; if its storage hangs, restart the autopilot", key)
        self._known = slow
