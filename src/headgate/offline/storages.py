"""Applies settings of storages, such as an S3 service's endpoint and keys, while snapshots are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headgate.checkpoint.opening import open_checkpoint
from headgate.checkpoint.storage.settings import (
    storage_settings,
    storage_settings_in_use,
    use_storage_settings,
)
from headgate.checkpoint.storage.uris import open_disk, scheme_of
from headgate.common.settings.config import Config


@contextmanager
def storage_options(options: Sequence[str]) -> Iterator[None]:
    """Within the block, open all storages of this process with the ``key=value`` settings in `options`."""
    before = storage_settings_in_use()
    use_storage_settings(storage_settings(Config().with_command_line(options)))
    try:
        yield
    finally:
        use_storage_settings(before)


def refuse_unreadable(snapshot: str) -> None:
    """Raise a StorageError, before a program is run, if a snapshot certainly cannot be read.

    Its metadata and the sizes of its files are looked at, not what is in them, and only if it is local: the
    settings of other storages may be in the program itself.
    """
    if scheme_of(snapshot) == "file":
        open_checkpoint(snapshot)


def absolute(uri: str) -> str:
    """Return the absolute URI of a place, since a program may change the working directory."""
    return open_disk(uri).describe()
