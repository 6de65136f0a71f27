"""Answers from memory to query strings that were asked before, without a look at what these mean."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from puffin.lookup import Lookup
from puffin.lookup.cache import Kept
from puffin.server.encoded import Encoded

_MOST = 4096
_LONGEST = 4096  # bytes of a query string


class WarmAnswers:
    """The answers of a lookup by query string; ``asked`` is told of the table of each that is given again."""

    def __init__(self, lookup: Lookup, asked: Callable[[str], None]) -> None:
        self._lookup = lookup
        self._asked = asked
        # Weak, so that an answer that the lookup drops does not stay in memory with the metadata of its view.
        self._kept: dict[bytes, weakref.ref[Kept]] = {}

    def remember(self, query: bytes, kept: Kept) -> None:
        """Answer the same query string with this answer, as long as that is valid."""
        if len(query) <= _LONGEST:
            self._kept[query] = weakref.ref(kept)
            if len(self._kept) > _MOST:
                del self._kept[next(iter(self._kept))]

    def answer(self, query: bytes) -> Encoded | None:
        """The answer to a query string; None if it has to be asked."""
        known = self._kept.get(query)
        kept = None if known is None else known()
        if kept is None or not self._lookup.is_fresh(kept):
            return None
        self._asked(kept.answer.table)
        answer: Encoded | None = kept.encoded
        return answer
