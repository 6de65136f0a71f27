"""An event for each run of a table, to a file of JSON lines and to a webhook."""

from __future__ import annotations

import dataclasses
import datetime
import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from puffin.autopilot.outages import Outages
from puffin.errors import StorageError, in_one_line
from puffin.policy.model import Policy
from puffin.storage.appending import append_whole

DONE, FAILED, SKIPPED, INTERRUPTED = "done", "failed", "skipped", "interrupted"

_SECONDS = 5


@dataclasses.dataclass(frozen=True, slots=True)
class WorkDone:
    """What those jobs of a run did that have ended well."""

    snapshot_id: int | None = None
    committed: bool = False
    files_read: int = 0
    rows_read: int = 0
    bytes_read: int = 0

    def plus(self, other: WorkDone) -> WorkDone:
        return WorkDone(
            self.snapshot_id if other.snapshot_id is None else other.snapshot_id,
            self.committed or other.committed,
            self.files_read + other.files_read,
            self.rows_read + other.rows_read,
            self.bytes_read + other.bytes_read,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """
    What became of a table.

    Attributes:
        seconds: When the run ended, since the epoch.
        action: ``"statistics"``, ``"index"``, ``"statistics and index"`` or ``"clean"``.
        outcome: ``"done"``, ``"failed"``, ``"skipped"`` (it was no longer due, or gone) or ``"interrupted"``.
        reason: Why it was run, or why it was skipped.
    """

    seconds: float
    table: str
    catalog: str | None
    action: str
    outcome: str
    reason: str
    work: WorkDone = WorkDone()
    elapsed_seconds: float = 0.0
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        at = datetime.datetime.fromtimestamp(self.seconds, datetime.timezone.utc)
        return {
            "time": at.isoformat(timespec="milliseconds"),
            "table": self.table,
            "catalog": self.catalog,
            "action": self.action,
            "outcome": self.outcome,
            "reason": self.reason,
            **{name.replace("_", "-"): value for name, value in dataclasses.asdict(self.work).items()},
            "elapsed-seconds": round(self.elapsed_seconds, 3),
            "error": self.error,
        }


class Publisher:
    """
    Sends events to where a policy says; what goes wrong with that later is logged.

    Raises StorageError if the file of events cannot be written. Methods may be called in any thread.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._outages = Outages()
        if policy.event_file is not None:
            try:
                append_whole(policy.event_file, b"")
            except OSError as exc:
                raise StorageError(f"{policy.event_file}: expected a file for the autopilot's events: {exc}") from exc

    def publish(self, event: Event) -> None:
        """Send an event."""
        data = json.dumps(event.to_json()).encode()
        file, webhook = self._policy.event_file, self._policy.event_webhook
        if file is not None:
            try:
                append_whole(file, data + b"\n")
                self._outages.worked(file)
            except OSError as exc:
                self._outages.failed(file, "the event is not written", exc)
        if webhook is not None:
            request = urllib.request.Request(  # noqa: S310 - the policy's schema takes http and https alone
                webhook, data, {"Content-Type": "application/json"}, method="POST"
            )
            try:
                with urllib.request.urlopen(request, timeout=_SECONDS):  # noqa: S310 - as above
                    self._outages.worked(_server_of(webhook))
            except (OSError, ValueError, HTTPException) as exc:
                self._outages.failed(_server_of(webhook), "the event is not sent", in_one_line(exc))


def _server_of(url: str) -> str:
    """The server of a URL, whose other parts may have a token."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
