"""
Logs what cannot be written or sent: the first failure of each place as an error, which is printed, and those that
follow as warnings.
"""

from __future__ import annotations

import logging
import threading

_log = logging.getLogger(__name__)


class Outages:
    """The places that fail now. Methods may be called in any thread."""

    def __init__(self) -> None:
        self._failing = set[str]()
        self._guard = threading.Lock()

    def failed(self, place: str, what: str, error: object) -> None:
        """Log that something has failed at a place, and what this means."""
        with self._guard:
            is_new = place not in self._failing
            self._failing.add(place)
        _log.log(logging.ERROR if is_new else logging.WARNING, "%s: %s: %s", place, what, error)

    def worked(self, place: str) -> None:
        """The next failure at a place is news again."""
        self._failing.discard(place)
