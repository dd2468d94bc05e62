"""A log of chunks on the local disk, read as RocksDB's files are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from headgate.state.chunk_log.log_file import chunks_of_file


class LogStore:
    """The chunks of all files of a log, in the order of their keys; implements `EntryStore`."""

    def __init__(self, folder: Path) -> None:
        found = [entry for path in sorted(folder.iterdir()) for entry in chunks_of_file(path)]
        self._entries = sorted(found, key=lambda entry: entry[0])

    def items(
        self, start: bytes = b"", stop: bytes | None = None, *, ahead: bool = True
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the chunks from key `start` to before `stop` (None: to the end), in order of keys' bytes."""
        for key, data in self._entries:
            if key >= start and (stop is None or key < stop):
                yield key, data

    @property
    def about_entries(self) -> int:
        return len(self._entries)

    def empty(self) -> bool:
        return not self._entries


class OpenedLog:
    """The fetched files of a log of the state `name`; implements `OpenedFiles`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.stores: Mapping[str, LogStore] = {name: LogStore(folder)}

    def close(self) -> None:
        """Do nothing: all that is open is in memory."""
