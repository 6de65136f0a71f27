"""Writing an object only if it does not exist: who asks, who wins, and what is known after a failure."""

from __future__ import annotations

import sys
import threading

import pytest
from pyarrow.fs import AzureFileSystem, FileSystem, GcsFileSystem, S3FileSystem

from puffin.errors import (
    CommitUnknownError,
    ConflictError,
    MissingDependencyError,
    PuffinError,
    StorageError,
    UnsupportedError,
)
from puffin.iceberg.stores import stores
from puffin.storage import new_objects, store_for


@pytest.fixture(autouse=True)
def unknown_servers(monkeypatch):
    """Each test meets the server for the first time."""
    monkeypatch.setattr(new_objects, "_probed", set())


@pytest.fixture
def impatient(monkeypatch):
    """Requests to a failing server are not retried."""
    monkeypatch.setattr(new_objects, "_RETRIES", {"max_retries": 0})


def test_one_of_many_concurrent_writers_wins(s3_environment, place):
    """Eight writers at once, five times."""
    for turn in range(5):
        uri = f"s3://{place}/{turn}"
        won, lost = [], []
        start = threading.Barrier(8)

        def write(name, uri=uri, won=won, lost=lost, start=start):
            store = store_for(uri)
            start.wait()
            try:
                store.put_if_absent(uri, name)
                won.append(name)
            except ConflictError:
                lost.append(name)

        writers = [threading.Thread(target=write, args=(b"%d" % i,)) for i in range(8)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert (len(won), len(lost)) == (1, 7)
        assert store_for(uri).read(uri) == won[0]


@pytest.mark.parametrize("name", ["a b", "a%20b", "é", "k=v", "a+b", "#1", "[x]", "~"])
def test_reader_and_writer_agree_on_object_names(s3_environment, place, name):
    uri = f"s3://{place}/{name}/v1.json"
    store = store_for(uri)
    store.put_if_absent(uri, b"1")
    assert store.read(uri) == b"1"
    with pytest.raises(ConflictError, match="the file exists already"):
        store.put_if_absent(uri, b"2")
    store.replace(f"s3://{place}/{name}/hint", b"1")
    with pytest.raises(ConflictError):
        store.put_if_absent(f"s3://{place}/{name}/hint", b"2")


def test_endpoint_of_the_uri_wins_over_the_environment(s3, place, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "sidecar")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-tests")
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    host = s3.url.removeprefix("http://")
    uri = f"s3://{place}/new?endpoint_override={host}&scheme=http&region=eu-central-1"
    store_for(uri).put_if_absent(uri, b"x")
    assert s3.files(place) == {"new": b"x"}


def test_catalog_keys_win_over_the_environment(s3, place, monkeypatch):
    """A session token of the environment would belong to other keys."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    store = stores(s3.io_properties)(f"s3://{place}/new")
    store.put_if_absent(f"s3://{place}/new", b"x")
    assert s3.files(place) == {"new": b"x"}


def test_keys_of_a_profile_are_found(s3, place, monkeypatch, tmp_path):
    """obstore alone does not look for them."""
    (tmp_path / "credentials").write_text(
        "[other]\naws_access_key_id = sidecar\naws_secret_access_key = of-the-tests\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "other")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    uri = f"s3a://{place}/new"
    store_for(uri).put_if_absent(uri, b"x")
    assert store_for(uri).read(uri) == b"x"


def test_store_is_probed_once_and_left_clean(s3_environment, place):
    store = store_for(f"s3://{place}/a")
    store.check_put_if_absent(f"s3://{place}/a")
    assert s3_environment.files("lake").keys() & {f"{place}/a"} == set()
    probed = len(s3_environment.requests)
    store.check_put_if_absent(f"s3://{place}/b")
    store_for(f"s3://{place}/a").put_if_absent(f"s3://{place}/a", b"x")
    assert [method for method, _ in s3_environment.requests[probed:] if method != "GET"] == ["PUT"]
    assert s3_environment.files(place) == {"a": b"x"}


def test_probe_passes_if_the_answer_to_its_first_put_is_lost(s3_environment, place):
    """The retry finds the probe, so the server honors the condition."""
    lost = iter(["lose the answer"])
    s3_environment.fault = lambda _: next(lost, None)
    store_for(f"s3://{place}/a").check_put_if_absent(f"s3://{place}/a")
    assert next(lost, "asked for") == "asked for"
    assert s3_environment.files(place) == {}


def test_server_without_conditional_puts_is_refused(s3_environment, place):
    s3_environment.is_deaf_to_conditions = True
    store = store_for(f"s3://{place}/a")
    for ask in (store.check_put_if_absent, lambda uri: store.put_if_absent(uri, b"x")):
        with pytest.raises(UnsupportedError, match=rf"^s3://{place}/a: the server ignores If-None-Match"):
            ask(f"s3://{place}/a")
    assert s3_environment.files("lake").keys() & {f"{place}/a"} == set()


def test_rejected_keys_are_a_storage_error(s3_environment, place, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    with pytest.raises(StorageError, match=r"^s3://[^\n<]*403 Forbidden$"):
        store_for(f"s3://{place}/a").put_if_absent(f"s3://{place}/a", b"x")


def test_missing_keys_are_a_storage_error(s3, place, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    with pytest.raises(StorageError, match="no AWS credentials"):
        store_for(f"s3://{place}/a").check_put_if_absent(f"s3://{place}/a")


def test_missing_bucket_is_a_storage_error(s3_environment):
    with pytest.raises(StorageError, match=r"^s3://absent/a: .*404 Not Found$"):
        store_for("s3://absent/a").put_if_absent("s3://absent/a", b"x")


def test_put_that_succeeded_but_reported_failure_is_detected(s3_environment, place, impatient):
    """The answer is lost; the object itself shows what happened."""
    store, uri = store_for(f"s3://{place}/a"), f"s3://{place}/a"
    store.check_put_if_absent(uri)
    s3_environment.fault = lambda path: "lose the answer" if path.endswith("/a") else None
    with pytest.raises(CommitUnknownError, match=rf"^s3://{place}/a: .*500 Internal Server Error$"):
        store.put_if_absent(uri, b"ours")
    store.put_once(uri, b"ours")
    with pytest.raises(ConflictError, match="another writer was faster"):
        store.put_once(uri, b"theirs")
    s3_environment.fault = lambda _: "fail"
    with pytest.raises(CommitUnknownError):
        store.put_once(f"s3://{place}/b", b"ours")


def test_retried_put_recognizes_its_own_object(s3_environment, place):
    lost = iter(["lose the answer"])
    store, uri = store_for(f"s3://{place}/a"), f"s3://{place}/a"
    store.check_put_if_absent(uri)
    s3_environment.fault = lambda _: next(lost, None)
    store.put_once(uri, b"ours")
    assert s3_environment.files(place) == {"a": b"ours"}


@pytest.mark.parametrize("library", ["obstore.store", "botocore.session"])
def test_missing_extra_says_what_to_install(s3_environment, place, monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingDependencyError, match=r"pip install '.\[object-stores\]'"):
        store_for(f"s3://{place}/a").check_put_if_absent(f"s3://{place}/a")


def test_failed_upload_leaves_no_object(s3_environment, place, monkeypatch):
    """pyarrow publishes what it has when a stream is closed, even by an exception."""

    def interrupted() -> None:
        with s3_environment.filesystem().open_output_stream(f"{place}/arrow") as stream:
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert s3_environment.files(place) == {"arrow": b"half"}

    def half_a_copy(source, target, size):
        target.write(source.read(2))
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.copyfileobj", half_a_copy)
    store = store_for(f"s3://{place}/ours")
    with pytest.raises(KeyboardInterrupt), store.create(f"s3://{place}/ours") as sink:
        sink.write(b"whole")
    assert s3_environment.files(place).keys() == {"arrow"}


def test_multipart_upload_with_a_failed_part_leaves_no_object(s3_environment, place):
    """Twelve MiB go in two parts, of which the store takes one."""
    answers = iter([None, "refuse"])
    uri = f"s3://{place}/large"
    store = store_for(uri)
    s3_environment.fault = lambda _: next(answers)
    with pytest.raises(PuffinError, match=rf"^{uri}: "), store.create(uri) as sink:
        sink.write(bytes(12 * 2**20))
    assert next(answers, "both were asked for") == "both were asked for"
    assert s3_environment.files(place) == {}


def settings_of(filesystem: FileSystem):
    store = new_objects._MAKERS[filesystem.type_name](new_objects._options(filesystem), "lake")
    return store.config, store.client_options


def test_s3_writer_uses_the_proxies_and_hosts_of_the_file_system(s3):
    config, client = settings_of(
        S3FileSystem(
            access_key="k",
            secret_key="s",
            region="eu-west-1",
            endpoint_override="https://objects.example:9000",
            force_virtual_addressing=True,
            proxy_options="http://me:se%40cr%2Fet@proxy.example:3128",
        )
    )
    assert config["endpoint"] == "https://lake.objects.example:9000"
    assert config["virtual_hosted_style_request"] in (True, "true")
    assert config["region"] == "eu-west-1"
    assert client["proxy_url"] == "http://me:se%40cr%2Fet@proxy.example:3128"


def test_gcs_writer_uses_the_endpoint_of_the_file_system():
    config, client = settings_of(GcsFileSystem(anonymous=True, scheme="http", endpoint_override="127.0.0.1:4443"))
    assert (config["base_url"], client["allow_http"]) == ("http://127.0.0.1:4443", "true")


def test_azure_writer_uses_the_endpoint_of_the_file_system():
    key = "a2V5"
    config, _ = settings_of(AzureFileSystem(account_name="us", account_key=key))
    assert (config["endpoint"], config["account_key"]) == ("https://us.blob.core.windows.net", key)
    emulated = {"blob_storage_authority": "127.0.0.1:10000", "blob_storage_scheme": "http"}
    config, _ = settings_of(AzureFileSystem(account_name="us", account_key=key, **emulated))
    assert config["endpoint"] == "http://127.0.0.1:10000/us"
