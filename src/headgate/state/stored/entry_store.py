"""What is read of a backend's own files: RocksDB's column families, or a log of chunks."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from typing import Protocol

from headgate.common.errors import UsageError
from headgate.common.registry import OPTIONAL_PACKAGES


class EntryStore(Protocol):
    """The entries of one state or kind of timers, bytes by bytes, in the order of their keys."""

    def items(
        self, start: bytes = b"", stop: bytes | None = ..., *, ahead: bool = True
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries from key `start` to before `stop`, in order of keys' bytes; None: to the end."""

    @property
    def about_entries(self) -> int:
        """About how many entries there are."""

    def empty(self) -> bool:
        """Return whether there is no entry."""


class OpenedFiles(Protocol):
    """The opened files."""

    @property
    def stores(self) -> Mapping[str, EntryStore]:
        """The store of each state and kind of timers that has one, by name."""

    def close(self) -> None:
        """Close the files."""


def check_readable() -> None:
    """Raise a UsageError if the package that reads RocksDB's own files, and logs of chunks, is missing."""
    if importlib.util.find_spec("rocksdict") is None:
        raise UsageError(
            "the checkpoint holds state in RocksDB's own files or in a log of chunks, and package rocksdict, "
            f"which reads them, is not installed; install {OPTIONAL_PACKAGES['rocksdict']} on all workers"
        )
