"""
Appends a note to a Delta table's own log that a version has statistics, for people and engines that look there.

The note is a log entry of ``commitInfo`` and ``txn``, with ``domainMetadata`` if the table has that feature. It adds
and removes no file and changes neither metadata nor protocol, so it conflicts with no commit of another engine
(protocol, "Action Reconciliation"). It is only a hint: log cleanup removes ``commitInfo``, and of ``txn`` a checkpoint
keeps only the version. The truth is in the directory of statistics.

::

    {"commitInfo": {…, "operation": "PUFFIN SIDECAR STATISTICS",
                    "puffinSidecar": {"version": 12, "statisticsFile": "_delta_log/_puffin_sidecar/12-….stats"}}}
    {"txn": {"appId": "puffin-sidecar", "version": 12, "lastUpdated": …}}
    {"domainMetadata": {"domain": "io.github.puffin-sidecar", "configuration": "{\"version\":12,…}", "removed": false}}

All three name the version analyzed last, which need not be the newest. Our own fields are in ``commitInfo``, which has
room for them: an unknown action would make other writers fail.

Engines write a checkpoint when a commit of theirs makes a certain version. A note never takes one of these versions, so
a table in which writes and notes alternate has as many checkpoints as without notes.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from puffin.delta.log.log_files import LOG, commit_name
from puffin.delta.log.protocol import check_writable, has_feature, in_commit_timestamps_enabled
from puffin.delta.log.replay import DeltaLog, LogSegment
from puffin.errors import ConflictError, TableNotFound
from puffin.storage import join
from puffin.tables.base import StatisticsEntry
from puffin.tables.commit import Attempts, RetryPolicy
from puffin.version import version

APP_ID = "puffin-sidecar"
DOMAIN = "io.github.puffin-sidecar"
OPERATION = "PUFFIN SIDECAR STATISTICS"

_CHECKPOINT_INTERVAL = "delta.checkpointInterval"
_INTERVAL = re.compile("[1-9][0-9]{0,9}")
_SPARKS_INTERVAL = 10  # without the property; deltalake's 100 is a multiple

# Writers of rows take precedence: the note waits for them, and is finally dropped.
_RETRIES = RetryPolicy(num_retries=20, min_wait_ms=20, max_wait_ms=2000, total_timeout_ms=60_000)


def append_note(
    log: DeltaLog, table_id: str, entry: StatisticsEntry, *, sleep: Callable[[float], None] = time.sleep
) -> int | None:
    """
    Append a log entry that names a version's statistics file; returns the version that the log entry made.

    None if it would make a version at which engines write a checkpoint: the log gets no note then.

    Raises:
        TableNotFound: The table is gone, or its ``metaData`` has another id than ``table_id``.
        UnsupportedTableError: The table's current protocol does not allow it.
        ConflictError: Other writers won every attempt.
    """
    location = log.location
    note = {"version": entry.snapshot_id, "statisticsFile": entry.statistics_path.removeprefix(join(location, ""))}
    txn_id = str(uuid.uuid4())
    attempts = Attempts(sleep)
    while True:
        segment = log.segment()
        following = segment.version + 1
        actions = _actions(segment, note, txn_id, location, table_id)
        if _brings_checkpoint(following, segment.protocol_and_metadata[1].configuration):
            return None
        data = "".join(f"{_json(action)}\n" for action in actions).encode()
        try:
            log.store.put_once(join(location, LOG, commit_name(following)), data)
        except ConflictError as exc:
            if not attempts.wait(_RETRIES):
                raise ConflictError(
                    f"{location}: other writers were faster in each of {attempts.number} attempts to append to the log"
                ) from exc
        else:
            return following


def _actions(
    segment: LogSegment, note: dict[str, Any], txn_id: str, location: str, table_id: str
) -> list[dict[str, Any]]:
    """The actions that follow on the segment, which includes all commits since the last attempt."""
    protocol, metadata = segment.protocol_and_metadata
    if metadata.id != table_id:
        raise TableNotFound(
            f"{location}: expected table {table_id}, found {metadata.id}: another table has replaced it"
        )
    check_writable(protocol, metadata.configuration, location)
    now_ms = time.time_ns() // 1_000_000
    commit_info: dict[str, Any] = {}
    if in_commit_timestamps_enabled(protocol, metadata.configuration):
        now_ms = max(now_ms, segment.timestamp_ms(segment.version) + 1)
        commit_info["inCommitTimestamp"] = now_ms
    commit_info |= {
        "timestamp": now_ms,
        "operation": OPERATION,
        "operationParameters": {name: str(value) for name, value in note.items()},
        "readVersion": segment.version,
        "isolationLevel": "SnapshotIsolation",
        "isBlindAppend": True,
        "operationMetrics": {},
        "engineInfo": f"{APP_ID}/{version()}",
        "txnId": txn_id,
        "puffinSidecar": note,
    }
    # Tables with in-commit timestamps require commitInfo to be first.
    actions = [
        {"commitInfo": commit_info},
        {"txn": {"appId": APP_ID, "version": note["version"], "lastUpdated": now_ms}},
    ]
    if has_feature(protocol, "domainMetadata"):
        actions.append({"domainMetadata": {"domain": DOMAIN, "configuration": _json(note), "removed": False}})
    return actions


def _brings_checkpoint(version: int, configuration: Mapping[str, str]) -> bool:
    """Whether an engine that commits this version writes a checkpoint: Spark at multiples, deltalake one earlier."""
    text = configuration.get(_CHECKPOINT_INTERVAL, "")
    interval = int(text) if _INTERVAL.fullmatch(text) else _SPARKS_INTERVAL
    return version % interval == 0 or (version + 1) % interval == 0


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
