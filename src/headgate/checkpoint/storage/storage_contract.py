"""What checkpoint storage asks of a disk beyond the `Disk` port: what an error says, and optional abilities.

Which disk serves which URI is `storage/uris.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from headgate.common.errors import StorageError
from headgate.common.files.durable_file import TEMPORARY_PREFIX


def check_name(name: str, where: str, *, temporary_allowed: bool = False) -> list[str]:
    """The parts of a file's name.

    Example:
        >>> check_name("job/chk-1/a", "memory://x")
        ['job', 'chk-1', 'a']
    """
    pieces = name.split("/")
    reserved = pieces[-1].startswith(TEMPORARY_PREFIX) and not temporary_allowed
    if "\0" in name or any(piece in ("", ".", "..") for piece in pieces) or reserved:
        raise StorageError(
            f"{name!r} is no file name below {where}; expected a relative path with '/', "
            f"without empty, '.' or '..' parts, and not beginning with {TEMPORARY_PREFIX!r}"
        )
    return pieces


class UnsureWriteError(StorageError):
    """The write failed, but the file may be there all the same.

    A disk raises it from `create` or `create_if_absent` when the failure came after the name became
    visible; any other StorageError from these means that nothing became visible.
    """


@runtime_checkable
class RandomAccess(Protocol):
    """A disk that can look at part of a file."""

    def size(self, name: str) -> int:
        """Bytes of a file; FileNotFoundError when there is none."""
        ...

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`; fewer only at the end of the file."""
        ...


@runtime_checkable
class KeepsTemporaries(Protocol):
    """A disk on which a killed writer leaves unfinished files that `list` does not show."""

    def temporaries(self, prefix: str) -> Sequence[str]:
        """Sorted names of the unfinished files below the folder `prefix`."""
        ...


@runtime_checkable
class TellsAge(Protocol):
    """A disk that knows when a file was written, by one clock for all files."""

    def modified_ms(self, name: str) -> int:
        """Milliseconds since 1970, by the clock of the storage; FileNotFoundError when there is none."""
        ...


@runtime_checkable
class OfThisProcess(Protocol):
    """A disk that other processes cannot reach: workers put all state into their acknowledgements."""

    def forget(self) -> None:
        """Let go of all files."""
        ...
