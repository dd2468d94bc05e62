"""A log of chunks on the local disk, read as RocksDB's files are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from mmap import ACCESS_READ, mmap
from operator import itemgetter
from pathlib import Path

from headgate.common.errors import StorageError
from headgate.common.files.durable import open_read
from headgate.state.chunk_log.by_groups import by_groups
from headgate.state.chunk_log.log_file import ANY_GROUP, places_in
from headgate.state.rocksdb.chunk_bytes import ChunkKey


class LogStore:
    """The chunks of all files of a log, in the order of their keys; implements `EntryStore`. The files are
    mapped into memory, and a chunk is copied when its turn comes. StorageError: a file is damaged.
    """

    def __init__(self, folder: Path, max_parallelism: int) -> None:
        self._entries: list[tuple[bytes, Callable[[], bytes]]] = []
        for path in sorted(folder.iterdir()):
            data, parted = _mapped(path), []
            for place in places_in(data, path):
                key, stored = ChunkKey.of(place.key), memoryview(data)[place.start : place.stop]
                if key.group == ANY_GROUP:
                    parted.append((key, stored))
                else:
                    self._entries.append((place.key, partial(bytes, stored)))
            self._entries += by_groups(parted, max_parallelism)
        self._entries.sort(key=itemgetter(0))

    def items(
        self, start: bytes = b"", stop: bytes | None = None, *, ahead: bool = True
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the chunks from key `start` to before `stop` (None: to the end), in order of keys' bytes."""
        for key, read in self._entries:
            if key >= start and (stop is None or key < stop):
                yield key, read()

    @property
    def about_entries(self) -> int:
        return len(self._entries)

    def empty(self) -> bool:
        return not self._entries


class OpenedLog:
    """The fetched files of a log of the state `name`; implements `OpenedFiles`. `max_parallelism`: with how
    many key groups it was written.
    """

    def __init__(self, folder: Path, name: str, max_parallelism: int) -> None:
        self.stores: Mapping[str, LogStore] = {name: LogStore(folder, max_parallelism)}

    def close(self) -> None:
        """Do nothing: mapped files are released with the store."""


def _mapped(path: Path) -> mmap:
    try:
        with open_read(path) as file:
            return mmap(file.fileno(), 0, access=ACCESS_READ)
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise StorageError(f"{path} cannot be read ({error})") from None
