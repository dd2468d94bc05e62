"""Open the disk of a storage URI, by its scheme."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.storage.memory import MemoryDisk
from headgate.checkpoint.storage.settings import StorageSettings, storage_settings_in_use
from headgate.common.errors import ConfigError
from headgate.common.ports import Disk

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

SCHEMES: Final = (
    "a path, file:///path, s3://bucket/prefix, hdfs://namenode/path, "
    "webhdfs://namenode:port/path or memory://name"
)


def open_disk(uri: str, settings: StorageSettings | None = None) -> Disk:
    """Return the disk of a URI or path, no request sent, or ConfigError; `settings` None: this process's."""
    if _SCHEME.match(uri) and ("#" in uri or "?" in uri):
        raise ConfigError(f"checkpoint storage {uri!r} has a '#' or '?'; write %23 or %3F, as in any URI")
    opener = _OPENERS.get(scheme_of(uri))
    if opener is None:
        return LocalDisk(local_path(uri), (settings or storage_settings_in_use()).permissions)
    return opener(uri, settings or storage_settings_in_use())


def disks_with(settings: StorageSettings) -> Callable[[str], Disk]:
    """Return a function that opens disks by URI with one job's settings, for processes with several jobs."""
    return partial(open_disk, settings=settings)


def scheme_of(uri: str) -> str:
    """Return the scheme of a URI in small letters; ``file`` for a plain path."""
    return urlsplit(uri).scheme.lower() if _SCHEME.match(uri) else "file"


def refuse_fleeting(uri: str) -> None:
    """Raise ConfigError if `uri`, where a savepoint is to go, does not outlive this process."""
    if scheme_of(uri) == "memory":
        raise ConfigError(
            f"the savepoint would go to {uri!r}, which is lost with its process; name a folder or an object "
            "store"
        )


def split_uri(uri: str, levels: int) -> tuple[str, str]:
    """Split a URI into the URI `levels` folders above, or as many as there are, and the path from there.

    Example:
        >>> split_uri("s3://bucket/checkpoints/job/chk-7", 2)
        ('s3://bucket/checkpoints', 'job/chk-7')
        >>> split_uri("s3://bucket/job", 2)
        ('s3://bucket', 'job')
        >>> split_uri("file:///var/a%20b/job/chk-7", 2)
        ('file:///var/a%20b', 'job/chk-7')
    """
    if scheme_of(uri) == "file":
        path = Path(local_path(uri)).resolve()
        top = path.parents[min(levels, len(path.parents)) - 1] if path.parents else path
        return top.as_uri(), path.relative_to(top).as_posix()
    parts = urlsplit(uri)
    pieces = [piece for piece in parts.path.split("/") if piece]
    cut = max(0, len(pieces) - levels)
    root = "/".join([f"{parts.scheme}://{parts.netloc}", *pieces[:cut]])
    return root, unquote("/".join(pieces[cut:]))


def local_path(uri: str) -> str:
    """Return the path of a ``file:`` URI, or `uri` itself if it is a path; ConfigError for other schemes."""
    if not _SCHEME.match(uri):
        if not uri:
            raise ConfigError("checkpoint storage is empty; expected a path or file:///path")
        return uri
    parts = urlsplit(uri)
    if scheme_of(uri) in _OPENERS:
        raise ConfigError(
            f"{uri!r} is no folder of a file system; here only a path or file:///path can be used"
        )
    if scheme_of(uri) != "file":
        raise ConfigError(
            f"checkpoint storage {uri!r} has scheme {parts.scheme!r}, which is not supported; use {SCHEMES} "
            "that the driver and all workers reach"
        )
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise ConfigError(f"checkpoint storage {uri!r} is no absolute path of this machine; use file:///path")
    return unquote(parts.path)


def _memory(uri: str, _: StorageSettings) -> Disk:
    parts = urlsplit(uri)
    if not parts.netloc:
        raise ConfigError(f"checkpoint storage {uri!r} names no storage; use memory://name")
    return MemoryDisk(unquote(parts.netloc + parts.path))


def _s3(uri: str, settings: StorageSettings) -> Disk:
    from headgate.checkpoint.storage.objects import open_s3

    return open_s3(uri, settings)


def _hdfs(uri: str, settings: StorageSettings) -> Disk:
    from headgate.checkpoint.storage.webhdfs import open_webhdfs

    return open_webhdfs(uri, settings)


_OPENERS: Final[dict[str, Callable[[str, StorageSettings], Disk]]] = {
    "memory": _memory,
    "s3": _s3,
    "s3a": _s3,
    "hdfs": _hdfs,
    "webhdfs": _hdfs,
    "swebhdfs": _hdfs,
}
