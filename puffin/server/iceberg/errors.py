"""Errors as the Iceberg REST protocol has them (IcebergErrorResponse)."""

from __future__ import annotations

import json

from puffin import errors
from puffin.rest_catalog.errors import NamespaceNotFound, PlanNotFound, PlanTaskNotFound, Refused
from puffin.server.problems import Problem

MEDIA_TYPE = "application/json"

# Clients tell absences apart by these names; they take one that they do not know for a missing table.
_ABSENT: dict[type[Exception], str] = {
    NamespaceNotFound: "NoSuchNamespaceException",
    PlanNotFound: "NoSuchPlanIdException",
    PlanTaskNotFound: "NoSuchPlanTaskException",
    errors.TableNotFound: "NoSuchTableException",
    errors.SnapshotNotFound: "NoSuchSnapshotException",
    errors.ColumnNotFound: "BadRequestException",
}
_TYPES = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    404: "NotFoundException",
    406: "UnsupportedOperationException",
    429: "TooManyRequestsException",
    503: "ServiceUnavailableException",
    504: "ServiceUnavailableException",
}
_STATUSES = {"unsupported": 406, "invalid": 400}


class IcebergProblem(Problem):
    """A refused request to the REST face; ``type`` is the protocol's name of the error."""

    def __init__(
        self, status: int, kind: str, detail: str, type_: str, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(status, kind, detail, headers)
        self.type = type_


def iceberg_problem(error: Exception) -> Problem:
    """An error of the REST face as a problem with the protocol's status."""
    if isinstance(error, Refused):
        return IcebergProblem(error.status, "refused", str(error), error.type, error.headers)
    problem = Problem.of(error)
    absent = next((name for kind, name in _ABSENT.items() if isinstance(error, kind)), None)
    status = 400 if isinstance(error, errors.ColumnNotFound) else _STATUSES.get(problem.kind, problem.status)
    if absent is None and status == problem.status:
        return problem
    return IcebergProblem(status, problem.kind, problem.detail, absent or _TYPES[status])


def error_document(problem: Problem) -> dict[str, object]:
    """The model of an error: its message, type and status."""
    type_ = problem.type if isinstance(problem, IcebergProblem) else _TYPES.get(problem.status, "RESTException")
    return {"message": problem.detail, "type": type_, "code": problem.status}


def error_body(problem: Problem) -> bytes:
    """The body of an answer with an error."""
    return json.dumps({"error": error_document(problem)}).encode()
