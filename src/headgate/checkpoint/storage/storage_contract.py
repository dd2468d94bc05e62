"""What checkpoint storage asks of a disk beyond the `Disk` port: names, errors, and optional abilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from headgate.common.errors import StorageError
from headgate.common.files.durable_file import TEMPORARY_PREFIX


def check_name(name: str, where: str, *, temporary_allowed: bool = False) -> list[str]:
    """Return a file name's parts; StorageError if it leads out of storage `where`, or is a temporary one."""
    pieces = name.split("/")
    reserved = pieces[-1].startswith(TEMPORARY_PREFIX) and not temporary_allowed
    if "\0" in name or any(piece in ("", ".", "..") for piece in pieces) or reserved:
        raise StorageError(
            f"{name!r} is no file name below {where}; expected a relative path with '/', "
            f"without empty, '.' or '..' parts, and not beginning with {TEMPORARY_PREFIX!r}"
        )
    return pieces


def is_temporary(name: str) -> bool:
    """Return whether `name` is the name under which a disk writes a file that is not complete yet."""
    return name.rpartition("/")[2].startswith(TEMPORARY_PREFIX)


class UnsureWriteError(StorageError):
    """The write failed, but the file may be there all the same.

    A disk raises it from `create` or `create_if_absent` when the failure came after the name became
    visible; any other StorageError from these means that nothing became visible.
    """


@runtime_checkable
class RandomAccess(Protocol):
    """A disk that can read a part of a file, and knows the sizes of files."""

    def size(self, name: str) -> int:
        """Return the size of a file in bytes; FileNotFoundError when there is none."""

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from byte `offset` on, fewer only at the end; or FileNotFoundError."""


@runtime_checkable
class KeepsTemporaries(Protocol):
    """A disk on which writers have, and killed ones leave, unfinished files that `list` does not show."""

    def temporaries(self, prefix: str) -> Sequence[str]:
        """Return the sorted names of files below folder `prefix` that are unfinished or being written."""


@runtime_checkable
class TellsAge(Protocol):
    """A disk that knows when a file was written, by one clock for all files."""

    def modified_ms(self, name: str) -> int:
        """Return when a file was written (ms since 1970, storage's clock); FileNotFoundError without it."""


@runtime_checkable
class OfThisProcess(Protocol):
    """A disk that other processes cannot reach: workers put all state into their acknowledgements."""

    def forget(self) -> None:
        """Drop all files of this disk."""
