"""An event for each run of a table, to a file of JSON lines and to a webhook."""

from __future__ import annotations

import dataclasses
import datetime
import json
import logging
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any

from puffin.errors import in_one_line
from puffin.policy.model import Policy
from puffin.storage.appending import append_whole

DONE, FAILED, SKIPPED, INTERRUPTED = "done", "failed", "skipped", "interrupted"

_SECONDS = 5

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class WorkDone:
    """What the jobs of a run did."""

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
        outcome: ``"done"``, ``"failed"``, ``"skipped"`` (it was no longer due) or ``"interrupted"``.
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


def publish(event: Event, policy: Policy) -> None:
    """Send an event to where the policy says; what goes wrong with that is logged."""
    data = json.dumps(event.to_json()).encode()
    if policy.event_file is not None:
        try:
            append_whole(policy.event_file, data + b"\n")
        except OSError as exc:
            _log.warning("%s: the event is not written: %s", policy.event_file, exc)
    if policy.event_webhook is not None:
        request = urllib.request.Request(  # noqa: S310 - the policy's schema takes http and https alone
            policy.event_webhook, data, {"Content-Type": "application/json"}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS):  # noqa: S310 - as above
                pass
        except (OSError, ValueError, HTTPException) as exc:
            _log.warning("%s: the event is not sent: %s", policy.event_webhook, in_one_line(exc))
