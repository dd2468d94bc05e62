"""A source that reads the lines of one file as records, in place of a source that cannot go back."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from headgate.api.source import (
    END_OF_INPUT,
    NOTHING_AVAILABLE,
    PollStatus,
    Source,
    SourceReader,
    SourceReaderContext,
    Split,
    SplitEnumerator,
)
from headgate.common.decoders import UNDECODABLE, converter
from headgate.common.errors import UsageError
from headgate.graph.logical import SourceNode
from headgate.graph.physical import PhysicalPlan
from headgate.offline.replay.cutting import Cut

_SPLIT = "records"


class RecordsSource(Source[Any, int, bool]):
    """Reads given records, all in one split, from the first one on."""

    def __init__(self, records: Sequence[Any]) -> None:
        self._records = records

    def create_enumerator(self, restored: bool | None) -> SplitEnumerator[int, bool]:
        return _OneSplit(given=bool(restored))

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any, int]:
        return _ListReader(self._records)


class _OneSplit(SplitEnumerator[int, bool]):
    def __init__(self, *, given: bool) -> None:
        self._given = given

    def next_splits(self, subtask: int) -> list[Split[int]] | None:
        if self._given:
            return None
        self._given = True
        return [Split(_SPLIT, 0)]

    def snapshot(self) -> bool:
        return self._given


class _ListReader(SourceReader[Any, int]):
    def __init__(self, records: Sequence[Any]) -> None:
        self._records, self._final = records, False
        self._at: int | None = None

    def add_splits(self, splits: Sequence[Split[int]]) -> None:
        self._at = splits[0].position or 0

    def no_more_splits(self) -> None:
        self._final = True

    def poll(self, max_records: int) -> list[Any] | PollStatus:
        if self._at is None:
            return END_OF_INPUT if self._final else NOTHING_AVAILABLE
        taken = list(self._records[self._at : self._at + max_records])
        self._at += len(taken)
        if self._at == len(self._records):
            self._at = None
        return taken or NOTHING_AVAILABLE

    def snapshot(self) -> list[Split[int]]:
        return [] if self._at is None else [Split(_SPLIT, self._at)]


def with_records(cut: Cut, file: str) -> Cut:
    """Return the cut with the records of a file in place of one source.

    That is the one that cannot go back or, if all can, the only one. Each line is a JSON value: what the
    source emits, in the type of its records where that is declared.

    Raises:
        UsageError: it is not clear which source is meant, or a line does not decode.
    """
    sources = cut.sources
    wanted = [at for at, node in sources.items() if not node.source.rereadable] or list(sources)
    if len(wanted) > 1:
        raise UsageError(
            f"--records stands for one source, and {cut.node.name!r} has "
            f"{', '.join(repr(sources[at].uid) for at in wanted)}; replay a program that reads one of them"
        )
    vertex = cut.plan.vertices[wanted[0]]
    node = sources[wanted[0]]
    source = RecordsSource(_read(file, node.record_type))
    replaced: SourceNode = dataclasses.replace(node, source=source)
    vertices = list(cut.plan.vertices)
    vertices[wanted[0]] = dataclasses.replace(vertex, chain=(replaced, *vertex.chain[1:]))
    plan: PhysicalPlan = dataclasses.replace(cut.plan, vertices=tuple(vertices))
    return dataclasses.replace(cut, plan=plan, given=node.uid)


def _read(file: str, kind: Any) -> list[Any]:
    try:
        lines = Path(file).read_bytes().splitlines()
    except OSError as error:
        raise UsageError(
            f"--records {file}: {error.strerror}; name a file with a JSON value a line"
        ) from None
    convert = None if kind is None else converter(kind)
    records = []
    for number, line in enumerate(lines, 1):
        try:
            value = msgspec.json.decode(line)
            records.append(value if convert is None else convert(value))
        except UNDECODABLE as error:
            raise UsageError(
                f"--records {file}, line {number}: {error}; expected a JSON value that is a record"
            ) from None
    return records
