"""A log of chunks on the local disk, read as RocksDB's files are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from mmap import ACCESS_READ, mmap
from pathlib import Path

from headgate.common.errors import StorageError
from headgate.common.files.durable import open_read
from headgate.state.chunk_log.log_file import places_in


class LogStore:
    """The chunks of all files of a log, in the order of their keys; implements `EntryStore`. The files are
    mapped into memory, and a chunk is copied when its turn comes. StorageError: a file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        files = [(path, _mapped(path)) for path in sorted(folder.iterdir())]
        found = [(place, data) for path, data in files for place in places_in(data, path)]
        self._entries = sorted(found, key=lambda entry: entry[0].key)

    def items(
        self, start: bytes = b"", stop: bytes | None = None, *, ahead: bool = True
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the chunks from key `start` to before `stop` (None: to the end), in order of keys' bytes."""
        for place, data in self._entries:
            if place.key >= start and (stop is None or place.key < stop):
                yield place.key, data[place.start : place.stop]

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
        """Do nothing: mapped files are released with the store."""


def _mapped(path: Path) -> mmap:
    try:
        with open_read(path) as file:
            return mmap(file.fileno(), 0, access=ACCESS_READ)
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise StorageError(f"{path} cannot be read ({error})") from None
