"""The file sources: one split per file, assigned in the order of paths; a position is exact in a file."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from typing_extensions import override

from headgate.api.source import (
    END_OF_INPUT,
    NOTHING_AVAILABLE,
    BadRecord,
    InputLeft,
    P,
    PollStatus,
    Source,
    SourceReader,
    SourceReaderContext,
    Split,
    SplitEnumerator,
    T,
)
from headgate.common.errors import OperatingError, StorageError, UsageError
from headgate.connectors.files.bytestreams import open_stream
from headgate.connectors.files.paths import Paths, check_meant, expand, tops
from headgate.connectors.files.text_cursor import (
    OnError,
    TextCursor,
    TextDecoder,
    TextPosition,
    check_on_error,
)

if TYPE_CHECKING:
    import pyarrow as pa

_EMPTY_FILES_PER_POLL: Final = 64

SIZED_FILES_MAX: Final = 1_000
"""Of more files than these the sizes are not asked for: the driver does nothing else for so long."""

R = TypeVar("R", covariant=True)
Q = TypeVar("Q", covariant=True)


class FileCursor(Protocol[R, Q]):
    """An open input file, from which a reader takes records; one implementation per file format."""

    def poll(self, max_records: int) -> tuple[list[R] | pa.RecordBatch, list[BadRecord]] | None:
        """Take the next records, 0 to `max_records`, and bad ones between them; None at the file's end."""

    def bytes_left(self) -> int:
        """Return about how many bytes of the file are still to be read; 0 once all is decoded."""

    def position(self) -> Q | None:
        """Return the position right after the last record returned; None for the file's beginning."""

    def close(self) -> None:
        """Close the file."""


class FilesSource(Source[T, P, list[str]]):
    """Base of bounded sources over files, whose list is made once, when the job first starts."""

    def __init__(self, paths: Paths, file_format: str, on_error: OnError = "fail") -> None:
        self.paths = paths if isinstance(paths, str | os.PathLike) else list(paths)
        self.file_format, self.on_error = file_format, on_error
        # Resolved in the driver: workers have working folders of their own.
        self._tops: tuple[str, ...] = ()
        with suppress(UsageError):  # validate() raises it
            self._tops = tops(self.paths)

    @abstractmethod
    def open_cursor(self, path: str, position: P | None) -> FileCursor[T, P]:
        """Open a file at a position (None: its beginning); if it changed, OperatingError now or when read."""

    @override
    def create_enumerator(self, restored: list[str] | None) -> SplitEnumerator[P, list[str]]:
        if restored is None:
            return FilesEnumerator(expand(self.paths, self.file_format))
        return FilesEnumerator([self.check_meant(path) for path in restored])

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[T, P]:
        return FilesReader(self, self.on_error)

    @override
    def datasets(self) -> Sequence[str]:
        return self._tops

    @override
    def check_restore(self, rest: list[str] | None, splits: Sequence[Split[P]]) -> None:
        missing = [name for name in rest or () if not Path(self.check_meant(name)).is_file()]
        if missing:
            raise UsageError(
                f"{missing[0]!r}, which is still to be read, is not there; put it back (files are named as "
                "they were when the job first began), or give the source another uid and start it anew"
            )
        for split in splits:
            try:
                self.open_cursor(self.check_meant(split.id), split.position).close()
            except OSError as problem:
                raise UsageError(
                    f"{split.id!r} cannot be read on: {problem.strerror or problem}; put the file back as it "
                    "was, or give the source another uid and start it anew"
                ) from None
            except OperatingError as problem:
                raise UsageError(str(problem)) from None
            except (KeyError, TypeError, ValueError) as problem:
                raise UsageError(
                    f"the position in {split.id!r} is not one of {self.file_format} files ({problem!r}); "
                    "read the file in the format of before, or give the source another uid and start it anew"
                ) from None

    @override
    def validate(self) -> None:
        check_on_error(self.on_error)
        expand(self.paths, self.file_format)
        self._tops = tops(self.paths)

    def check_meant(self, path: str) -> str:
        """Return a path from a snapshot, if it is in this source's files and folders; else StrayPathError."""
        return check_meant(path, self._tops, self.describe())

    @override
    def describe(self) -> str:
        shown = self.paths if isinstance(self.paths, list) else [self.paths]
        names = ", ".join(os.fspath(path) for path in shown[:3])
        return f"{self.file_format} files {names}{', ...' if len(shown) > 3 else ''}"


class TextFilesSource(FilesSource[T, TextPosition]):
    """Base of bounded sources over text files, such as JSON lines and CSV."""

    @abstractmethod
    def new_decoder(self, path: str, saved: list[str] | None) -> TextDecoder[T]:
        """Return a decoder for the file `path`; `saved` is the header of a restored position, else None."""

    @override
    def open_cursor(self, path: str, position: TextPosition | None) -> FileCursor[T, TextPosition]:
        size = Path(path).stat().st_size
        if position is None:
            return TextCursor(path, size, open_stream(path), self.new_decoder(path, None), None)
        if size < position["size"]:
            raise OperatingError(
                f"{path} has {size} bytes and had {position['size']} when the checkpoint was taken at "
                f"uncompressed offset {position['offset']}; put the file back as it was, or start without "
                "the checkpoint"
            )
        stream = open_stream(path, position["member"], position["offset"] - position["skip"])
        return TextCursor(path, size, stream, self.new_decoder(path, position["saved"]), position)


class FilesEnumerator(SplitEnumerator[P, list[str]]):
    """Assigns one file per request, in the order of paths; its state is the files not yet assigned."""

    def __init__(self, remaining: Sequence[str]) -> None:
        self._remaining = deque(remaining)
        # Once, and not when few are left, or the job waited for it somewhere on its way.
        self._sized = len(remaining) <= SIZED_FILES_MAX
        self._bytes: int | None = None  # of the remaining files; None: not asked for yet

    @override
    def next_splits(self, subtask: int) -> list[Split[P]] | None:
        if not self._remaining:
            return None
        path = self._remaining.popleft()
        if self._bytes is not None:
            self._bytes -= _size_of(path)
        return [Split(path)]

    @override
    def left_to_assign(self) -> InputLeft | None:
        if not self._remaining:
            return InputLeft(bytes=0)
        if not self._sized:
            return None
        if self._bytes is None:
            self._bytes = sum(map(_size_of, self._remaining))
        return InputLeft(bytes=self._bytes)

    @override
    def snapshot(self) -> list[str]:
        return list(self._remaining)


def _size_of(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:  # the reader will say so
        return 0


class FilesReader(SourceReader[T, P]):
    """Reads assigned files one after the other from their splits' positions; StorageError if unreadable."""

    one_split_a_poll = True

    def __init__(self, source: FilesSource[T, P], on_error: OnError) -> None:
        self.bad_records, self.skipped = [], 0
        self._source, self._on_error = source, on_error
        self._splits: deque[Split[P]] = deque()
        self._cursor: FileCursor[T, P] | None = None
        self._final = False

    @override
    def add_splits(self, splits: Sequence[Split[P]]) -> None:
        self._splits.extend(splits)

    @override
    def no_more_splits(self) -> None:
        self._final = True

    @override
    def poll(self, max_records: int) -> list[T] | pa.RecordBatch | PollStatus:
        for _ in range(_EMPTY_FILES_PER_POLL):
            if not self._splits:
                return END_OF_INPUT if self._final else NOTHING_AVAILABLE
            try:
                polled = self._opened().poll(max_records)
            except OSError as problem:
                raise self._unreadable(problem) from problem
            if polled is None:
                self.close()
                self._splits.popleft()
                continue
            records, bad = polled
            if self._on_error == "side-output":
                self.bad_records.extend(bad)
            else:
                self.skipped += len(bad)
            return records if len(records) else NOTHING_AVAILABLE
        return NOTHING_AVAILABLE

    @override
    def left_to_read(self) -> dict[str, InputLeft]:
        # A split that is not open was given just now, or restored: then part of it may be read already.
        sizes = {split.id: _size_of(split.id) for split in islice(self._splits, SIZED_FILES_MAX)}
        if self._cursor is not None:
            sizes[self._splits[0].id] = self._cursor.bytes_left()
        return {name: InputLeft(bytes=size) for name, size in sizes.items()}

    @override
    def snapshot(self) -> list[Split[P]]:
        splits = list(self._splits)
        if self._cursor is not None:
            splits[0] = Split(splits[0].id, self._cursor.position())
        return splits

    @override
    def close(self) -> None:
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor.close()

    def _opened(self) -> FileCursor[T, P]:
        if self._cursor is None:
            split = self._splits[0]
            self._cursor = self._source.open_cursor(self._source.check_meant(split.id), split.position)
        return self._cursor

    def _unreadable(self, problem: OSError) -> StorageError:
        split = self._splits[0]
        position = split.position if self._cursor is None else self._cursor.position()
        return StorageError(
            f"cannot read {split.id!r} from {position or 'its beginning'} on: {problem.strerror or problem}; "
            "is the file on a disk that every worker sees?"
        )
