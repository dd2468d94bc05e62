"""What checkpoint storage asks of a disk beyond the `Disk` port: what an error says, and optional abilities.

Which disk serves which URI is `storage/uris.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from headgate.common.errors import StorageError


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
