"""Checks before a job starts: the driver can write the storage, and workers see the same one."""

from __future__ import annotations

import secrets

from headgate.common.errors import StorageError
from headgate.common.files.durable import sha256
from headgate.common.ports import Disk

FOLDER = ".headgate-probe"


class NotSharedError(StorageError):
    """The storage that this worker sees is not the driver's; trying again would not help."""


class NotExclusiveError(StorageError):
    """The storage lets two writers create the same file; trying again would not help."""


def probe(disk: Disk) -> None:
    """Write, read and delete a small file; StorageError if that fails, NotExclusiveError if created twice."""
    token = secrets.token_hex(16)
    write_marker(disk, token)
    try:
        check_marker(disk, token)
        # A service that does not know the condition ignores it and answers that all went well.
        if disk.create_if_absent(_name(token), b"second") or disk.read(_name(token)) != token.encode():
            raise NotExclusiveError(
                f"checkpoint storage {disk.describe()} replaces a file that was to be created only if absent "
                "(for S3: it ignores If-None-Match), so two drivers could complete checkpoints of one job; "
                "use a storage that supports it, see docs/storage.md"
            )
    finally:
        delete_marker(disk, token)


def write_marker(disk: Disk, token: str) -> None:
    """Write marker file `token`, by which workers know the driver's storage; StorageError if it exists."""
    if not disk.create_if_absent(_name(token), token.encode()):
        raise StorageError(f"marker {disk.describe(_name(token))} exists already; use a new token")


def check_marker(disk: Disk, token: str) -> None:
    """Raise NotSharedError unless this process sees the driver's marker `token` (in a worker)."""
    where = disk.describe(_name(token))
    try:
        found = disk.read(_name(token))
    except FileNotFoundError:
        raise NotSharedError(
            f"this worker does not see the marker that the driver wrote at {where}; checkpoint storage "
            "must be a folder that the driver and all workers share"
        ) from None
    if found != token.encode():
        raise NotSharedError(f"marker {where} reads back differently from what was written; check the disk")


def delete_marker(disk: Disk, token: str) -> None:
    """Remove the marker file `token` (in the driver, when all workers have checked)."""
    disk.delete(_name(token))


def take_over_markers(disk: Disk, job: str, token: str) -> str:
    """Delete the markers of `job`'s earlier drivers; return a marker token of `job` that ends in `token`."""
    mark = sha256(job.encode()).hexdigest()[:16] + "of"
    for name in list(disk.list(FOLDER)):
        if name.startswith(f"{FOLDER}/{mark}"):
            disk.delete(name)
    return mark + token


def _name(token: str) -> str:
    if not token.isalnum():
        raise StorageError(f"marker token {token!r} is not made of letters and digits")
    return f"{FOLDER}/{token}"
