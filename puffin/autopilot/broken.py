"""
Logs a broken table, catalog or root once, and again when the reason changes.

A look comes every few minutes, so a line for each look would bury the others.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping

from puffin.autopilot.decide import BROKEN, Verdict

# Ids of requests and addresses of objects, which differ each time in the same error of a library.
_CHANGING = re.compile(r"\b(?=[\w-]*\d)[\w-]{8,}\b")

_log = logging.getLogger(__name__)


class BrokenTables:
    """What the last look has found broken."""

    def __init__(self) -> None:
        self._known: Mapping[str, str] = {}

    def log(self, verdicts: Iterable[Verdict]) -> None:
        """Log what is newly broken among the verdicts of a look."""
        broken = {each.seen.key: each for each in verdicts if each.state == BROKEN}
        reasons = {key: _CHANGING.sub("", verdict.why) for key, verdict in broken.items()}
        for key, verdict in broken.items():
            if self._known.get(key) != reasons[key]:
                _log.error("%s", why_broken(verdict), extra={"table": verdict.seen.name})
        self._known = reasons


def why_broken(verdict: Verdict) -> str:
    """One line about a table that is broken, with its name."""
    return verdict.seen.line_about(verdict.why)
