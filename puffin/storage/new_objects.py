"""
Conditional puts to object stores, which commits need and pyarrow's file systems do not offer.

obstore sends the condition as a header of the put (``If-None-Match: *``, on GCS ``x-goog-if-generation-match: 0``). It
gets bucket, endpoint, region and credentials from the pyarrow file system that reads the table, whose options can only
be read by pickling it. botocore resolves profiles and roles, which pyarrow leaves to the AWS SDK.

A server that imitates S3 may ignore the header and overwrite the object, and then commits get lost silently. So a probe
of two puts tests every bucket once, unless the endpoint is AWS itself.
"""

from __future__ import annotations

import datetime
import os
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from puffin.errors import (
    CommitUnknownError,
    ConflictError,
    MissingDependencyError,
    PuffinError,
    StorageError,
    UnsupportedError,
)
from puffin.storage.store import exists_already, said_by_storage

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store
    from pyarrow.fs import FileSystem

EXTRA = "object-stores"
_INSTEAD = "use a catalog, or puffin analyze --no-commit (in Python commit=False)"

_ObjectStore: TypeAlias = "AzureStore | GCSStore | S3Store"

_RETRIES: Any = {"max_retries": 3, "retry_timeout": datetime.timedelta(seconds=30)}
_ANY_REGION = "us-east-1"  # for servers without regions, which still check the signature

_probed: set[tuple[str, str]] = set()
"""The endpoints and buckets that have passed the probe."""


def put_new_object(filesystem: FileSystem, uri: str, path: str, data: bytes) -> None:
    """Put an object at a path, bucket first, as `puffin.storage.store.Store.put_if_absent` does."""
    store, key = store_of_new_objects(filesystem, uri, path)
    _put(store, uri, key, data)


def store_of_new_objects(filesystem: FileSystem, uri: str, path: str) -> tuple[_ObjectStore, str]:
    """The checked store and the key in it; raises what `put_new_object` raises if the store is unsuitable."""
    bucket, _, key = path.partition("/")
    maker = _MAKERS.get(filesystem.type_name)
    if maker is None:
        raise UnsupportedError(
            f"{uri}: a commit needs a store with conditional puts, and {filesystem.type_name} has none: {_INSTEAD}"
        )
    try:
        import obstore.store  # noqa: F401 - only to check that it is installed
    except ImportError as exc:
        raise MissingDependencyError("obstore", EXTRA) from exc
    try:
        store = maker(_options(filesystem), bucket)
    except PuffinError:
        raise
    except Exception as exc:  # obstore and botocore reject the configuration in many ways
        raise StorageError(f"{uri}: {said_by_storage(exc)}") from exc
    endpoint = str(store.config.get("endpoint", "")) if filesystem.type_name == "s3" else ""
    if endpoint and (endpoint, bucket) not in _probed:
        _probe(filesystem, store, uri, bucket, key)
        _probed.add((endpoint, bucket))
    return store, key


def _probe(filesystem: FileSystem, store: _ObjectStore, uri: str, bucket: str, key: str) -> None:
    import obstore

    directory, slash, _ = key.rpartition("/")
    probe = f"{directory}{slash}.puffin-sidecar-{uuid.uuid4().hex}.probe"
    try:
        _put(store, uri, probe, b"")
        obstore.put(store, probe, b"", mode="create", use_multipart=False)
    except (obstore.exceptions.AlreadyExistsError, ConflictError):
        return  # the first put can report this too: its answer was lost, and the retry found the probe
    except CommitUnknownError as exc:
        raise StorageError(str(exc)) from exc
    except obstore.exceptions.BaseError as exc:
        raise StorageError(f"{uri}: {said_by_storage(exc)}") from exc
    finally:
        with suppress(OSError):
            filesystem.delete_file(f"{bucket}/{probe}")
    raise UnsupportedError(
        f"{uri}: the server ignores If-None-Match and overwrites objects, so commits of others would be lost: "
        f"{_INSTEAD}"
    )


def _put(store: _ObjectStore, uri: str, key: str, data: bytes) -> None:
    import obstore
    from obstore import exceptions

    not_written = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, exceptions.NotSupportedError)
    try:
        obstore.put(store, key, data, mode="create", use_multipart=False)
    except exceptions.AlreadyExistsError as exc:
        raise exists_already(uri) from exc
    except (*not_written, FileNotFoundError, ValueError) as exc:  # FileNotFoundError: the bucket does not exist
        raise StorageError(f"{uri}: {said_by_storage(exc)}") from exc
    except Exception as exc:  # such as a timeout after the last byte
        raise CommitUnknownError(f"{uri}: {said_by_storage(exc)}") from exc


def _s3(options: Mapping[str, Any], bucket: str) -> _ObjectStore:
    from obstore.store import S3Store

    region, credentials = _aws_identity(options, bucket)
    config: Any = {"conditional_put": "etag", "region": region, "skip_signature": credentials is None}
    client: Any = {}
    if endpoint := options["endpoint_override"]:
        scheme, separator, host = endpoint.rpartition("://")
        scheme = scheme if separator else options["scheme"]
        if virtual := options.get("force_virtual_addressing", False):
            host = f"{bucket}.{host}"
        # Both names, because the environment's value of the second would take precedence.
        config |= dict.fromkeys(("endpoint", "aws_endpoint_url_s3"), f"{scheme}://{host}")
        config["virtual_hosted_style_request"] = virtual
        client["allow_http"] = scheme == "http"
    if (proxy := options.get("proxy_options") or {}).get("host"):
        user, password = (quote(proxy[name], safe="") for name in ("username", "password"))  # pyarrow decodes them
        login = f"{user}:{password}@" if user else ""
        client["proxy_url"] = f"{proxy['scheme']}://{login}{proxy['host']}:{proxy['port']}"
    # A function, because obstore would add a session token of the environment to plain keys.
    provider: Any = None if credentials is None else lambda: credentials
    return S3Store(bucket, **config, client_options=client, retry_config=_RETRIES, credential_provider=provider)


def _gcs(options: Mapping[str, Any], bucket: str) -> _ObjectStore:
    from obstore.store import GCSStore

    config: Any = {"skip_signature": options["anonymous"]}
    if endpoint := options["endpoint_override"]:
        config["base_url"] = f"{options['scheme']}://{endpoint}"
    token: Any = {"token": options["access_token"], "expires_at": options["credential_token_expiration"]}
    return GCSStore(
        bucket,
        config=config,
        client_options={"allow_http": options["scheme"] == "http"},
        retry_config=_RETRIES,
        credential_provider=(lambda: token) if options["access_token"] else None,
    )


def _azure(options: Mapping[str, Any], bucket: str) -> _ObjectStore:
    from obstore.store import AzureStore

    account, authority = options["account_name"], options["blob_storage_authority"]
    # An authority that begins with a dot is a domain with a host per account.
    where = f"{account}{authority}" if authority.startswith(".") else f"{authority}/{account}"
    config: Any = {"account_name": account, "endpoint": f"{options['blob_storage_scheme']}://{where}"}
    names = {"account_key": "account_key", "sas_key": "sas_token"}
    names |= {name: name for name in ("client_id", "client_secret", "tenant_id")}
    config |= {ours: options[theirs] for ours, theirs in names.items() if options.get(theirs)}
    client: Any = {"allow_http": options["blob_storage_scheme"] == "http"}
    return AzureStore(bucket, config=config, client_options=client, retry_config=_RETRIES)


_MAKERS: Mapping[str, Callable[[Mapping[str, Any], str], _ObjectStore]] = {"s3": _s3, "gcs": _gcs, "abfs": _azure}
"""By the ``type_name`` of a pyarrow file system."""


def _aws_identity(options: Mapping[str, Any], bucket: str) -> tuple[str, Any]:
    """The region, and the credentials in obstore's form or None for unsigned requests."""
    try:
        from botocore.session import Session
    except ImportError as exc:
        raise MissingDependencyError("botocore", EXTRA) from exc
    session = Session()
    variables = (os.environ.get(name) for name in ("AWS_REGION", "AWS_DEFAULT_REGION"))
    region = options["region"] or next(filter(None, variables), None) or session.get_config_variable("region")
    if not region:
        from pyarrow.fs import resolve_s3_region

        region = _ANY_REGION if options["endpoint_override"] else str(resolve_s3_region(bucket))
    if options["anonymous"]:
        return region, None
    if options["access_key"]:
        return region, _aws_credentials(options["access_key"], options["secret_key"], options["session_token"])
    if options["role_arn"]:
        asked = {"RoleArn": options["role_arn"], "RoleSessionName": options["session_name"] or f"puffin-{uuid.uuid4()}"}
        if options["external_id"]:
            asked["ExternalId"] = options["external_id"]
        assumed = session.create_client("sts", region_name=region).assume_role(**asked)["Credentials"]
        return region, _aws_credentials(assumed["AccessKeyId"], assumed["SecretAccessKey"], assumed["SessionToken"])
    found = session.get_credentials()
    if found is None:
        raise StorageError(f"bucket {bucket}: no AWS credentials in the environment, a profile or a role")
    frozen = found.get_frozen_credentials()
    return region, _aws_credentials(frozen.access_key, frozen.secret_key, frozen.token)


def _aws_credentials(access_key: str, secret_key: str, token: str | None) -> dict[str, Any]:
    return {"access_key_id": access_key, "secret_access_key": secret_key, "token": token or None, "expires_at": None}


def _options(filesystem: FileSystem) -> Mapping[str, Any]:
    """The options of the file system, including an endpoint from the environment."""
    _, (options, *_) = filesystem.__reduce__()[:2]
    return dict(options)
