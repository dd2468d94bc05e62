"""Declarations of how long entries of keyed state live; :mod:`headgate.state.ttl` expires them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.common.time import duration_ms

INCREMENTAL_DEFAULT: Final = 2
"""Keys checked for expiry per record; enough for a pass over a million keys in half a million records."""

Choice = TypeVar("Choice", bound=StrEnum)


class TtlUpdate(StrEnum):
    """Which accesses restart an entry's time to live: creation and writes, or reads as well."""

    ON_CREATE_AND_WRITE = "on-create-and-write"
    ON_READ_AND_WRITE = "on-read-and-write"


class TtlVisibility(StrEnum):
    """Whether a function may still read an entry that has expired: never, or until it is removed."""

    NEVER_RETURN_EXPIRED = "never-return-expired"
    RETURN_EXPIRED_IF_NOT_CLEANED_UP = "return-expired-if-not-cleaned-up"
    """The first read after expiry may still return the entry, and removes it."""


class TtlTime(StrEnum):
    """The clock by which entries age and expire: the worker's wall clock, or the watermark."""

    PROCESSING = "processing"
    """The wall clock of the worker."""
    EVENT = "event"
    """The watermark in force: the same result however fast the records come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TtlCleanup:
    """When expired entries are removed, besides when they are read.

    Attributes:
        full_snapshot: leave expired entries out of checkpoints that hold all state, not only its changes.
        incremental: how many other keys, at most, are checked for expiry with each record; 0: none.

    Raises:
        PlanError: `incremental` is not an int of 0 or more.
    """

    full_snapshot: bool = True
    incremental: int = INCREMENTAL_DEFAULT

    def __post_init__(self) -> None:
        if type(self.incremental) is not int or self.incremental < 0:
            raise PlanError(
                f"TtlCleanup at {user_site()} got incremental={self.incremental!r}; expected how many keys "
                "each record looks at, 0 or more"
            )


@dataclass(frozen=True, slots=True)
class StateTtl:
    """How long an entry of a state lives after it was last written, or with `update` also read.

    Entries are a value, a reduced value, an accumulator, each element of a list, each key of a map. An entry
    written at `t` expires as soon as the clock shows `t + duration`.

    Args:
        duration: ms, or text such as ``"7d"``; above 0.
        update: whether only creation and writes restart the time, or reads as well.
        visibility: whether a read may return an entry that has expired and is not yet removed.
        time: whether the wall clock decides, or the watermark in force.
        cleanup: how entries that nobody reads are removed.

    Raises:
        PlanError: an argument has none of its allowed values.

    Example:
        >>> import headgate as hg
        >>> from headgate.testing import OperatorHarness
        >>> class Seen(hg.KeyedProcessFunction[str, dict, bool]):
        ...     seen = hg.value_state(default=False, ttl=hg.StateTtl("1h"))
        ...     def process(self, record, ctx):
        ...         yield self.seen.value
        ...         self.seen.value = True
        >>> harness = OperatorHarness(Seen(), key="user")
        >>> harness.process({"user": "ada"}); harness.process({"user": "ada"}); harness.take()
        [False, True]
        >>> harness.clock.advance(hg.HOURS); harness.process({"user": "ada"}); harness.take()
        [False]
    """

    duration: int | str
    update: TtlUpdate | str = TtlUpdate.ON_CREATE_AND_WRITE
    visibility: TtlVisibility | str = TtlVisibility.NEVER_RETURN_EXPIRED
    time: TtlTime | str = TtlTime.PROCESSING
    cleanup: TtlCleanup = TtlCleanup()

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "update", _one_of(TtlUpdate, "update", self.update))
        put(self, "visibility", _one_of(TtlVisibility, "visibility", self.visibility))
        put(self, "time", _one_of(TtlTime, "time", self.time))
        try:
            duration = duration_ms(self.duration, "duration")
        except (ValueError, TypeError) as error:
            raise PlanError(f"StateTtl at {user_site()}: {error}") from None
        if not duration:
            raise PlanError(
                f"StateTtl at {user_site()} got duration={self.duration!r}; expected 1 ms or more"
            )
        put(self, "duration", duration)
        if not isinstance(self.cleanup, TtlCleanup):
            raise PlanError(
                f"StateTtl at {user_site()} got cleanup={self.cleanup!r}; expected hg.TtlCleanup(...)"
            )

    @property
    def duration_ms(self) -> int:
        """How long an entry lives, in ms."""
        assert isinstance(self.duration, int)
        return self.duration


def check_ttl(ttl: object) -> None:
    """Raise PlanError unless the `ttl` of a declaration is None or a :class:`StateTtl`."""
    if ttl is not None and not isinstance(ttl, StateTtl):
        raise PlanError(
            f"the state declared at {user_site()} got ttl={ttl!r}; expected a StateTtl, "
            "such as ttl=hg.StateTtl('7d')"
        )


def _one_of(choices: type[Choice], name: str, value: str) -> Choice:
    try:
        return choices(value)
    except ValueError:
        raise PlanError(
            f"StateTtl at {user_site()} got {name}={value!r}; expected one of "
            f"{', '.join(repr(str(choice)) for choice in choices)}"
        ) from None
