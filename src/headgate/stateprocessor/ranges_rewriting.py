"""A snapshot's keyed state written anew by Spark: a task for each old subtask, then one for each new.

A task of the first kind reads what one subtask stored, and gives each new range of key groups its part of
every chunk. Spark brings the parts of a range together in the order in which they were read. A task of the
second kind does with them what one process would do with all: the same sorter, the same writer, so the same
tables. Each reads back what it has written, before it counts.
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
from typing import TYPE_CHECKING, Final, NotRequired

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
from headgate.offline.rewriting import KeyedWork, KeyedWritten
from headgate.offline.writing import StateWriter, count_entries
from headgate.state.canonical.table_layout import TIMER_SECTIONS
from headgate.state.heap.heap_blob import Section
from headgate.state.heap.snapshot import KEY_SERIALIZER
from headgate.state.snapshots import CheckpointMetadata, FileRange, KeyedStateHandle
from headgate.state.stored.contract import TIMER_CODEC, Chunk, SectionCodec, ValueCodec, described
from headgate.state.stored.regroup import Rekey, Sorter
from headgate.state.stored.subtask_state import stored_chunks
from headgate.state.stored.values import spilled, unspilled
from headgate.state.targets import Target
from headgate.stateprocessor.spark_errors import ToldError, refuse_told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSPECTOR: Final = "headgate.stateprocessor.ranges_rewriting:inspect"
"""What `offline.migrating.migrate` takes to know Spark."""

SPARK_FROM_BYTES: Final = 1 << 30
"""Stored bytes of keyed state from which on Spark is worth its start."""

_PARTS: Final = (
    "range int, place long, state string, removed boolean, schema binary, entries int, size long, "
    "keys binary, values binary, error string, text string"
)
_PART_TYPES: Final = pa.schema(
    [
        ("range", pa.int32()),
        ("place", pa.int64()),
        ("state", pa.string()),
        ("removed", pa.bool_()),
        ("schema", pa.binary()),
        ("entries", pa.int32()),
        ("size", pa.int64()),
        ("keys", pa.binary()),
        ("values", pa.binary()),
        ("error", pa.string()),
        ("text", pa.string()),
    ]
)
_WRITTEN: Final = "range int, handle binary, entries long, error string, text string"
_WRITTEN_TYPES: Final = pa.schema(
    [
        ("range", pa.int32()),
        ("handle", pa.binary()),
        ("entries", pa.int64()),
        ("error", pa.string()),
        ("text", pa.string()),
    ]
)
_OF_SUBTASK: Final = 1 << 40
"""Places of one old subtask follow those of the one before."""


_handles: Final = msgpack_decoder(KeyedStateHandle)


class _Part(ToldError):
    """The part of a chunk for one new range: a row of `_PARTS`."""

    range: int
    state: str
    removed: bool
    entries: int
    size: int
    keys: bytes
    values: bytes
    schema: NotRequired[bytes]


class _Written(ToldError):
    """What one new subtask has, or why it was refused: a row of `_WRITTEN`."""

    range: int
    handle: bytes
    entries: int


def _engine(request: MigrationRequest, metadata: CheckpointMetadata, config: Config) -> SparkEngine | None:
    """Spark, where it is asked for or the state is large; None: the process that asks."""
    keyed = [state.keyed for states in metadata.operators.values() for state in states if state.keyed]
    large = sum(one.size for one in keyed) >= SPARK_FROM_BYTES
    asked = request["spark"]
    if not (large if asked is None else asked) or not keyed:
        return None
    return SparkEngine(_session(config))


inspect: Final = inspector(_engine)


def _session(config: Config) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("headgate savepoint migrate")
    if SparkSession.getActiveSession() is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        asked = config.get(o.SPARK_MASTER)
        builder = builder.master("local[*]" if asked == "local" else asked)
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
    """Implements `offline.rewriting.KeyedEngine`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def rewritten(self, work: KeyedWork) -> KeyedWritten:
        """See `offline.rewriting.KeyedEngine`."""
        size = sum(keyed.size for keyed in work.stored)
        shipped = _Shipped(
            work.disk.describe(),
            work.to.describe(),
            storage_settings_in_use(),
            work.uid,
            work.number,
            work.stored,
            work.parallelism,
            work.values,
            work.rekey,
            work.old_groups,
            work.groups,
            work.format,
            size,
            f"-{secrets.token_hex(4)}",
        )
        handles = list[KeyedStateHandle]()
        try:
            found = {row["range"]: row for row in self._run(shipped)}
            # Of a range that has nothing Spark need not run a task.
            missing = set(range(work.parallelism)) - found.keys()
            found |= {index: shipped.written_range(index, iter(())) for index in missing}
            handles += [_handles.decode(found[index]["handle"]) for index in range(work.parallelism)]
        finally:
            _remove_others(shipped, handles)
        return KeyedWritten(handles, sum(row["entries"] for row in found.values()))

    def _run(self, shipped: _Shipped) -> list[_Written]:
        from pyspark.errors import PySparkException

        count = len(shipped.stored)
        old = self._spark.createDataFrame([(index,) for index in range(count)], "subtask int")
        parts = old.repartitionById(count, "subtask").mapInArrow(lambda rows: shipped.parts(rows), _PARTS)
        ranges = parts.repartitionById(shipped.parallelism, "range").sortWithinPartitions("range", "place")
        try:
            rows = ranges.mapInArrow(lambda rows: shipped.written(rows), _WRITTEN).collect()
        except PySparkException as error:
            first = (str(error).strip().splitlines() or [repr(error)])[0]
            raise OperatingError(f"Spark could not rewrite the state of {shipped.uid!r}: {first}") from error
        found: list[_Written] = [row.asDict() for row in rows]  # type: ignore[misc]
        for row in found:
            refuse_told(row)
        return found


def _remove_others(shipped: _Shipped, handles: Sequence[KeyedStateHandle]) -> None:
    """Remove what attempts have written that no handle refers to, as they did not count."""
    kept = {file.file for keyed in handles for file in keyed.handles() if isinstance(file, FileRange)}
    disk = open_disk(shipped.target, shipped.settings)
    for name in disk.list(""):
        if shipped.mark in name and name not in kept:
            with suppress(StorageError, OSError):
                disk.delete(name)


@dataclass(frozen=True, slots=True)
class _Shipped:
    """What both kinds of tasks need; picklable. Fields as those of `offline.rewriting.KeyedWork`, and others.

    Attributes:
        mark: in the names of all files that the tasks write.
    """

    source: str
    target: str
    settings: StorageSettings
    uid: str
    number: str
    stored: Sequence[KeyedStateHandle]
    parallelism: int
    values: ValueCodec
    rekey: Rekey | None
    old_groups: int
    groups: int
    format: str
    size: int
    mark: str

    # -- a task of the first kind

    def parts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For rows with numbers of old subtasks: rows of `_PARTS`."""
        for batch in batches:
            for subtask in batch.column(0).to_pylist():
                try:
                    yield from self._parts_of(subtask)
                except HeadgateError as error:
                    told = {
                        "range": 0,
                        "place": -1,
                        "state": "",
                        "error": type(error).__name__,
                        "text": str(error),
                    }
                    yield pa.RecordBatch.from_pylist([told], schema=_PART_TYPES)

    def _parts_of(self, subtask: int) -> Iterator[pa.RecordBatch]:
        disk = open_disk(self.source, self.settings)
        watched = _Watched(self.values)
        stored = stored_chunks(DiskFiles(disk), self.stored[subtask], watched, self.old_groups)
        for number, chunk in enumerate(stored):
            schema = msgspec.msgpack.encode(watched.schemas.get(chunk.state))
            rows = [
                {**row, "place": subtask * _OF_SUBTASK + number, "schema": schema}
                for row in self._divided(chunk)
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=_PART_TYPES)

    def _divided(self, chunk: Chunk) -> Iterator[_Part]:
        """A chunk as one row for each new range that has a part of it."""
        new = chunk.keys if self.rekey is None else [self.rekey(key) for key in chunk.keys]
        ranges = operator_indexes_of_key_groups(
            key_groups_of_keys(new, self.groups), self.groups, self.parallelism
        )
        for index in np.unique(ranges).tolist():
            places = np.flatnonzero(ranges == index).tolist()
            values = b""
            if chunk.codec is not None:
                values = spilled(chunk.codec, [chunk.values[place] for place in places])
            yield {
                "range": index,
                "state": chunk.state,
                "removed": chunk.removed,
                "entries": len(places),
                "size": chunk.size * len(places) // len(chunk.keys),
                "keys": KEY_SERIALIZER.encode_many([chunk.keys[place] for place in places]),
                "values": values,
            }

    # -- a task of the second kind

    def written(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For the rows of one range: a row of `_WRITTEN`."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        index = first.column(0)[0].as_py()
        try:
            made = pa.RecordBatch.from_pylist(
                [self.written_range(index, chain([first], filled))], schema=_WRITTEN_TYPES
            )
        except HeadgateError as error:
            told = {"range": index, "error": type(error).__name__, "text": str(error)}
            made = pa.RecordBatch.from_pylist([told], schema=_WRITTEN_TYPES)
        yield made

    def written_range(self, index: int, batches: Iterator[pa.RecordBatch]) -> _Written:
        """What one new subtask has, sorted, written, and read back."""
        disk = open_disk(self.target, self.settings)
        with tempfile.TemporaryDirectory(prefix="headgate-rewrite-") as name:
            folder, codecs = Path(name), dict[tuple[str, bytes], SectionCodec | None]()
            sorter = Sorter(folder, self.groups, self.parallelism, self.size, self.rekey)
            try:
                for batch in batches:
                    for row in batch.to_pylist():
                        sorter.add(self._chunk(row, codecs))
                sorter.check_apart()
                writer = StateWriter(disk, self.format, folder, f"{self.mark}-{secrets.token_hex(4)}")
                keyed = writer.subtask(sorter, self.uid, self.number, index, self.groups)
            finally:
                sorter.close()
        found = count_entries(disk, keyed, self.groups)
        if found != writer.entries:
            raise InternalError(
                f"{writer.entries} entries were written and {found} are there; please report this"
            )
        return {"range": index, "handle": msgspec.msgpack.encode(keyed), "entries": found}

    def _chunk(self, row: _Part, codecs: dict[tuple[str, bytes], SectionCodec | None]) -> Chunk:
        refuse_told(row)
        state, count = row["state"], row["entries"]
        keys = KEY_SERIALIZER.decode_many(row["keys"], count)
        if row["removed"] and state not in TIMER_SECTIONS:
            return Chunk(state, None, True, keys, [], row["size"])
        known = (state, row["schema"])
        if known not in codecs:
            codecs[known] = TIMER_CODEC if state in TIMER_SECTIONS else self._codec(*known)
        codec = codecs[known]
        assert codec is not None, "what is left behind was not read"
        return Chunk(state, codec, row["removed"], keys, unspilled(codec, row["values"], count), row["size"])

    def _codec(self, state: str, schema: bytes) -> SectionCodec | None:
        """As in the first task, each of which has seen the schemas of one subtask only."""
        return self.values.codec(described(state, msgspec.msgpack.decode(schema)))


class _Watched:
    """How the values of a change pass, and of which schemas they were asked for."""

    def __init__(self, values: ValueCodec) -> None:
        self._values = values
        self.advice, self.converts = values.advice, values.converts
        self.schemas: dict[str, Description] = {}

    def codec(self, section: Section) -> SectionCodec | None:
        """See `state.stored.contract.ValueCodec`."""
        self.schemas[section.name] = section.schema
        return self._values.codec(section)

    def targets(self, stored: Mapping[str, Description]) -> Mapping[str, Target]:
        """See `state.stored.contract.ValueCodec`."""
        return self._values.targets(stored)
