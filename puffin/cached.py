"""
`cached_property` as `functools` has it from Python 3.12 on.

Before, it holds one lock for all instances of a class while it computes: a table whose storage hangs would make all
other tables wait, and two threads that also take a lock of their own could wait for each other for ever. Without that
lock, threads that ask at the same time may each compute the value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # noqa: N801 - the name in functools
        """Computes a value when it is first asked for, and keeps it in the instance's ``__dict__``."""

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._compute(instance)
            return value


__all__ = ["cached_property"]
