"""What the engine works on: chunks of entries, how values pass, and the forms that state is stored in."""

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
    """How the values of one state pass."""

    read: Reader
    target: Target
    single: bool = False  # each value has a batch of its own
    plain: bool = False  # values are the plain ones of their description, as those of a table are


class ValueCodec(Protocol):
    """How the values of each state of one operator pass. What cannot pass is a UsageError that names the
    state.
    """

    advice: str
    """What to do where values cannot pass; ends a sentence."""
    converts: bool
    """Whether values of older types become those of the newest."""

    def codec(self, section: Section) -> SectionCodec | None:
        """Return how the values of a stored section pass; None: it is left out."""

    def targets(self, stored: Mapping[str, Description]) -> Mapping[str, Target]:
        """Return targets that read a backend's own files, of which the states and their newest types are
        given.
        """


class Chunk(NamedTuple):
    """Some entries of one state, or some of its keys that were removed.

    A removed timer comes with its timestamp, another removed key without a value and a codec.
    """

    state: str  # of timers "timers:event" or "timers:processing"
    codec: SectionCodec | None
    removed: bool
    keys: list[Hashable]
    values: list[Any]
    size: int  # bytes that they took in the snapshot


class OpenSection(NamedTuple):
    """One section of one form, ready to be read."""

    state: str
    removed: bool  # it holds what was removed
    codec: SectionCodec | None  # None: only keys are stored
    entries: Callable[
        [Collection[int]], Iterator[Entries]
    ]  # those of some key groups, ascending by key group


class StoredForm(Protocol):
    """One form of stored state: everything at some time, or what changed since.

    What is missing or damaged is a StorageError.
    """

    @property
    def header(self) -> Header:
        """The header: the stored form's own description of its content, verified."""

    def sections(self, values: ValueCodec, names: Collection[str] | None) -> list[OpenSection]:
        """Return the sections of the wanted states and kinds of timers; None: all."""


_TIMERS: Final = timers_target()
TIMER_CODEC: Final = SectionCodec(_TIMERS.serializer.decode_many, _TIMERS, plain=True)


def described(name: str, schema: Description) -> Section:
    """Return a section that counts as not empty, to be judged by its description."""
    return Section(name, schema, [BlobChunk(0, 0, 0, 1, 0)])


def written(writer: StateWriter, add_sections: Callable[[StateWriter], None]) -> KeyedStateHandle:
    """Let the sections be added and end the writer, whatever happens."""
    try:
        add_sections(writer)
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise
