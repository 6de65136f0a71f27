"""Who asks, and what of the request goes on to a REST catalog behind this one."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Mapping

_AUTHORIZATION = "authorization"
_DELEGATION = "x-iceberg-access-delegation"
_DIGEST_BYTES = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """
    The headers of one request that count; they hold secrets, so nothing shows them.

    Attributes:
        identity: Those that say who asks, by lower-case name.
        delegation: How the client wants to reach the files, None for its own credentials.
        known_tags: The entity tags of what the client has, as its header lists them.
        referenced_by: The views through which the client asks, as the protocol writes them.
    """

    identity: tuple[tuple[str, str], ...] = dataclasses.field(default=(), repr=False)
    delegation: str | None = None
    known_tags: str = ""
    referenced_by: str | None = None

    @classmethod
    def of(
        cls, headers: Mapping[str, str], forwarded: Collection[str] = (), referenced_by: str | None = None
    ) -> Caller:
        """
        From a request's headers, found by their lower-case names.

        ``forwarded`` are those beside Authorization that say who asks.
        """
        identity = tuple((name, headers[name]) for name in sorted({_AUTHORIZATION, *forwarded}) if name in headers)
        return cls(identity, headers.get(_DELEGATION), headers.get("if-none-match", ""), referenced_by)

    @property
    def digest(self) -> bytes:
        """Tells callers apart without a secret."""
        return hashlib.blake2b(repr(self.identity).encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).digest()
