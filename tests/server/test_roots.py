"""Only tables below an allowed root are served, and nothing is revealed about others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from puffin.errors import TableNotFound, UsageError
from puffin.server.problems import Problem
from puffin.server.roots import Roots


@pytest.fixture
def places(tmp_path: Path, write_table: Callable[..., Path]) -> Path:
    """
    A root ``in`` and a neighbour ``inside`` that is no root; each has a table, and links lead from one to the other.
    """
    inside = write_table(tmp_path / "in" / "t")
    outside = write_table(tmp_path / "inside" / "t")
    (tmp_path / "in" / "link").symlink_to(outside)
    (tmp_path / "in" / "circle").symlink_to(tmp_path / "in" / "circle")
    (tmp_path / "in" / "alias").symlink_to(inside)
    (tmp_path / "in" / "half").mkdir()
    (tmp_path / "in" / "half" / "metadata").symlink_to(outside / "metadata")
    (tmp_path / "elsewhere").symlink_to(inside)
    return tmp_path


@pytest.mark.parametrize(
    "name", ["{}/in/t", "{}/in/t/", "{}/in/../in/t", "{}/in/alias", "{}/elsewhere", "file://{}/in/t", "file:{}/in/t"]
)
def test_tables_below_a_root_are_served_by_any_path(places: Path, client_of: Callable[..., Any], name: str) -> None:
    """However it is written: it is the place that counts."""
    assert client_of(places / "in").stats(name.format(places)).status_code == 200


@pytest.mark.parametrize(
    "name",
    [
        "{}/inside/t",
        "{}/in/../inside/t",
        "{}/in/link",
        "{}/in/half",
        "{}/in/t/../../inside/t/metadata/v1.metadata.json",
        "file://{}/inside/t",
        "file:///../../..{}/inside/t",
        "file://otherhost{}/in/t",
        "FILE://{}/inside/t",
        "files://{}/in/t",
        "s3://bucket/in/t",
        "local://{}/in/t",
        "in/t",
        "~",
        "-",
        ".",
        "{}/nowhere",
        "{}/in/t\x00",
        "{}/in/t\n",
        "{}/inside/t?x",
        "file:",
        "data:,x",
        "{}/in/../" + "x/../" * 900 + "inside/t",
    ],
)
def test_everything_outside_is_refused_in_the_same_words(
    places: Path, client_of: Callable[..., Any], name: str
) -> None:
    """A refusal tells neither whether the table exists nor where the roots are."""
    client = client_of(places / "in")
    answer = client.stats(name.format(places))
    if answer.status_code == 422:
        assert "\x00" in name or "\n" in name or len(name) > 4096
        return
    assert answer.status_code == 403
    assert answer.json() == client.stats("/nowhere/at/all").json()


@pytest.mark.parametrize(
    "name", ["{}/in/nope", "{}/in/circle", "{}/in/" + "x" * 300, "{}/in/t/metadata/version-hint.text/x"]
)
def test_missing_table_below_a_root_is_404(places: Path, client_of: Callable[..., Any], name: str) -> None:
    assert client_of(places / "in").stats(name.format(places)).status_code == 404


def test_path_is_decoded_once(places: Path, client_of: Callable[..., Any]) -> None:
    """A doubly escaped name means a percent sign, not a way out."""
    client = client_of(places / "in")
    once = f"{places}/in/%2e%2e/inside/t".replace("/", "%2F")
    twice = f"{places}/in/%252e%252e/inside/t".replace("/", "%2F")
    assert client.get(f"/v1/stats?table={once}").status_code == 403
    assert client.get(f"/v1/stats?table={twice}").status_code == 404


def test_no_table_is_served_without_roots_and_catalog(places: Path, client_of: Callable[..., Any]) -> None:
    client = client_of()
    assert client.stats(places / "in" / "t").status_code == 403
    assert client.get("/v1/tables").json()["tables"] == []
    assert client.get("/healthz").status_code == 200


def test_retargeted_link_is_noticed(places: Path, client_of: Callable[..., Any]) -> None:
    """A path is resolved again whenever its table is requested."""
    client = client_of(places / "in", ttl_seconds=0)
    alias = places / "in" / "alias"
    assert client.stats(alias).status_code == 200
    alias.unlink()
    alias.symlink_to(places / "inside" / "t")
    assert client.stats(alias).status_code == 403


@pytest.mark.parametrize("root", ["s3://b/w/", "s3a://b/w", "s3n://b/w"])
@pytest.mark.parametrize("name", ["s3://b/w/t", "S3://b/w/t/x", "s3://b/w", "s3a://b/w/t", "s3n://b/w/t", "S3A://b/w"])
def test_uris_below_a_root_are_served(root: str, name: str) -> None:
    """The three schemes name one store with the same objects."""
    Roots([root]).check(name)
    assert Roots([root]).confine(name) == name


@pytest.mark.parametrize("name", ["s3://b/w/t", "gcs://b/w/t", "s3a://b/w/t"])
def test_other_store_is_outside(name: str) -> None:
    Roots(["gs://b/w"]).check("gs://b/w/t")
    with pytest.raises(Problem):
        Roots(["gs://b/w"]).check(name)


@pytest.mark.parametrize(
    "name",
    ["s3://b/wide/t", "s3a://b/wide/t", "s3b://b/w/t", "s3a://bb/w/t", "s3://bb/w/t",
     "s3://b/w/../x", "s3://b/w/./t", "s3://b/w//t", "s3://b/w/t?versionId=1",
     "s3://u:p@b/w/t", "s3:/b/w/t", "s3://b/w\\..\\x", "/w/t"],
)  # fmt: skip
def test_other_uris_are_outside(name: str) -> None:
    """Schemes and authorities are compared whole, and no segment is left for a file system to resolve."""
    with pytest.raises(Problem):
        Roots(["s3://b/w"]).check(name)


@pytest.mark.parametrize("root", ["relative", "/no/such/directory", "s3://b/../w", "s3://b/w?x", ""])
def test_ambiguous_root_is_refused(root: str) -> None:
    with pytest.raises(UsageError):
        Roots([root])


def test_root_may_be_a_table_itself(places: Path) -> None:
    roots = Roots([str(places / "in" / "t")])
    roots.check(str(places / "in" / "t"))
    with pytest.raises(TableNotFound):
        roots.check(str(places / "in" / "t" / "x"))
