"""The stored journal of a sink's line: numbered entries, each created whole and never two of one number.

::

    <folder>/0000000001.json    a CRC-32 and one entry

Whoever creates number n has seen all entries before it, so what an entry decides was decided on the whole
line. Now and then an entry stands for all before it, and these are removed, lowest first.
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
from headgate.connectors.dataframe.to_spark_journal import Entry, Line, after

ENTRIES_MAX: Final = 200
"""More files than this make every reading of the folder slow."""

_TRIES_MAX: Final = 20


_encoder: Final = msgspec.json.Encoder()
_entries: Final = json_decoder(Entry)


class Log:
    """The journal in one folder, on a disk with hard links that all drivers of the line share.

    Args:
        folder: made with the first entry.
        entries_max: after so many entries one stands for all of them.

    Attributes:
        line: what the entries amounted to when they were read last.
    """

    def __init__(self, folder: Path, entries_max: int = ENTRIES_MAX) -> None:
        self.line = Line()
        self._folder, self._entries_max = folder, entries_max
        self._read_through = 0

    def refresh(self) -> Line:
        """Read what was added.

        Raises:
            OperatingError: an entry is damaged.
            StorageError: the folder cannot be read.
        """
        for _ in range(_TRIES_MAX):
            # An entry may be removed between the listing and the reading: another stands for it then.
            with suppress(FileNotFoundError):
                self._read_new()
                return self.line
        raise StorageError(f"{str(self._folder)!r} changes all the time; is it on a disk that is in order?")

    def append(self, entry: Entry) -> bool:
        """Add an entry behind those that were read; False when there is one more, and nothing was added.

        Raises:
            StorageError: it cannot be written.
        """
        number = self._read_through + 1
        try:
            if not create_new(self._path(number), [encoded(entry)], folders=3):
                return False
            if number > 1 and not self._path(number - 1).exists():
                # Somebody went on so far meanwhile that the numbers behind ours are removed already.
                unlink(self._path(number), missing_ok=True)
                return False
            self._read_through, self.line = number, after(self.line, entry)
            if not isinstance(entry, Line) and number % self._entries_max == 0 and self.append(self.line):
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
        whole = new == list(range(self._read_through + 1, new[-1] + 1))
        if not whole and not any(isinstance(entry, Line) for entry in entries):
            raise FileNotFoundError(f"entry {self._read_through + 1}")
        self.line = functools.reduce(after, entries, self.line)
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
        """Lowest first, so that the last one before `number` is the last to go."""
        for path in sorted(self._folder.glob("[0-9]*.json")):
            if int(path.stem) < number:
                unlink(path, missing_ok=True)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:010d}.json"


def encoded(entry: Entry) -> bytes:
    """An entry as it is stored."""
    return seal_line(_encoder.encode(entry))


def decoded(stored: bytes, where: str) -> Entry:
    """The stored entry.

    Args:
        stored: by :func:`encoded`.
        where: its file, for the message.

    Raises:
        OperatingError: it is damaged.

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
