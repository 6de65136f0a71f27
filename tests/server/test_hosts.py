"""On a loopback interface the server answers only to its own names, so that web pages cannot impersonate it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from puffin.errors import UsageError
from puffin.server.hosts import Hosts


def includes(hosts: Hosts, *named: str) -> bool:
    return hosts.include([(b"accept", b"*/*"), *((b"host", name.encode()) for name in named)])


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.5", "::1"])
@pytest.mark.parametrize("name", ["localhost", "LocalHost:8680", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8680"])
def test_loopback_answers_to_its_names_at_any_port(address: str, name: str) -> None:
    """A tunnel or a proxy on this machine has its own port."""
    assert includes(Hosts.at(address, ()), name)


@pytest.mark.parametrize(
    "name",
    ["evil.example", "evil.example:8680", "127.0.0.1.evil.example", "localhost.evil.example", "localhost@evil.example",
     "192.0.2.1", "127.0.0.2", "[::2]", "[::1", "", ":1"],
)  # fmt: skip
def test_loopback_answers_to_no_other_name(name: str) -> None:
    assert not includes(Hosts.at("127.0.0.1", ()), name)


def test_request_without_a_host_or_with_two_is_refused() -> None:
    hosts = Hosts.at("127.0.0.1", ())
    assert not includes(hosts)
    assert not includes(hosts, "localhost", "evil.example")


def test_operator_can_allow_more_names() -> None:
    hosts = Hosts.at("127.0.0.5", ["Planner.internal", "[fd00::1]"])
    assert all(includes(hosts, name) for name in ("planner.internal:80", "[FD00::1]:80", "localhost", "127.0.0.5"))
    assert not includes(hosts, "other.internal")


def test_other_interfaces_answer_to_any_name_unless_some_are_given() -> None:
    assert includes(Hosts.at("0.0.0.0", ()), "anything.example")
    assert includes(Hosts.at("0.0.0.0", ()))
    assert not includes(Hosts.at("0.0.0.0", ["planner.internal"]), "anything.example")
    assert includes(Hosts.at("192.0.2.1", ["planner.internal"]), "192.0.2.1")


@pytest.mark.parametrize("name", ["", "a b", "host:80", "http://host", "*", "::1"])
def test_invalid_host_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="--allow-host"):
        Hosts.at("127.0.0.1", [name])


@pytest.mark.parametrize("path", ["/v1/stats?table=/x", "/v1/tables", "/", "/healthz", "/metrics", "/nowhere"])
def test_every_path_checks_the_host(tmp_path: Path, client_of: Callable[..., Any], path: str) -> None:
    """Before the token too, so that a request for another host learns nothing."""
    client = client_of(tmp_path, hosts=Hosts.at("127.0.0.1", ()), token=b"x")
    refused = client.get(path, headers={"Host": "evil.example"})
    assert (refused.status_code, refused.headers["content-type"]) == (421, "application/problem+json")
    assert refused.json()["type"] == "urn:puffin-sidecar:problem:misdirected"
    assert client.get(path, headers={"Host": "localhost", "Authorization": "Bearer x"}).status_code != 421


def test_cached_answer_checks_the_host_too(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path]
) -> None:
    client = client_of(tmp_path, hosts=Hosts.at("127.0.0.1", ()), ttl_seconds=60)
    asked = {"params": {"table": str(write_table(tmp_path / "t"))}}
    assert client.get("/v1/stats", **asked, headers={"Host": "localhost"}).status_code == 200
    assert client.get("/v1/stats", **asked, headers={"Host": "evil.example"}).status_code == 421
