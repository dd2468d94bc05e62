"""Storage URIs: which disk serves which scheme."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import ConfigError
from headgate.common.ports import Disk

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def open_disk(uri: str) -> Disk:
    """The disk below a folder.

    Args:
        uri: a path, or ``file:///path``.

    Raises:
        ConfigError: the scheme is not supported, or the URI names another host or no folder.

    Example:
        >>> open_disk("file:///var/checkpoints").describe("job/x")
        'file:///var/checkpoints/job/x'
        >>> open_disk("s3://bucket/x")
        Traceback (most recent call last):
            ...
        headgate.common.errors.ConfigError: checkpoint storage 's3://bucket/x' has scheme 's3', which is \
not supported; use a path or file:///path on a file system that the driver and all workers share
    """
    return LocalDisk(local_path(uri))


def local_path(uri: str) -> str:
    """The path of a ``file:`` URI, or the path itself.

    Raises:
        ConfigError: as for :func:`open_disk`.
    """
    if not _SCHEME.match(uri):
        if not uri:
            raise ConfigError("checkpoint storage is empty; expected a path or file:///path")
        return uri
    parts = urlsplit(uri)
    if parts.scheme.lower() != "file":
        raise ConfigError(
            f"checkpoint storage {uri!r} has scheme {parts.scheme!r}, which is not supported; use a path "
            "or file:///path on a file system that the driver and all workers share"
        )
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise ConfigError(f"checkpoint storage {uri!r} is no absolute path of this machine; use file:///path")
    return unquote(parts.path)
