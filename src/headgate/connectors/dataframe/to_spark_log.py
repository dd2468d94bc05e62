"""Storage of the journal of a `to_spark()` sink: numbered entries, created complete, never two of one number.

::

  <folder>/0000000001.json    a CRC-32 and one entry

The driver that creates number n has read all entries before it, so an entry is a decision on the complete
journal. Every 200 entries one stands for all before it, and these are removed, lowest first.
"""

from __future__ import annotations

import functools
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from headgate.common.decoders import json_decoder
from headgate.common.errors import OperatingError, StorageError
from headgate.common.files.durable import read_bytes, unlink
from headgate.common.files.durable_file import create_new
from headgate.common.files.envelope import open_line, seal_line
from headgate.connectors.dataframe.to_spark_journal import Entry, State, after

ENTRIES_MAX: Final = 200  # more files than this make every reading of the folder slow

_TRIES_MAX: Final = 20

_encoder: Final = msgspec.json.Encoder()
_entries: Final = json_decoder(Entry)


class Log:
    """The journal in one folder, on a disk with hard links that all drivers of the lineage share.
    After `entries_max` entries one entry replaces all of them. `state` sums up the entries read so far.
    """

    def __init__(self, folder: Path, entries_max: int = ENTRIES_MAX) -> None:
        self.state = State()
        self._folder, self._entries_max = folder, entries_max
        self._read_through = 0

    def refresh(self) -> State:
        """Read the entries added since the last call, and return the new state.
        OperatingError for a damaged entry; StorageError if the folder is unreadable or changes all the time.
        """
        for _ in range(_TRIES_MAX):
            # An entry may be removed between the listing and the reading: another stands for it then.
            with suppress(FileNotFoundError):
                self._read_new()
                return self.state
        raise StorageError(f"{str(self._folder)!r} changes all the time; is it on a disk that is in order?")

    def append(self, entry: Entry) -> bool:
        """Append an entry; False if another driver did since the last refresh; StorageError if disks fail."""
        number = self._read_through + 1
        try:
            if not create_new(self._path(number), [encoded(entry)], folders=3):
                return False
            if number > 1 and not self._path(number - 1).exists():
                # Another driver added so many meanwhile that the entries up to this one are removed already.
                unlink(self._path(number), missing_ok=True)
                return False
            self._read_through, self.state = number, after(self.state, entry)
            if not isinstance(entry, State) and number % self._entries_max == 0 and self.append(self.state):
                self._remove_before(self._read_through)
        except OSError as problem:
            raise _unusable(self._folder, problem) from problem
        return True

    def _read_new(self) -> None:
        try:
            numbers = sorted(int(path.stem) for path in self._folder.glob("[0-9]*.json"))
        except OSError as problem:
            raise _unusable(self._folder, problem) from problem
        new = [number for number in numbers if number > self._read_through]
        if not new:
            return
        entries = [self._entry(number) for number in new]
        complete = new == list(range(self._read_through + 1, new[-1] + 1))
        if not complete and not any(isinstance(entry, State) for entry in entries):
            raise FileNotFoundError(f"entry {self._read_through + 1}")
        self.state = functools.reduce(after, entries, self.state)
        self._read_through = new[-1]

    def _entry(self, number: int) -> Entry:
        path = self._path(number)
        try:
            stored = read_bytes(path)
        except FileNotFoundError:
            raise
        except OSError as problem:
            raise _unusable(self._folder, problem) from problem
        return decoded(stored, str(path))

    def _remove_before(self, number: int) -> None:
        # Lowest first, so that the last one before `number` is removed last.
        for path in sorted(self._folder.glob("[0-9]*.json")):
            if int(path.stem) < number:
                unlink(path, missing_ok=True)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:010d}.json"


def encoded(entry: Entry) -> bytes:
    """Return an entry's line for its file: JSON with a CRC-32 before it."""
    return seal_line(_encoder.encode(entry))


def decoded(stored: bytes, where: str) -> Entry:
    """Return the entry in the bytes of the file `where`; OperatingError if it is damaged.

    Example:
        >>> from headgate.connectors.dataframe.to_spark_journal import Written
        >>> decoded(encoded(Written(7)), "a file")
        Written(epoch=7)
    """
    try:
        entry: Entry = _entries.decode(open_line(stored))
    except (ValueError, RecursionError) as problem:
        raise OperatingError(
            f"{where!r} does not tell which epochs were written: {problem}; it was changed or damaged, put "
            "it back from a copy"
        ) from problem
    return entry


def _unusable(folder: Path, problem: OSError) -> StorageError:
    return StorageError(
        f"cannot use the journal {str(folder)!r}: {problem.strerror or problem}; make room or allow writing "
        "there"
    )
