"""Contracts of reading stored keyed state: batches of entries, codecs of values, and the stored forms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from headgate.common.plain_data import Description
from headgate.serde.evolution.older_shapes import Reader
from headgate.state.backend import Entries, StateWriter
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.stored.blob_format import Chunk as BlobChunk
from headgate.state.stored.blob_format import Header, Section
from headgate.state.targets import Target, timers_target


class SectionCodec(NamedTuple):
    """How a state's stored values are decoded (`read`), and the target (type, serializer) to encode them."""

    read: Reader
    target: Target
    single: bool = False  # each value has a batch of its own
    plain: bool = False  # values are plain data without the program's classes, as those of a table are


class ValueCodec(Protocol):
    """Decides how the stored values of each state are decoded; a UsageError names a state that cannot be."""

    advice: str  # ends the message on values that cannot be decoded: what the user can do
    converts: bool  # whether values of older types are converted to the newest type

    def codec(self, section: Section) -> SectionCodec | None:
        """Return how the values of a stored section are decoded; None: the section is left out. UsageError,
        with the state's name and `advice`: they cannot be decoded.
        """

    def targets(self, stored: Mapping[str, Description]) -> Mapping[str, Target]:
        """Return state -> type and serializer to read RocksDB's files by; `stored`: their newest types."""


class Chunk(NamedTuple):
    """A batch of stored entries of one state, or of keys that a changelog lists as removed.

    A removed timer comes with its timestamp, another removed key without a value and a codec.
    """

    state: str  # of timers "timers:event" or "timers:processing"
    codec: SectionCodec | None
    removed: bool
    keys: list[Hashable]
    values: list[Any]
    size: int  # bytes that they took in the snapshot


class OpenSection(NamedTuple):
    """One state or kind of timers in one stored form; `entries(groups)` yields those of some key groups."""

    state: str
    removed: bool  # it holds what was removed
    codec: SectionCodec | None  # None: only keys are stored
    entries: Callable[[Collection[int]], Iterator[Entries]]  # of the key groups given, ascending


class StoredForm(Protocol):
    """One stored part of a subtask's state: a blob, RocksDB's files, tables, or a segment of changes.

    Missing or damaged bytes are a StorageError.
    """

    @property
    def header(self) -> Header:
        """The header: the stored form's own description of its content, verified."""

    def sections(self, values: ValueCodec, names: Collection[str] | None) -> list[OpenSection]:
        """Return the sections of the states and timers in `names` (None: all), to be decoded by `values`,
        which may leave some out. UsageError: it cannot decode a state; StorageError: damaged.
        """


_TIMERS: Final = timers_target()
TIMER_CODEC: Final = SectionCodec(_TIMERS.serializer.decode_many, _TIMERS, plain=True)


def described(name: str, schema: Description) -> Section:
    # to check a type
    return Section(name, schema, [BlobChunk(0, 0, 0, 1, 0)])


def written(writer: StateWriter, add_sections: Callable[[StateWriter], None]) -> KeyedStateHandle:
    """Call `add_sections`, then finish the writer and return its handle; abandon it on any error."""
    try:
        add_sections(writer)
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise
