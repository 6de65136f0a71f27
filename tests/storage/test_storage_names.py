"""Names of files: paths and URIs, and which of them mean the same place."""

from pathlib import Path

import pytest

from puffin.errors import (
    UsageError,
)
from puffin.storage import is_same_place, join, local_path, place_of
from puffin.storage.uri import filesystem_path


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("a/b.puffin", "a/b.puffin"),
        ("/a/b.puffin", "/a/b.puffin"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("FILE:///a/b", "/a/b"),
        ("file://localhost/a/b", "/a/b"),
        ("file:/a%20b/c d?e=%2F", "/a%20b/c d?e=%2F"),
        ("c:/odd", "c:/odd"),
        ("day:one/b", "day:one/b"),
    ],
)
def test_local_path_is_used_unchanged(uri: str, path: str) -> None:
    assert local_path(uri) == Path(path)


@pytest.mark.parametrize("uri", ["s3://bucket/key", "hdfs:/a", "memory://x"])
def test_other_schemes_have_no_local_path(uri: str) -> None:
    assert local_path(uri) is None


@pytest.mark.parametrize("uri", ["", "file:a", "file:", "file://host/a"])
def test_invalid_file_uris_are_refused(uri: str) -> None:
    with pytest.raises(UsageError):
        local_path(uri)


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("s3://bucket/a%3Ab/c d", "bucket/a%3Ab/c d"),
        ("s3://bucket/a?region=x", "bucket/a"),
        ("gs://anonymous@bucket/a", "bucket/a"),
        ("hdfs://name:8020/a", "/a"),
        ("abfss://container@account.dfs.core.windows.net/a", "container/a"),
        ("/plain/path", "/plain/path"),
    ],
)
def test_filesystem_path_equals_pyarrows(uri: str, path: str) -> None:
    assert filesystem_path(uri) == path


@pytest.mark.parametrize(
    ("base", "joined"),
    [
        ("s3://b/t", "s3://b/t/metadata/x.stats"),
        ("s3://b", "s3://b/metadata/x.stats"),
        ("file:/t/", "file:/t/metadata/x.stats"),
        ("file:///", "file:/metadata/x.stats"),
        ("/", "/metadata/x.stats"),
        ("t", "t/metadata/x.stats"),
    ],
)
def test_join_keeps_the_form_of_its_base(base: str, joined: str) -> None:
    assert join(base, "metadata/", "/x.stats") == joined


def test_join_refuses_an_empty_base() -> None:
    """It would otherwise name something in the root directory."""
    with pytest.raises(UsageError):
        join("", "x")


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("s3://bucket/t/", True),
        ("s3a://bucket/t", True),
        ("s3://key:secret@bucket/t?region=x", True),
        ("s3://bucket/t2", False),
        ("s3://other/t", False),
        ("gs://bucket/t", False),
        ("/bucket/t", False),
    ],
)
def test_equivalent_schemes_name_the_same_place(other: str, same: bool) -> None:
    assert is_same_place("s3://bucket/t", other) is same


def test_schemes_of_one_store_name_the_same_place() -> None:
    assert is_same_place("gcs://bucket/t", "gs://bucket/t")
    assert is_same_place("abfs://c@us.dfs.core.windows.net/t", "abfss://c@us.dfs.core.windows.net/t/")
    assert not is_same_place("gcs://bucket/t", "abfs://bucket/t")


def test_account_is_part_of_the_place() -> None:
    one, other = (f"abfss://c@{account}.dfs.core.windows.net/t" for account in ("us", "them"))
    assert not is_same_place(one, other)


def test_local_place_is_the_same_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "t")
    assert is_same_place(f"file:{tmp_path}/t", f"{tmp_path}/link/")
    assert not is_same_place(f"{tmp_path}/t", str(tmp_path))


def test_name_that_nothing_can_have_is_no_other_place(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    names = ("file:here", "", "a\0b", f"{tmp_path}/loop", str(tmp_path))
    assert len({place_of(name) for name in names}) == len(names)
