"""
What a Delta table's protocol requires of readers and writers, and whether we can meet it.

A table states its requirements by version numbers, and from reader version 3 and writer version 7 on by feature names.
To read means to find the live rows and the values of columns. To write means to append an entry that changes no files
and no metadata; nearly all writer features concern files, rows or metadata, so such an entry meets them. An unknown
feature is refused, since it may mean anything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from puffin.delta.log.actions import Protocol
from puffin.errors import UnsupportedTableError

MAX_READER_VERSION = 3
MAX_WRITER_VERSION = 7

CATALOG_MANAGED = frozenset({"catalogManaged", "catalogManaged-preview", "catalogOwned-preview"})
"""Only the catalog accepts commits. Published commits are in the log and can be read there."""

READER_FEATURES = CATALOG_MANAGED | {
    *("columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview"),
    *("v2Checkpoint", "vacuumProtocolCheck"),
    # Columns of this type have no values to hash.
    *("variantType", "variantType-preview", "variantShredding", "variantShredding-preview"),
}

WRITER_FEATURES = (READER_FEATURES - CATALOG_MANAGED) | {
    *("allowColumnDefaults", "appendOnly", "changeDataFeed", "checkConstraints", "checkpointProtection"),
    *("clustering", "collations", "collations-preview", "domainMetadata", "generatedColumns"),
    *("icebergCompatV1", "icebergCompatV2", "icebergCompatV3", "icebergWriterCompatV1", "icebergWriterCompatV3"),
    *("identityColumns", "inCommitTimestamp", "invariants", "materializePartitionColumns", "rowTracking"),
}

_COMMIT_COORDINATOR = "delta.coordinatedCommits.commitCoordinator-preview"
_IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"


def check_readable(protocol: Protocol, where: str) -> None:
    """Raise UnsupportedTableError for an unknown reader version or reader feature."""
    if protocol.min_reader_version > MAX_READER_VERSION:
        raise UnsupportedTableError(
            f"{where}: expected a Delta reader version up to {MAX_READER_VERSION}, found {protocol.min_reader_version}"
        )
    if unknown := _unknown(protocol.reader_features, READER_FEATURES):
        raise UnsupportedTableError(f"{where}: Delta reader features that are not supported: {unknown}")


def check_writable(protocol: Protocol, configuration: Mapping[str, str], where: str) -> None:
    """
    Raise UnsupportedTableError for a table to whose log we must not append by writing the next file.

    Either something else decides on its commits, or its writer version or a writer feature is unknown.
    """
    reason = _why_not_writable(protocol, configuration)
    if reason is not None:
        raise UnsupportedTableError(
            f"{where}: {reason}: leave commits to its own writers, or use puffin analyze --no-commit "
            "(in Python commit=False)"
        )


def has_feature(protocol: Protocol, name: str) -> bool:
    """Whether the protocol names a feature, for readers or for writers."""
    return name in (protocol.reader_features or ()) or name in (protocol.writer_features or ())


def in_commit_timestamps_enabled(protocol: Protocol, configuration: Mapping[str, str]) -> bool:
    """Whether every commit must state its time, later than that of the commit before."""
    is_set = configuration.get(_IN_COMMIT_TIMESTAMPS, "").lower() == "true"
    return is_set and has_feature(protocol, "inCommitTimestamp")


def _why_not_writable(protocol: Protocol, configuration: Mapping[str, str]) -> str | None:
    features = (protocol.reader_features or frozenset()) | (protocol.writer_features or frozenset())
    if features & CATALOG_MANAGED:
        return f"the table's catalog alone commits to it (Delta feature {_listed(features & CATALOG_MANAGED)})"
    if configuration.get(_COMMIT_COORDINATOR):
        return f"a coordinator alone commits to the table (property {_COMMIT_COORDINATOR})"
    if protocol.min_writer_version > MAX_WRITER_VERSION:
        return f"expected a Delta writer version up to {MAX_WRITER_VERSION}, found {protocol.min_writer_version}"
    unknown = _unknown(features, WRITER_FEATURES)
    return f"Delta writer features that are not supported: {unknown}" if unknown else None


def _unknown(features: Collection[str] | None, known: Collection[str]) -> str:
    return _listed(set(features or ()).difference(known))


def _listed(features: Collection[str]) -> str:
    return ", ".join(sorted(features))
