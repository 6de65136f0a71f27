"""What a REST catalog does not have, beside tables; the protocol names each kind of absence."""

from __future__ import annotations

from puffin.errors import NotFoundError, PuffinError


class NamespaceNotFound(NotFoundError):
    """No namespace of this name."""


class PlanNotFound(NotFoundError):
    """No plan with this id for this caller and table, or no longer."""


class PlanTaskNotFound(NotFoundError):
    """No plan task of this name for this caller and table, or no longer."""


class Refused(PuffinError):
    """
    The REST catalog behind this one refuses a caller's request, or fails.

    Attributes:
        status: Of its answer, as are the others.
        type: The protocol's name of the error.
        headers: Those that a client heeds.
    """

    def __init__(self, status: int, message: str, type_: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.type = type_
        self.headers = headers
