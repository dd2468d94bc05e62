"""A source that reads the records of a quarantine again: the original ones, in order, once each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from typing_extensions import override

from headgate.api.source import (
    END_OF_INPUT,
    NOTHING_AVAILABLE,
    PollStatus,
    Source,
    SourceReader,
    SourceReaderContext,
    Split,
    SplitEnumerator,
    T,
)
from headgate.common.decoders import UNDECODABLE, converter
from headgate.common.errors import BadRecordError, StrayPathError, UsageError
from headgate.connectors.quarantine.quarantined_records import Kept, files_in, read_file


def quarantine_source(
    path: str | PathLike[str], operator: str | None = None, schema: type[T] | None = None
) -> QuarantineSource[T]:
    """Return a bounded source of the records in quarantines below a folder, without those that are discarded.

    It reads what is there when its job begins for the first time; what is quarantined later, by the same job,
    too, is for another source with another uid, which reads everything that is not discarded.

    Args:
        path: the checkpoint directory, ``quarantine.dir``, or a folder in one of them.
        operator: uid of the operator whose records are meant; None: all that are there.
        schema: the class of the records, where it was one that is stored as its fields (a dataclass,
            NamedTuple, msgspec.Struct); None: they are plain values.
    """
    return QuarantineSource(Path(fspath(path)), operator, schema)


class QuarantineSource(Source[T, int, "list[str]"]):
    """Bounded source over the files of quarantines; made by :func:`quarantine_source`."""

    def __init__(self, folder: Path, operator: str | None, schema: type[T] | None) -> None:
        self._folder, self._operator, self.schema = folder, operator, schema

    @override
    def create_enumerator(self, restored: list[str] | None) -> SplitEnumerator[int, list[str]]:
        return _Files(self._names() if restored is None else restored)

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[T, int]:
        return QuarantineReader(self)

    @override
    def check_restore(self, rest: list[str] | None, splits: Sequence[Split[int]]) -> None:
        for name in (*(split.id for split in splits), *(rest or ())):
            if not self.file(name).is_file():
                raise UsageError(
                    f"{self.file(name)} was still to be read, and is not there; put the quarantine back "
                    "where it was"
                )

    @override
    def validate(self) -> None:
        files_in(self._folder)

    @override
    def describe(self) -> str:
        return f"quarantine {self._folder}"

    def file(self, name: str) -> Path:
        """Return the file of a split; StrayPathError: it is not in the folder."""
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise StrayPathError(
                f"a snapshot has {name!r}, which is not in {self._folder}; it is not of this source"
            )
        return self._folder / name

    def records(self, name: str) -> list[Kept | None]:
        """Return what lies in a file, line by line; None in place of a record that is not to be read."""
        return [
            each if self._operator in (None, each.operator) and each.to_feed else None
            for each in read_file(self.file(name))
        ]

    def convert(self) -> Callable[[object], T] | None:
        """Return what makes records of plain values; None: they are plain."""
        return None if self.schema is None else converter(self.schema)

    def _names(self) -> list[str]:
        return [path.relative_to(self._folder).as_posix() for path, _ in files_in(self._folder)]


class _Files(SplitEnumerator[int, "list[str]"]):
    """Assigns one file per request, the oldest first; its state is the files not yet assigned."""

    def __init__(self, left: Sequence[str]) -> None:
        self._left = deque(left)

    @override
    def next_splits(self, subtask: int) -> list[Split[int]] | None:
        return [Split(self._left.popleft())] if self._left else None

    @override
    def snapshot(self) -> list[str]:
        return list(self._left)


class QuarantineReader(SourceReader[T, int]):
    """Reads assigned files one after the other; a position is a number of lines."""

    one_split_a_poll = True

    def __init__(self, source: QuarantineSource[T]) -> None:
        self.bad_records = []
        self._source, self._convert = source, source.convert()
        self._splits: deque[Split[int]] = deque()
        self._records: list[Kept | None] | None = None  # of the first split
        self._final = False

    @override
    def add_splits(self, splits: Sequence[Split[int]]) -> None:
        self._splits.extend(splits)

    @override
    def no_more_splits(self) -> None:
        self._final = True

    @override
    def poll(self, max_records: int) -> list[T] | PollStatus:
        if not self._splits:
            return END_OF_INPUT if self._final else NOTHING_AVAILABLE
        name, at = self._splits[0].id, self._splits[0].position or 0
        if self._records is None:
            self._records = self._source.records(name)
        upto = at + max(1, max_records)
        found = [self._value(each) for each in self._records[at:upto] if each is not None]
        if upto < len(self._records):
            self._splits[0] = Split(name, upto)
        else:
            self._splits.popleft()
            self._records = None
        return found or NOTHING_AVAILABLE

    @override
    def snapshot(self) -> list[Split[int]]:
        return list(self._splits)

    def _value(self, kept: Kept) -> Any:
        try:
            value = kept.value()
            return value if self._convert is None else self._convert(value)
        except UsageError as error:
            raise BadRecordError(str(error)) from None
        except UNDECODABLE as error:
            raise BadRecordError(
                f"record {kept.id} in {kept.file} is no {self._source.schema} ({error}): {kept.record}; give "
                "the class that it had as schema"
            ) from None
