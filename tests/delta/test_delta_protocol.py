"""Which tables can be read, and to which logs we may append an entry."""

import pytest

from puffin.delta.log.actions import Protocol
from puffin.delta.log.protocol import (
    CATALOG_MANAGED,
    READER_FEATURES,
    WRITER_FEATURES,
    check_readable,
    check_writable,
    has_feature,
    in_commit_timestamps_enabled,
)
from puffin.errors import UnsupportedTableError


def protocol(reader=3, writer=7, reader_features=(), writer_features=()):
    """A protocol with features where its versions list them."""
    return Protocol(
        reader,
        writer,
        frozenset(reader_features) if reader >= 3 else None,
        frozenset(writer_features) | frozenset(reader_features) if writer >= 7 else None,
    )


@pytest.mark.parametrize(("reader", "writer"), [(1, 1), (1, 2), (1, 6), (2, 5), (1, 7), (2, 7), (3, 7)])
def test_every_known_version_can_be_read_and_written(reader, writer):
    check_readable(protocol(reader, writer), "t")
    check_writable(protocol(reader, writer), {}, "t")


@pytest.mark.parametrize("feature", sorted(READER_FEATURES))
def test_known_reader_feature_can_be_read(feature):
    check_readable(protocol(reader_features=[feature]), "t")


@pytest.mark.parametrize("feature", sorted(WRITER_FEATURES))
def test_known_writer_feature_allows_appending(feature):
    check_writable(protocol(writer_features=[feature]), {}, "t")


def test_writer_features_do_not_hinder_reading():
    check_readable(protocol(writer_features=["whatever", "rowTracking"]), "t")


def test_unknown_reader_feature_is_refused_by_name():
    with pytest.raises(UnsupportedTableError) as caught:
        check_readable(protocol(reader_features=["zorderV9", "columnMapping", "adaptiveMetadata-preview"]), "s3://b/t")
    assert str(caught.value) == (
        "s3://b/t: Delta reader features that are not supported: adaptiveMetadata-preview, zorderV9"
    )


def test_later_reader_version_is_refused():
    with pytest.raises(UnsupportedTableError, match=r"^t: expected a Delta reader version up to 3, found 4$"):
        check_readable(protocol(4), "t")


@pytest.mark.parametrize(
    ("table", "configuration", "reason"),
    [
        (protocol(writer=8), {}, "expected a Delta writer version up to 7, found 8"),
        (protocol(writer_features=["b", "appendOnly", "a"]), {}, "Delta writer features that are not supported: a, b"),
        (protocol(reader_features=["new"]), {}, "Delta writer features that are not supported: new"),
        (
            protocol(writer_features=["coordinatedCommits-preview"]),
            {},
            "Delta writer features that are not supported: coordinatedCommits-preview",
        ),
        (
            protocol(writer_features=["inCommitTimestamp"]),
            {"delta.coordinatedCommits.commitCoordinator-preview": "dynamodb"},
            "a coordinator alone commits to the table (property delta.coordinatedCommits.commitCoordinator-preview)",
        ),
        *[
            (protocol(reader_features=[name]), {}, f"the table's catalog alone commits to it (Delta feature {name})")
            for name in sorted(CATALOG_MANAGED)
        ],
    ],
)  # fmt: skip
def test_log_that_we_may_not_append_to_is_refused_with_a_way_out(table, configuration, reason):
    with pytest.raises(UnsupportedTableError) as caught:
        check_writable(table, configuration, "t")
    says = f"t: {reason}: leave commits to its own writers, or use puffin analyze --no-commit (in Python commit=False)"
    assert str(caught.value) == says


def test_catalog_managed_table_can_still_be_read():
    check_readable(protocol(reader_features=["catalogManaged"]), "t")


def test_each_feature_is_of_readers_or_of_writers():
    both = protocol(reader_features=["deletionVectors"], writer_features=["domainMetadata"])
    assert has_feature(both, "deletionVectors")
    assert has_feature(both, "domainMetadata")
    assert not has_feature(both, "rowTracking")
    assert not has_feature(protocol(1, 2), "domainMetadata")


def test_in_commit_timestamps_need_the_feature_and_the_property():
    feature = protocol(writer_features=["inCommitTimestamp"])
    on = {"delta.enableInCommitTimestamps": "true"}
    assert in_commit_timestamps_enabled(feature, on)
    assert not in_commit_timestamps_enabled(feature, {})
    assert not in_commit_timestamps_enabled(feature, {"delta.enableInCommitTimestamps": "false"})
    assert not in_commit_timestamps_enabled(protocol(1, 2), on)
