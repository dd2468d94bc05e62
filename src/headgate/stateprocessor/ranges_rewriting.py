"""Rewrites a snapshot's keyed state with Spark: a task for each old subtask, then one for each new one.

A task of the first kind reads what one subtask stored, and gives each new range of key groups its part of
every chunk. Spark brings the parts of a range together in the order in which they were read. A task of the
second kind does with them what one process would do with all: the same sorter, the same writer, so the same
tables. Each counts the entries that it reads back of what it has written; another number is an error.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pyarrow as pa

from headgate.checkpoint.storage.settings import StorageSettings, storage_settings_in_use
from headgate.checkpoint.storage.uris import open_disk
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.decoders import msgpack_decoder
from headgate.common.errors import HeadgateError, InternalError, OperatingError, StorageError
from headgate.common.keys.keygroups import key_groups_of_keys, operator_indexes_of_key_groups
from headgate.common.plain_data import Description
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.offline.migrating import MigrationRequest, inspector
from headgate.offline.rewriting import KeyedWork, KeyedWritten, keyed_handles
from headgate.offline.writing import SubtaskWriter, count_entries
from headgate.state.canonical.table_layout import TIMER_SECTIONS
from headgate.state.snapshots import CheckpointMetadata, FileRange, KeyedStateHandle
from headgate.state.stored.blob_format import KEY_SERIALIZER, Section
from headgate.state.stored.contract import TIMER_CODEC, Chunk, SectionCodec, ValueCodec, described
from headgate.state.stored.regroup import Sorter
from headgate.state.stored.subtask_state import stored_chunks
from headgate.state.stored.values import spilled, unspilled
from headgate.state.targets import Target
from headgate.stateprocessor.spark_errors import ReportedError, RowFormat, raise_reported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSPECTOR: Final = "headgate.stateprocessor.ranges_rewriting:inspect"
"""The inspector with which `offline.migrating.migrate` can use Spark."""

SPARK_FROM_BYTES: Final = 1 << 30
"""Bytes of stored keyed state from which on rewriting uses Spark if the request leaves that open."""

_PARTS: Final = RowFormat(
    "range int, place long, state string, removed boolean, schema binary, entries int, size long, "
    "keys binary, values binary"
)
_WRITTEN: Final = RowFormat("range int, handle binary, entries long")
_OF_SUBTASK: Final = 1 << 40
"""Distance between the first places of two old subtasks: places keep the parts in subtask order."""

_handles: Final = msgpack_decoder(KeyedStateHandle)


class _Part(ReportedError):
    """A row of `_PARTS`: the part of a chunk of state (stored entries) that belongs to one new subtask.

    `range` is the subtask's index from 0, `place` the chunk's place among all. `removed`: the entries are
    keys that a changelog lists as removed. `schema` is the state's stored description.
    """

    range: int
    place: int
    state: str
    removed: bool
    schema: bytes
    entries: int
    size: int
    keys: bytes
    values: bytes


class _Written(ReportedError):
    """A row of `_WRITTEN`: the stored handle and number of entries of one new subtask, or an error."""

    range: int
    handle: bytes
    entries: int


def _engine(request: MigrationRequest, metadata: CheckpointMetadata, config: Config) -> SparkEngine | None:
    keyed = keyed_handles(state for states in metadata.operators.values() for state in states)
    large = sum(one.size for one in keyed) >= SPARK_FROM_BYTES
    requested = large if request["spark"] is None else request["spark"]
    return SparkEngine(_session(config)) if requested and keyed else None


inspect: Final = inspector(_engine)


def _session(config: Config) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("headgate savepoint migrate")
    if SparkSession.getActiveSession() is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = config.get(o.SPARK_MASTER)
        builder = builder.master("local[*]" if master == "local" else master)
        builder = builder.config("spark.ui.enabled", "false")
    try:
        found: SparkSession = builder.getOrCreate()
    except Exception as error:
        raise OperatingError(
            f"Spark did not start to rewrite the state: {str(error).strip().splitlines()[0]}; see its own "
            "lines, or give --no-spark to do it in this process"
        ) from error
    return found


class SparkEngine:
    """The engine that rewrites a snapshot's keyed state for `headgate savepoint migrate` in Spark's tasks."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def rewritten(self, work: KeyedWork) -> KeyedWritten:
        shipped = _Shipped(work, storage_settings_in_use(), f"-{secrets.token_hex(4)}")
        handles = list[KeyedStateHandle]()
        try:
            found = {row["range"]: row for row in self._run(shipped)}
            # Spark need not run a task for a range that has nothing.
            missing = set(range(work.parallelism)) - found.keys()
            found |= {index: shipped.written_range(index, iter(())) for index in missing}
            handles += [_handles.decode(found[index]["handle"]) for index in range(work.parallelism)]
        finally:
            _remove_others(shipped, handles)
        return KeyedWritten(handles, sum(row["entries"] for row in found.values()))

    def _run(self, shipped: _Shipped) -> list[_Written]:
        from pyspark.errors import PySparkException

        work, count = shipped.work, len(shipped.work.stored)
        old = self._spark.createDataFrame([(index,) for index in range(count)], "subtask int")
        subtasks = old.repartitionById(count, "subtask")
        parts = subtasks.mapInArrow(lambda rows: shipped.parts(rows), _PARTS.ddl)
        ranges = parts.repartitionById(work.parallelism, "range").sortWithinPartitions("range", "place")
        try:
            rows = ranges.mapInArrow(lambda rows: shipped.written(rows), _WRITTEN.ddl).collect()
        except PySparkException as error:
            first = (str(error).strip().splitlines() or [repr(error)])[0]
            raise OperatingError(f"Spark could not rewrite the state of {work.uid!r}: {first}") from error
        found: list[_Written] = [row.asDict() for row in rows]  # type: ignore[misc]
        for row in found:
            raise_reported(row)
        return found


def _remove_others(shipped: _Shipped, handles: Sequence[KeyedStateHandle]) -> None:
    # Files of failed attempts; where storage does not allow it, they stay.
    kept = {file.file for keyed in handles for file in keyed.handles() if isinstance(file, FileRange)}
    disk = open_disk(shipped.work.target, shipped.settings)
    for name in disk.list(""):
        if shipped.mark in name and name not in kept:
            with suppress(StorageError, OSError):
                disk.delete(name)


@dataclass(frozen=True, slots=True)
class _Shipped:
    """The work and the storage settings that both kinds of tasks get; picklable."""

    work: KeyedWork
    settings: StorageSettings
    mark: str  # in the names of all files that the tasks write

    # -- a task of the first kind

    def parts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for subtask in batch.column(0).to_pylist():
                try:
                    yield from self._parts_of(subtask)
                except HeadgateError as error:
                    yield _PARTS.error(error, range=0, place=-1, state="")

    def _parts_of(self, subtask: int) -> Iterator[pa.RecordBatch]:
        work = self.work
        disk, watched = open_disk(work.source, self.settings), _Watched(work.values)
        stored = stored_chunks(DiskFiles(disk), work.stored[subtask], watched, work.old_groups)
        for place, chunk in enumerate(stored, subtask * _OF_SUBTASK):
            schema = msgspec.msgpack.encode(watched.schemas.get(chunk.state))
            yield _PARTS.batch(self._divided(chunk, place, schema))

    def _divided(self, chunk: Chunk, place: int, schema: bytes) -> Iterator[_Part]:
        work = self.work
        new = chunk.keys if work.rekey is None else [work.rekey(key) for key in chunk.keys]
        groups = key_groups_of_keys(new, work.groups)
        ranges = operator_indexes_of_key_groups(groups, work.groups, work.parallelism)
        for index in np.unique(ranges).tolist():
            places = np.flatnonzero(ranges == index).tolist()
            values = b""
            if chunk.codec is not None:
                values = spilled(chunk.codec, [chunk.values[at] for at in places])
            yield {
                "range": index,
                "place": place,
                "state": chunk.state,
                "removed": chunk.removed,
                "schema": schema,
                "entries": len(places),
                "size": chunk.size * len(places) // len(chunk.keys),
                "keys": KEY_SERIALIZER.encode_many([chunk.keys[at] for at in places]),
                "values": values,
            }

    # -- a task of the second kind

    def written(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        index = first.column(0)[0].as_py()
        try:
            made = _WRITTEN.batch([self.written_range(index, chain([first], filled))])
        except HeadgateError as error:
            made = _WRITTEN.error(error, range=index)
        yield made

    def written_range(self, index: int, batches: Iterator[pa.RecordBatch]) -> _Written:
        """Write the state of new subtask `index`, sorted by key group, and return the row that reports it.
        `batches` have its `_PARTS` rows. UsageError: two keys become one; InternalError: not all is read
        back.
        """
        work, disk = self.work, open_disk(self.work.target, self.settings)
        with tempfile.TemporaryDirectory(prefix="headgate-rewrite-") as name:
            folder, codecs = Path(name), dict[tuple[str, bytes], SectionCodec | None]()
            sorter = Sorter(folder, work.groups, work.parallelism, work.size, work.rekey)
            try:
                for batch in batches:
                    for row in batch.to_pylist():
                        sorter.add(self._chunk(row, codecs))
                sorter.check_apart()
                writer = SubtaskWriter(disk, work.format, folder, f"{self.mark}-{secrets.token_hex(4)}")
                keyed = writer.subtask(sorter, work.uid, work.number, index, work.groups)
            finally:
                sorter.close()
        found = count_entries(disk, keyed, work.groups)
        if found != writer.entries:
            raise InternalError(
                f"{writer.entries} entries were written and {found} are there; please report this"
            )
        return {"range": index, "handle": msgspec.msgpack.encode(keyed), "entries": found}

    def _chunk(self, row: _Part, codecs: dict[tuple[str, bytes], SectionCodec | None]) -> Chunk:
        raise_reported(row)
        state, count = row["state"], row["entries"]
        keys = KEY_SERIALIZER.decode_many(row["keys"], count)
        if row["removed"] and state not in TIMER_SECTIONS:
            return Chunk(state, None, True, keys, [], row["size"])
        known = (state, row["schema"])
        if known not in codecs:
            # As in the tasks of the first kind, each of which has seen the schemas of one subtask only.
            section = described(state, msgspec.msgpack.decode(row["schema"]))
            codecs[known] = TIMER_CODEC if state in TIMER_SECTIONS else self.work.values.codec(section)
        codec = codecs[known]
        assert codec is not None, "what is left behind was not read"
        return Chunk(state, codec, row["removed"], keys, unspilled(codec, row["values"], count), row["size"])


class _Watched:
    """The codecs of a migration; records the stored schema of each state whose codec is requested."""

    def __init__(self, values: ValueCodec) -> None:
        self._values = values
        self.advice, self.converts = values.advice, values.converts
        self.schemas: dict[str, Description] = {}

    def codec(self, section: Section) -> SectionCodec | None:
        self.schemas[section.name] = section.schema
        return self._values.codec(section)

    def targets(self, stored: Mapping[str, Description]) -> Mapping[str, Target]:
        return self._values.targets(stored)
