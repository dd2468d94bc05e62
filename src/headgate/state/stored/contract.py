"""What the engine works on: chunks of entries, how values pass, and the files that everything lies in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from headgate.common.plain_data import Description
from headgate.serde.evolution.older_shapes import Reader
from headgate.state.backend import Entries
from headgate.state.stored.blob_format import Chunk as BlobChunk
from headgate.state.stored.blob_format import Header, Section
from headgate.state.targets import Target, timers_target


class SectionCodec(NamedTuple):
    """How the values of one state pass.

    Attributes:
        single: whether each value has a batch of its own.
        plain: whether values are the plain ones of their description, as those of a table are.
    """

    read: Reader
    target: Target
    single: bool = False
    plain: bool = False


class ValueCodec(Protocol):
    """How the values of each state of one operator pass."""

    advice: str
    """What to do where values cannot pass; ends a sentence."""
    converts: bool
    """Whether values of older types become those of the newest."""

    def codec(self, section: Section) -> SectionCodec | None:
        """The way of a stored section; None: it is left behind.

        Raises:
            UsageError: there is none; names the state.
        """
        ...

    def targets(self, stored: Mapping[str, Description]) -> Mapping[str, Target]:
        """What reads a backend's own files, of which the states and their newest types are given.

        Raises:
            UsageError: nothing does; names the state.
        """
        ...


class Chunk(NamedTuple):
    """Some entries of one state, or some of its keys that were removed.

    Attributes:
        state: its name; of timers "timers:event" or "timers:processing".
        codec: how its values pass; None where keys were removed, of which nobody needs a value.
        removed: whether they were removed. Timers that were come with their timestamps.
        keys: one for each.
        values: one for each; nothing where `codec` is None.
        size: bytes that they took in the snapshot.
    """

    state: str
    codec: SectionCodec | None
    removed: bool
    keys: list[Hashable]
    values: list[Any]
    size: int


class OpenSection(NamedTuple):
    """One section of one form, ready to be read.

    Attributes:
        removed: whether it holds what was removed.
        codec: how its values pass; None where only keys are stored.
        entries: its entries in some key groups, ascending by key group.
    """

    state: str
    removed: bool
    codec: SectionCodec | None
    entries: Callable[[Collection[int]], Iterator[Entries]]


class StoredForm(Protocol):
    """One form of stored state: everything at some time, or what changed in a while."""

    @property
    def header(self) -> Header:
        """What it says of itself, verified."""
        ...

    def sections(self, values: ValueCodec, names: Collection[str] | None) -> list[OpenSection]:
        """Its sections.

        Args:
            values: how values pass.
            names: the wanted states and kinds of timers; None: all.

        Raises:
            StorageError: it is missing or damaged.
            UsageError: values cannot pass; names the state.
        """
        ...


_TIMERS: Final = timers_target()
TIMER_CODEC: Final = SectionCodec(_TIMERS.serializer.decode_many, _TIMERS, plain=True)


def described(name: str, schema: Description) -> Section:
    """A section that is not empty, for who judges it by its description.

    Example:
        >>> described("count", {"kind": "value"}).chunks[0].count
        1
    """
    return Section(name, schema, [BlobChunk(0, 0, 0, 1, 0)])
