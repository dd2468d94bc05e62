"""Targets of the fuzzing: what the connectors of Spark store: positions of streams, and journals of sinks."""

from __future__ import annotations

import functools
import zlib
from typing import Any

import msgspec

from headgate.common.errors import OperatingError, StorageError, UsageError
from headgate.connectors.dataframe import stream_log
from headgate.connectors.dataframe.stream_position import Position, QueryEpoch
from headgate.connectors.dataframe.to_spark_journal import (
    Begun,
    Entry,
    Origin,
    Owner,
    PutBack,
    Run,
    State,
    TakenBack,
    Written,
    after,
)
from headgate.connectors.dataframe.to_spark_log import decoded, encoded
from proof.fuzz_target import Target


def _positions() -> list[bytes]:
    entry = zlib.compress(b'v1\n{"path":"file:///a/b.json","timestamp":1,"batchId":0}')
    offsets = zlib.compress(b'v1\n{"batchTimestampMs":5}\n{"logOffset":3}')
    log = {"metadata": zlib.compress(b'{"id":"x"}'), "offsets/3": offsets, "sources/0/3": entry}
    return [msgspec.msgpack.encode(Position(QueryEpoch("3f9c", "a01b", 3), log).to_plain())]


def _read_position(data: bytes) -> Any:
    try:
        plain = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # The metadata around it has a target of its own.
        raise StorageError(str(error)) from error
    position = Position.from_plain(plain, "orders")
    stream_log.offsets_text(position.log, position.last.epoch)
    return [list(stream_log.listed(name, zlib.decompress(part))) for name, part in position.log.items()]


def _entries() -> list[bytes]:
    origin, run = Origin("job", 1, 1, 7), Run("job", 1, 1, 3, 7, 0)
    entries: list[Entry] = [
        Owner("job", 1, [("older", 1, 1, 3)]),
        Begun(7, origin, ["part-0.arrow"], [("author", "string")]),
        Written(7),
        TakenBack([run], [7]),
        PutBack([run]),
        State(["job"], 1, 7, 0, [("author", "string")], [run], [], None, []),
    ]
    return [encoded(entry) for entry in entries]


def _read_entry(data: bytes) -> Any:
    _, _, body = data.partition(b" ")
    body = body.rstrip(b"\n")
    entry = decoded(b"%08x %s\n" % (zlib.crc32(body), body), "fuzzed bytes")
    return functools.reduce(after, [Owner("job", 1), entry], State())


TARGETS = [
    Target("position of a stream of Spark", (StorageError, UsageError), _positions, _read_position),
    Target("journal of a sink of Spark", (OperatingError,), _entries, _read_entry),
]
