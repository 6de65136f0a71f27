"""Pages of the lists that clients ask for."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Generic, TypeVar

_LARGEST = 1_000

_Item = TypeVar("_Item")


@dataclasses.dataclass(frozen=True, slots=True)
class Listed(Generic[_Item]):
    """A list or a page of it; ``next_token`` asks for the next page."""

    items: Sequence[_Item]
    next_token: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """Which page a client asks for; neither a token nor a size for the whole list."""

    token: str | None = None
    size: int | None = None

    def of(self, found: Sequence[_Item]) -> Listed[_Item]:
        """This page of a whole list; its token is the place of its first element."""
        if self.size is None and self.token is None:
            return Listed(found)
        token = self.token or ""
        start = int(token) if token.isascii() and token.isdigit() and len(token) < len(str(1 << 31)) else 0
        stop = start + min(max(self.size or _LARGEST, 1), _LARGEST)
        return Listed(found[start:stop], str(stop) if stop < len(found) else None)


WHOLE = Page()
