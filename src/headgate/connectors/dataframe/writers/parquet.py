"""Writes epochs as Parquet directories: first under an attempt's name, then published by one rename.

::

  _lineage=<id>/_sink=<uid>/_epoch=<n>/...   published; readers see lineage, sink and epoch as columns
  _attempts/<lineage>+<uid>/<n>-<generation>-<token>/   unpublished tries; readers skip such names
  _taken_back/<lineage>+<uid>/<n>/           what was published and is not any more

A directory cannot be renamed onto one that has files, so of two tries of an epoch one is published. Where an
epoch was taken back, there is a directory with a mark, so that no late try can be published.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import quote, unquote, urlsplit

from typing_extensions import override

from headgate.common.errors import FencedError, UsageError
from headgate.common.files.durable import remove_folder, rename, sync, touch, unlink
from headgate.common.files.durable_file import sync_tree
from headgate.common.files.stored_paths import unlinked
from headgate.connectors.dataframe.writers.writer_contract import EpochWriter, SparkEpoch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = ("_lineage", "_sink", "_epoch")  # columns that readers get in addition to those of the rows

_ATTEMPTS: Final = "_attempts"
_TAKEN_BACK: Final = "_taken_back"


def parquet(path: str | os.PathLike[str], partition_by: Sequence[str] = ()) -> ParquetWriter:
    """Return a writer of epochs as Parquet files; an epoch's files become visible together.

    ``spark.read.parquet(path)`` gives the rows of published epochs, with the columns ``_lineage``, ``_sink``
    and ``_epoch`` added.

    Args:
        path: a directory on a disk that the driver and all executors share under this name.
        partition_by: columns that become directories below an epoch's.

    Raises:
        UsageError: the path is on an object store or another file system of Hadoop, or `partition_by` is no
            list of names.
    """
    if isinstance(partition_by, str) or not all(isinstance(name, str) for name in partition_by):
        raise UsageError(f"parquet() got partition_by={partition_by!r}; expected a list of column names")
    return ParquetWriter(_local(path), tuple(partition_by))


class ParquetWriter(EpochWriter):
    """Writer that publishes epochs as Parquet directories and can take them back; see :func:`parquet`."""

    takes_back: ClassVar[bool] = True

    def __init__(self, path: str, partition_by: tuple[str, ...]) -> None:
        self.path, self.partition_by = path, partition_by

    @override
    def place(self) -> str:
        return self.path

    @override
    def check(self) -> None:
        folder = Path(self.path)
        if os.path.lexists(folder) and not folder.is_dir():
            raise UsageError(f"output {self.path!r} is a file; expected a directory or a new name")
        while not os.path.lexists(folder):
            folder = folder.parent
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(
                f"cannot write in {str(folder)!r}; allow writing there or choose another directory"
            )

    @override
    def begin(self, spark: SparkSession, epoch: SparkEpoch) -> None:
        for attempt in self._attempts(epoch.lineage, epoch.sink).glob("*"):
            number, generation = map(int, attempt.name.split("-")[:2])
            if number < epoch.epoch or generation <= epoch.generation:
                remove_folder(attempt)

    @override
    def write(self, frame: DataFrame, epoch: SparkEpoch) -> None:
        taken = next((name for name in frame.columns if name in COLUMNS), None)
        if taken is not None:
            raise UsageError(
                f"the rows have a column {taken!r}, which the Parquet output of to_spark() adds itself; "
                "rename the column"
            )
        final = self._final(epoch.lineage, epoch.sink, epoch.epoch)
        if self._published(final):
            return
        name = f"{epoch.epoch}-{epoch.generation}-{epoch.token}"
        attempt = self._attempts(epoch.lineage, epoch.sink) / name
        frame.write.partitionBy(*self.partition_by).parquet(f"file://{attempt}")
        unlink(attempt / "_SUCCESS", missing_ok=True)
        sync_tree(attempt)  # Spark leaves what it has written to the operating system
        final.parent.mkdir(parents=True, exist_ok=True)
        if not _renamed(attempt, final):
            self._published(final)
            remove_folder(attempt)
        _sync_names(final, 4)

    @override
    def take_back(self, lineage: str, sink: str, epochs: Iterable[int], unfinished: Collection[int]) -> None:
        for epoch in {*epochs, *unfinished}:
            final = self._final(lineage, sink, epoch)
            if epoch not in unfinished and not final.exists():
                continue
            final.parent.mkdir(parents=True, exist_ok=True)
            while not (final / _TAKEN_BACK).exists():
                self._make_way(final, self._aside(lineage, sink, epoch))
            _sync_names(final, 1)

    @override
    def put_back(self, lineage: str, sink: str, epochs: Iterable[int]) -> None:
        for epoch in epochs:
            final, aside = self._final(lineage, sink, epoch), self._aside(lineage, sink, epoch)
            mark = final / _TAKEN_BACK
            if mark.exists():
                unlink(mark)
                # An epoch that was not known to be written may not be there; its job writes it again.
                rename(aside, final) if aside.exists() else final.rmdir()
            elif aside.exists():
                rename(aside, final)
            _sync_names(final, 1)

    @override
    def describe(self) -> str:
        return f"Parquet {self.path}"

    def _make_way(self, final: Path, aside: Path) -> None:
        # Where an epoch was taken back a marked directory stands, so that no late try is published.
        if final.exists():
            aside.parent.mkdir(parents=True, exist_ok=True)
            remove_folder(aside)
            rename(final, aside)
            _sync_names(aside, 1)
        empty = aside.with_name(f"{aside.name}.mark")
        empty.mkdir(parents=True, exist_ok=True)
        touch(empty / _TAKEN_BACK)
        # A driver may have published in between; the caller looks again.
        _renamed(empty, final)

    def _published(self, final: Path) -> bool:
        if (final / _TAKEN_BACK).exists():
            raise FencedError(
                f"{str(final)!r} was taken back by another job that goes on from an older snapshot; begin "
                "this one again with execution.sinks.older-snapshot=take-back to have it back"
            )
        return final.is_dir() and any(final.iterdir())

    def _final(self, lineage: str, sink: str, epoch: int) -> Path:
        values = (quote(lineage, safe=""), quote(sink, safe=""), str(epoch))
        names = (f"{column}={value}" for column, value in zip(COLUMNS, values, strict=True))
        return unlinked(self.path, *names)

    def _attempts(self, lineage: str, sink: str) -> Path:
        return unlinked(self.path, _ATTEMPTS, f"{quote(lineage, safe='')}+{quote(sink, safe='')}")

    def _aside(self, lineage: str, sink: str, epoch: int) -> Path:
        whose = f"{quote(lineage, safe='')}+{quote(sink, safe='')}"
        return unlinked(self.path, _TAKEN_BACK, whose, str(epoch))


def _local(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    scheme = urlsplit(text).scheme
    if scheme == "file":
        text = unquote(urlsplit(text).path)
    elif scheme:
        raise UsageError(
            f"parquet() got {text!r}; expected a directory on a shared disk, because on {scheme}:// an epoch "
            "cannot be published by one rename; use delta() or iceberg() there"
        )
    return str(Path(text).absolute())


def _renamed(source: Path, target: Path) -> bool:
    # It stays where it is if the target has files already.
    try:
        rename(source, target)
    except OSError:
        if target.is_dir() and any(target.iterdir()):
            return False
        raise
    return True


def _sync_names(path: Path, folders: int) -> None:
    for folder in list(path.parents)[:folders]:
        with suppress(FileNotFoundError):
            sync(folder)
