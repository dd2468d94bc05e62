"""A bounded DataFrame as source: staged once as Arrow files, read from an exact position in them.

A DataFrame cannot be read at a position: computed again, its rows may come in another order. The staged files
can. A checkpoint names them, so the job that restores it, in this process or in another one, resumes in the
same files and computes nothing again. `deploy/spark/staging.py` removes files that no snapshot needs any
more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict

from typing_extensions import override

from headgate.api.source import (
    END_OF_INPUT,
    NOTHING_AVAILABLE,
    InputLeft,
    PollStatus,
    Source,
    SourceReader,
    SourceReaderContext,
    Split,
    SplitEnumerator,
    T,
)
from headgate.common.errors import UsageError
from headgate.common.files.stored_paths import inside
from headgate.connectors.dataframe.column_types import arrow_schema, check_types
from headgate.connectors.dataframe.connector import DataFrameConnector, first_line, shown_columns, unprepared
from headgate.connectors.dataframe.staged_files import (
    StagedFile,
    complete_staging,
    read,
    stage,
    staged_folder,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

BYTES_PER_FILE: Final = 16 << 20
"""About the most bytes of a staged file: a reader verifies it in one go, some 20 ms that a barrier waits."""

_INSTEAD: Final = "start without the checkpoint, or from one whose rows are still there"


def dataframe_source(frame: DataFrame) -> DataFrameSource:
    """Return a bounded source of a DataFrame's rows; they stay columnar up to the first per-record function.
    `frame` is bounded, of a classic session (not Spark Connect) and of types that :func:`check_types` takes,
    else UsageError. Rows are computed when the job first runs; a partition with rows gives 1 or more splits.
    """
    kind = type(frame)
    if not (kind.__module__.startswith("pyspark.sql.") and kind.__name__ == "DataFrame"):
        raise UsageError(f"from_spark() got {kind.__name__}; expected a DataFrame of PySpark")
    if kind.__module__.startswith("pyspark.sql.connect"):
        raise UsageError(
            "from_spark() got a DataFrame of Spark Connect; expected one of a classic session, which "
            "SparkSession.builder.master(...) opens"
        )
    if frame.isStreaming:
        raise UsageError(
            "from_spark() got a streaming DataFrame; expected a bounded one: read it with spark.read"
        )
    if not frame.columns:
        raise UsageError("from_spark() got a DataFrame without columns; expected at least one")
    check_types(frame.schema, "from_spark")
    return DataFrameSource(frame)


class StagedPosition(TypedDict):
    """Enumerator state in a checkpoint: unassigned staged files, each as the fields of a `StagedFile`."""

    folder: str  # absolute path of the staging folder
    files: list[list[str | int]]


class RowPosition(TypedDict):
    """Position of a split: a staged file and the number of the next row to read in it."""

    folder: str  # absolute path of the staging folder
    file: list[str | int]  # the fields of a `StagedFile`
    row: int  # from 0


class DataFrameSource(Source[T, RowPosition, StagedPosition], DataFrameConnector):
    """Bounded source that stages a DataFrame as Arrow files before the job; see :func:`dataframe_source`."""

    produces_columns = True
    rereadable = False
    leaves_output = False

    # Readers learn from their splits where the files are.
    driver_only = ("_frame", "_staged")

    def __init__(self, frame: DataFrame) -> None:
        self.columns = list(frame.columns)
        self._frame: DataFrame | None = frame
        self._staged: Staged | None = None

    @override
    def arrow_schema(self) -> pa.Schema | None:
        return None if self._frame is None else arrow_schema(self._frame.schema)

    @override
    def prepare(self, spark: SparkSession, folder: str) -> None:
        assert self._frame is not None, "only the program's own object is prepared"
        try:
            files = stage(self._frame, folder, max_bytes_per_file=BYTES_PER_FILE)
        except Exception as error:
            raise UsageError(
                f"the DataFrame given to from_spark() ({shown_columns(self.columns)}) cannot be computed: "
                f"{first_line(error)}"
            ) from error
        self._staged = Staged(folder, tuple(files))

    @override
    def create_enumerator(
        self, restored: StagedPosition | None
    ) -> SplitEnumerator[RowPosition, StagedPosition]:
        if restored is not None:
            rest = Staged.of(restored)
            if rest.files:
                rest.require()
            return DataFrameEnumerator(rest)
        if self._staged is None:
            raise unprepared("from_spark")
        return DataFrameEnumerator(self._staged)

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[T, RowPosition]:
        return DataFrameReader()

    @override
    def describe(self) -> str:
        return f"DataFrame ({shown_columns(self.columns)})"


class Staged(NamedTuple):
    """The staged files of a DataFrame that are not yet assigned to a reader: the enumerator's state."""

    folder: str  # that the DataFrame was staged in; its last name is the token of that staging
    files: tuple[StagedFile, ...]  # in the order in which they are handed out

    @classmethod
    def of(cls, position: StagedPosition) -> Staged:
        """Return the staged files named in a checkpointed enumerator state.
        UsageError: an older format, with rows staged for one run only; StrayPathError: no staging folder.
        """
        if "folder" not in position:
            raise UsageError(
                "the checkpoint has a position in a DataFrame that was staged for one run only; write the "
                f"DataFrame to Parquet and use read_parquet(), or {_INSTEAD}"
            )
        folder = complete_staging(position["folder"])
        return cls(str(folder), tuple(map(StagedFile._make, position["files"])))

    def position(self) -> StagedPosition:
        return {"folder": self.folder, "files": [list(file) for file in self.files]}

    def require(self) -> None:
        """Raise UsageError if files that a restored job still has to read are no longer in the folder."""
        staged = ((file.path, inside(self.folder, file.path, "a file of staged rows")) for file in self.files)
        missing = [name for name, path in staged if not path.is_file()]
        if missing or not Path(self.folder).is_dir():
            raise UsageError(
                f"the checkpoint has a position in a DataFrame whose rows were staged in {self.folder!r}, "
                f"and {missing[0] if missing else 'the folder'} is not there (staged rows go when the job "
                f"that they belong to has ended without need for them); {_INSTEAD}"
            )


class DataFrameEnumerator(SplitEnumerator[RowPosition, StagedPosition]):
    """Assigns staged files to readers, one per request; its state is the list of files not yet assigned."""

    def __init__(self, staged: Staged) -> None:
        self._folder, self._remaining = staged.folder, deque(staged.files)

    @override
    def next_splits(self, subtask: int) -> list[Split[RowPosition]] | None:
        if not self._remaining:
            return None
        return [split_of(self._folder, self._remaining.popleft())]

    @override
    def left_to_assign(self) -> InputLeft:
        return InputLeft(records=sum(file.rows for file in self._remaining))

    @override
    def snapshot(self) -> StagedPosition:
        return Staged(self._folder, tuple(self._remaining)).position()


def split_of(folder: str, file: StagedFile) -> Split[RowPosition]:
    """Return the split that reads a staged file from its first row, for :class:`DataFrameReader`."""
    return Split(file.path, {"folder": folder, "file": list(file), "row": 0})


class DataFrameReader(SourceReader[T, RowPosition]):
    """Reads its staged files one after the other; a split's position is the number of its file's next row."""

    def __init__(self) -> None:
        self.bad_records = []
        self._splits: deque[Split[RowPosition]] = deque()
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._batch: pa.RecordBatch | None = None
        self._at = self._row = 0
        self._final = False

    @override
    def add_splits(self, splits: Sequence[Split[RowPosition]]) -> None:
        self._splits.extend(splits)

    @override
    def no_more_splits(self) -> None:
        self._final = True

    @override
    def poll(self, max_records: int) -> pa.RecordBatch | PollStatus:
        while self._splits:
            if self._batches is None:
                self._open(self._splits[0])
            assert self._batches is not None
            if self._batch is None or self._at == self._batch.num_rows:
                self._batch, self._at = next(self._batches, None), 0
            if self._batch is not None:
                return self._slice(max(1, max_records))
            self.close()
            self._splits.popleft()
        return END_OF_INPUT if self._final else NOTHING_AVAILABLE

    @override
    def left_to_read(self) -> dict[str, InputLeft]:
        return {split.id: InputLeft(records=_rows_left(split)) for split in self.snapshot()}

    @override
    def snapshot(self) -> list[Split[RowPosition]]:
        splits = list(self._splits)
        if self._batches is not None:
            splits[0] = Split(splits[0].id, {**_position_of(splits[0]), "row": self._row})
        return splits

    @override
    def close(self) -> None:
        self._batches = self._batch = None

    def _open(self, split: Split[RowPosition]) -> None:
        position = _position_of(split)
        self._row = position["row"]
        folder = str(staged_folder(position["folder"]))
        self._batches = read(folder, StagedFile._make(position["file"]), self._row)

    def _slice(self, rows: int) -> pa.RecordBatch:
        assert self._batch is not None
        piece = self._batch.slice(self._at, rows)
        self._at += piece.num_rows
        self._row += piece.num_rows
        return piece


class StreamReader(DataFrameReader[T]):
    """Reads its part of each epoch; what is left of that has one name, as files are new in each epoch."""

    @override
    def left_to_read(self) -> dict[str, InputLeft]:
        files = super().left_to_read().values()
        return {"epoch": InputLeft(records=sum(each.records or 0 for each in files))}


def _rows_left(split: Split[RowPosition]) -> int:
    position = _position_of(split)
    return StagedFile._make(position["file"]).rows - position["row"]


def _position_of(split: Split[RowPosition]) -> RowPosition:
    assert split.position is not None, "split_of() names the first row"
    return split.position
