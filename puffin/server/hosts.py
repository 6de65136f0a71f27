"""
The host names that a server answers to.

Any web page can resolve its own name to 127.0.0.1 and query a server there as its own (DNS rebinding). Browser policies
do not stop this, but the Host header still has the page's name. So a loopback interface answers only to its own names
and to those that the operator adds.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence

from puffin.errors import UsageError

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_NAME = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Za-z:.%_-]+\]")


class Hosts:
    """The names that a server answers to, without ports; None for any. UsageError if one is no name or address."""

    def __init__(self, names: Iterable[str] | None = None) -> None:
        self._names = None if names is None else frozenset(map(_checked, names))

    @classmethod
    def at(cls, address: str, allowed: Sequence[str]) -> Hosts:
        """
        The names of a server that listens at an address, with those that the operator allows.

        On an interface other than loopback, it answers to every name unless some are allowed.
        """
        if is_loopback(address) or allowed:
            return cls((*_LOOPBACK, f"[{address}]" if ":" in address else address, *allowed))
        return cls()

    def include(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether the headers of a request name one of the hosts."""
        if self._names is None:
            return True
        named = [value for name, value in headers if name == b"host"]
        return len(named) == 1 and _without_port(named[0].lower()) in self._names


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an interface with this address."""
    return ipaddress.ip_address(address).is_loopback


def _checked(name: str) -> bytes:
    if not _NAME.fullmatch(name):
        raise UsageError(f"--allow-host {name}: expected a name or address without a port, an IPv6 address in brackets")
    return name.lower().encode()


def _without_port(host: bytes) -> bytes:
    return host[: host.find(b"]") + 1] if host.startswith(b"[") else host.partition(b":")[0]
