"""One RocksDB database, a column family per state, with errors that name what failed and where."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

import rocksdict
from rocksdict import ReadOptions, WriteBatch

from headgate.common.errors import StorageError
from headgate.state.rocksdb.database_metrics import measured
from headgate.state.rocksdb.rocksdb_memory import RocksMemory

R = TypeVar("R")

BEYOND_ALL_KEYS: Final = b"\xff\xff\xff"
"""After every stored key: no key group is that large."""


class Access(Enum):
    """How a database is opened: empty, to go on from a checkpoint's files, or only for reading."""

    NEW = "new"  # nothing may be there yet
    CONTINUE = "continue"  # it has the files of a checkpoint, and goes on from there
    READ_ONLY = "read-only"  # its files stay as they are


class ColumnStore:
    """The column family of one state in an open RocksDB database, bytes by bytes, in order of its keys.

    A :class:`Database` makes it. What RocksDB refuses is a StorageError with the state and the directory.
    There is no write-ahead log: after a crash the state comes from the last checkpoint.
    """

    def __init__(self, database: rocksdict.Rdict, family: str, where: str) -> None:
        self._store: rocksdict.Rdict = database.get_column_family(family)
        self._handle: rocksdict.ColumnFamily = database.get_column_family_handle(family)
        self._database: rocksdict.Rdict = database
        self._where = where
        self._options = rocksdict.WriteOptions()
        # What a crash loses is replayed from the last checkpoint; a log of writes would be of no use.
        # The stubs take the property for a method.
        self._options.disable_wal = True  # type: ignore[method-assign, assignment]

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._store.get(key)
        except Exception as error:
            raise storage_error("read", self._where, error) from None
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each of `keys`, with one call; None where there is none."""
        try:
            values: list[bytes | None] = self._store.get(list(keys))  # type: ignore[assignment]
        except Exception as error:
            raise storage_error("read", self._where, error) from None
        return values

    def write(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Write pairs of key and value in one batch; a value of None deletes the key, present or not."""
        batch, handle = WriteBatch(raw_mode=True), self._handle
        for key, value in entries:
            if value is None:
                batch.delete(key, handle)
            else:
                batch.put(key, value, handle)
        try:
            self._database.write(batch, self._options)
        except Exception as error:
            raise storage_error("write", self._where, error) from None

    def items(
        self, start: bytes = b"", stop: bytes | None = BEYOND_ALL_KEYS, *, ahead: bool = True
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries from key `start` to before `stop`, in order of keys' bytes, as of the first
        `next()`. `stop`: None: to the end, timers beyond :data:`BEYOND_ALL_KEYS` too. `ahead`: the disk reads
        ahead, for when many entries will be taken.
        """
        options = ReadOptions()
        if ahead:
            options.set_readahead_size(2 << 20)
        try:
            entries: rocksdict.RdictIter = self._store.iter(options)
            entries.seek(start)
            while entries.valid():
                key = entries.key()
                if stop is not None and key >= stop:
                    break
                yield key, entries.value()
                entries.next()
            entries.status()
        except Exception as error:
            raise storage_error("read", self._where, error) from None

    def delete_range(self, start: bytes, stop: bytes) -> None:
        """Delete the entries from key `start` to before `stop`, without reading them."""
        try:
            self._store.delete_range(start, stop, self._options)
        except Exception as error:
            raise storage_error("write", self._where, error) from None

    @property
    def buffered_bytes(self) -> int:
        return self.number("rocksdb.cur-size-all-mem-tables")

    @property
    def about_entries(self) -> int:
        return self.number("rocksdb.estimate-num-keys")

    def number(self, name: str) -> int:
        """Return a property of the column family that RocksDB knows by this name; 0 if it has none now."""
        found: int | None = self._store.property_int_value(name)
        return found or 0

    def text(self, name: str) -> str:
        """Return a property that is text; empty if RocksDB does not have it now."""
        found: str | None = self._store.property_value(name)
        return found or ""

    def portion(self, after: bytes | None, count: int) -> list[tuple[bytes, bytes]]:
        """Return the first `count` entries after key `after` (None: of all), in order of the keys' bytes."""
        start = b"" if after is None else after + b"\0"  # the least bytes after it
        return list(islice(self.items(start, None, ahead=False), count))

    def flush(self) -> None:
        # waits for the file
        self._store.flush(True)

    def empty(self) -> bool:
        return not self.portion(None, 1)

    def close(self) -> None:
        # the database is open as long as there are references
        self._store = self._handle = self._database = None  # type: ignore[assignment]


class Database:
    """An open RocksDB database in a local directory, with a column family for each state and kind of timers.
    `names`: those it gets besides the stored ones, unless it is opened for reading; `stores`: a ColumnStore
    for each. StorageError: it cannot be opened, or is there already although `access` is NEW.
    """

    def __init__(
        self, directory: Path, names: Iterable[str], memory: RocksMemory, access: Access = Access.NEW
    ) -> None:
        self.directory, self._counted = directory, memory.statistics
        reading = access is Access.READ_ONLY
        options = memory.reading_options() if reading else memory.database_options()
        families = {} if reading else {name: _family(name) for name in names}
        if access is Access.NEW:
            options.set_error_if_exists(True)
            _tried(
                "make a directory for",
                str(directory),
                lambda: directory.parent.mkdir(parents=True, exist_ok=True),
            )
        else:
            stored = _tried("open", str(directory), lambda: rocksdict.Rdict.list_cf(str(directory)))
            families |= {
                family.removeprefix(_PREFIX): family for family in stored if family.startswith(_PREFIX)
            }
        kind = rocksdict.AccessType.read_only() if reading else rocksdict.AccessType.read_write()
        self._database: rocksdict.Rdict = _tried(
            "open",
            str(directory),
            lambda: rocksdict.Rdict(str(directory), options, dict.fromkeys(families.values(), options), kind),
        )
        self.stores = {
            name: ColumnStore(self._database, family, f"state {name!r} in {directory}")
            for name, family in families.items()
        }

    def checkpoint(self, directory: Path) -> None:
        """Flush, and copy the database to the new local folder `directory`, by hard links of its SST files.
        StorageError: the local disk fails, or has no space for what the write buffers hold.
        """
        self._check_space()
        _tried("make a checkpoint of", str(self.directory), lambda: self._checkpoint(directory))

    def measured(self) -> dict[str, int]:
        """Return the metrics of the database by name of the series."""
        return measured(self.stores.values(), counted=self._counted)

    def drop(self, name: str) -> None:
        self.stores.pop(name).close()
        _tried("write", str(self.directory), lambda: self._database.drop_column_family(_family(name)))

    def close(self) -> None:
        # without a flush; it gives up the lock
        for store in self.stores.values():
            store.close()
        self.stores = {}
        self._database = None  # type: ignore[assignment]

    def _check_space(self) -> None:
        # After a flush that found no space RocksDB refuses changes for seconds, and the job would fail.
        needed = sum(store.buffered_bytes for store in self.stores.values())
        free = shutil.disk_usage(self.directory).free
        if free < needed:
            raise StorageError(
                f"the local disk has {free} bytes left for {self.directory}, and a checkpoint of it writes "
                f"up to {needed}; free space, or choose another disk with state.backend.rocksdb.localdir; "
                "until then checkpoints fail"
            )

    def _checkpoint(self, directory: Path) -> None:
        # The binding lets other threads run during a flush, but not while it makes a checkpoint.
        for store in self.stores.values():
            store.flush()
        directory.parent.mkdir(parents=True, exist_ok=True)
        rocksdict.Checkpoint(self._database).create_checkpoint(str(directory))


def remove_tree(directory: Path) -> None:
    """Remove a directory of a database that is not needed any more; what cannot be removed is left."""
    # what cannot be removed is left
    shutil.rmtree(directory, ignore_errors=True)


def storage_error(doing: str, where: str, error: Exception) -> StorageError:
    """Return a StorageError of RocksDB's `error`: it could not `doing` (a verb, "read") the place `where`."""
    # `doing`: a verb, such as "read"
    return StorageError(
        f"RocksDB could not {doing} {where}: {error}; check the local disk (space, rights, health), "
        "the state itself is restored from the last checkpoint"
    )


def _tried(doing: str, where: str, action: Callable[[], R]) -> R:
    try:
        return action()
    except Exception as error:
        raise storage_error(doing, where, error) from None


_PREFIX: Final = "state:"  # a family named "default" is there already


def _family(name: str) -> str:
    return _PREFIX + name
