"""Opens ``s3://bucket/prefix``."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from headgate.checkpoint.storage.objects import ObjectDisk
from headgate.checkpoint.storage.settings import StorageSettings
from headgate.common.errors import ConfigError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Config

REQUEST_TIMEOUT: Final = timedelta(seconds=60)
CONNECT_TIMEOUT: Final = timedelta(seconds=5)
RETRIES: Final = 4
RETRY_TIMEOUT: Final = timedelta(seconds=90)


def open_s3(
    uri: str,
    settings: StorageSettings,
    request_timeout: timedelta = REQUEST_TIMEOUT,
    retries: int = RETRIES,
) -> ObjectDisk:
    """The disk of a bucket, or of what is below a prefix in it. Nothing is asked of it yet.

    What is None in `settings` comes from the variables ``AWS_*``, or from the machine's role.
    """
    parts = urlsplit(uri)
    prefix = unquote(parts.path).strip("/")
    if not parts.netloc or parts.query or parts.fragment:
        raise ConfigError(f"checkpoint storage {uri!r} names no bucket; use s3://bucket/prefix")
    try:
        from obstore.store import S3Store
    except ImportError:
        raise ConfigError(
            f"checkpoint storage {uri!r} needs the package obstore; install it with: "
            "pip install 'headgate[s3]'"
        ) from None
    endpoint = settings.s3_endpoint or _named("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    client: ClientConfig = {
        "allow_http": endpoint is not None and endpoint.startswith("http://"),
        "timeout": request_timeout,
        "connect_timeout": CONNECT_TIMEOUT,
    }

    def store(count: int) -> S3Store:
        return S3Store(
            parts.netloc,
            prefix=prefix or None,
            config=_config(settings, endpoint, parts.netloc),
            client_options=client,
            retry_config={"max_retries": count, "retry_timeout": RETRY_TIMEOUT},
        )

    return ObjectDisk(store(retries), store(0), f"s3://{parts.netloc}/{parts.path.strip('/')}")


def _named(*variables: str) -> str | None:
    """The first of some variables of the environment that is set."""
    return next((value for name in variables if (value := os.environ.get(name))), None)


def _config(settings: StorageSettings, endpoint: str | None, bucket: str) -> S3Config:
    found: S3Config = {}
    style = settings.s3_path_style
    in_path = endpoint is not None if style is None else style
    if style is not None or endpoint is None:
        found["virtual_hosted_style_request"] = not in_path
    if endpoint is not None:
        found["endpoint"] = endpoint if in_path else endpoint.replace("://", f"://{bucket}.", 1)
    if settings.s3_region is not None:
        found["region"] = settings.s3_region
    elif _named("AWS_REGION", "AWS_DEFAULT_REGION") is None:
        found["region"] = "us-east-1"
    if settings.s3_access_key is not None:
        found["access_key_id"] = settings.s3_access_key
    if settings.s3_secret_key is not None:
        found["secret_access_key"] = settings.s3_secret_key
    return found
