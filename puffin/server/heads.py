"""
The heads of requests that have begun to arrive, all connections together.

One head is bounded in size and time, but a peer may open as many connections as it likes. Where there are too many, the
head that has taken longest gives way: those of callers that mean it are complete with the first bytes, and are never
here.
"""

from __future__ import annotations

from collections.abc import Callable

from puffin.server.settings import Limits


class Heads:
    """Heads that are not complete, each by what gives it up."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.heads
        self._most_bytes = limits.arriving
        self._sizes: dict[Callable[[], None], int] = {}
        self._bytes = 0

    def hold(self, give_up: Callable[[], None], size: int) -> None:
        """
        So many more bytes of a head are there.

        Args:
            give_up: Closes its connection; the same each time.
        """
        self._sizes[give_up] = self._sizes.get(give_up, 0) + size
        self._bytes += size
        while len(self._sizes) > self._most or self._bytes > self._most_bytes:
            oldest = next(iter(self._sizes))
            self.release(oldest)
            oldest()

    def release(self, give_up: Callable[[], None]) -> None:
        """A head is complete, or its connection gone."""
        self._bytes -= self._sizes.pop(give_up, 0)
