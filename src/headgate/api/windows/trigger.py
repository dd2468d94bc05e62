"""When windows emit: the contract of triggers.

A trigger is asked at each record and at each time that it has registered, and answers whether the window
emits (fire), forgets what it holds (purge), both or neither. A trigger keeps nothing in itself: it serves all
keys and windows, and what it has to remember of one window is in `ctx.state`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias

from headgate.api.site import user_site
from headgate.api.windows.window import Window
from headgate.common.errors import PlanError

TriggerState: TypeAlias = "dict[str, Any]"
"""What a trigger remembers of one window: plain values by name."""


class TriggerResult(Enum):
    """What becomes of a window: its result is emitted (fire), its contents are forgotten (purge)."""

    CONTINUE = (False, False)
    FIRE = (True, False)
    PURGE = (False, True)
    FIRE_AND_PURGE = (True, True)

    @property
    def fires(self) -> bool:
        """Whether the result is emitted."""
        return self.value[0]

    @property
    def purges(self) -> bool:
        """Whether the contents are forgotten; timers and the state of the trigger stay."""
        return self.value[1]


CONTINUE: Final = TriggerResult.CONTINUE
FIRE: Final = TriggerResult.FIRE


class TriggerContext(Protocol):
    """What a trigger is given about the window that it decides on: clocks, its state, and timers."""

    @property
    def time(self) -> str:
        """The clock that the windows follow, "event" or "processing"."""
        ...

    @property
    def watermark(self) -> int:
        """The watermark as of this record or timer, in ms; -2**63 before the first watermark."""
        ...

    @property
    def is_new(self) -> bool:
        """Whether the window held nothing before this record."""
        ...

    @property
    def state(self) -> TriggerState:
        """What the trigger remembers of this window: plain values by name, gone with the window."""
        ...

    def now_ms(self) -> int:
        """Return the wall clock of the worker, in ms since 1970."""
        ...

    def register_event_time(self, timestamp: int) -> None:
        """Call `on_event_time` for this window when the watermark reaches `timestamp` (ms)."""
        ...

    def register_processing_time(self, timestamp: int) -> None:
        """Call `on_processing_time` for this window when the wall clock reaches `timestamp` (ms)."""
        ...

    def delete_event_time(self, timestamp: int) -> None:
        """Delete the registration of event time `timestamp` (ms) for this window; no error if absent."""
        ...

    def delete_processing_time(self, timestamp: int) -> None:
        """Delete the registration of wall clock time `timestamp` (ms) for this window; no error if absent."""
        ...


class Trigger(ABC):
    """Base class of triggers, which decide when a window emits its result and forgets its contents.

    Example:
        >>> import headgate as hg
        >>> class Dear(hg.Trigger):
        ...     def on_record(self, record, timestamp, window, ctx):
        ...         dear = record["price"] > 100
        ...         return hg.TriggerResult.FIRE_AND_PURGE if dear else hg.TriggerResult.CONTINUE
        >>> from headgate.testing import MiniCluster
        >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
        >>> rows = env.from_collection([{"user": "ada", "price": price} for price in (1, 2, 500, 4)])
        >>> windows = rows.key_by("user").window(hg.global_window()).trigger(Dear())
        >>> [row["total"] for row in windows.aggregate(total=hg.sum("price")).collect()]
        [503]
    """

    @abstractmethod
    def on_record(
        self, record: Any, timestamp: int | None, window: Window, ctx: TriggerContext
    ) -> TriggerResult:
        """Decide what becomes of the window now that a record has been added to it.

        Args:
            record: the added record.
            timestamp: event time of the record in ms; None where the stream has none.
            window: the window.
            ctx: clocks, state and timers of the window.
        """

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Decide at event time `time` (ms), which the trigger registered; by default CONTINUE."""
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Decide at wall clock time `time` (ms), which the trigger registered; by default CONTINUE."""
        return CONTINUE

    def on_merge(self, window: Window, states: Sequence[TriggerState], ctx: TriggerContext) -> None:
        """Take over from windows that became `window`; `states` are those of the earlier windows, in order.

        Called for sessions, before the record that made them touch is added. What was registered for the
        earlier windows is deleted after this by :meth:`clear`, so that it has to be registered again here.

        Raises:
            NotImplementedError: the trigger does not say how, so it cannot be used with sessions.
        """
        raise NotImplementedError

    def clear(self, window: Window, ctx: TriggerContext) -> None:  # noqa: B027  # few register anything
        """Delete the times registered for `window`, which is gone; its state is forgotten after this."""

    @property
    def wants_end(self) -> bool:
        """Whether to ask this trigger at the end of windows that began under another one, before an upgrade.

        Such windows have not registered their end. The trigger is asked with `window.max_timestamp`.
        """
        return False

    @property
    def can_merge(self) -> bool:
        """Whether the trigger can be used with windows that merge."""
        return type(self).on_merge is not Trigger.on_merge


def checked_trigger(verb: str, given: Trigger) -> Trigger:
    """Return `given`; PlanError, naming `verb`, if it is no trigger."""
    if not isinstance(given, Trigger):
        raise PlanError(
            f"{verb}() ({user_site()}) got {given!r}; expected a trigger such as hg.every_count(100)"
        )
    return given
