"""The keys of which an operator holds records: which they are, and the queue of each, in keyed state.

Queues are in the order in which records came. Timers that were due wait beside them.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Any, get_args

from headgate.api.declared.held_names import HELD, RECORDS, UNDER
from headgate.api.declared.keyed_states import declared_state
from headgate.api.held_forms import HeldForms
from headgate.api.held_states import EVENT, PROCESSING
from headgate.api.holding import Holding
from headgate.common.errors import UsageError
from headgate.common.keys.keygroups import shortened
from headgate.common.time import WATERMARK_MIN
from headgate.runtime.job.operator_context import OperatorContext
from headgate.state.backend import KeyedBackend

Waiting = tuple[int, int]
"""A timer that waits: its domain (`EVENT` or `PROCESSING`) and its time in ms."""

Under = tuple[str, int, int, int]


class HeldKeys:
    """What a subtask holds by key, under the release of `policy`; `function` declares the state.

    Attributes:
        under: held key -> its release, the number of its first record, the one after its last, and the event
            time (ms) that the key has reached.
        records: how many records are held.
        handles: of its states.
    """

    def __init__(self, context: OperatorContext, policy: Holding, function: Any) -> None:
        self._context, self._policy = context, policy
        self._kept: Any = declared_state(function)[RECORDS].types[1]
        self.handles: list[Any] = []
        self.under: dict[Hashable, Under] = {}
        self.records = 0

    def open(self, backend: KeyedBackend) -> None:
        """Take the states from the restored backend, and see which keys are held."""
        self.handles = [backend.handles[name] for name in HELD]
        self._under, self._records, self._timers = self.handles
        (declared,) = get_args(self._kept.__annotations__["typed"])
        entries = backend.targets[RECORDS].serializer
        self._forms = HeldForms(self._kept, declared, entries, self._context.label)
        self.under = dict(backend.scan(UNDER))
        self.records = sum(end - first for _, first, end, _ in self.under.values())

    def of_other_releases(self) -> list[Hashable]:
        return [key for key, (release, *_) in self.under.items() if release != self._policy.release]

    def add(self, key: Hashable, record: Any, timestamp: int | None, watermark: int | None) -> None:
        """Append a record of `key`, with its event time and its watermark (ms, None: it has none).
        UsageError: as many are held as may be, or the record has no stored form.
        """
        none = (self._policy.release, 0, 0, WATERMARK_MIN)
        release, first, end, reached = self.under.get(key, none)
        if end - first >= self._policy.hold:
            raise UsageError(
                f"{self._context.label} holds {end - first:,} records of key {shortened(key)} since its "
                f"function failed on one, as many as hold={self._policy.hold} allows, and got another; start "
                "the corrected program from the last checkpoint with another release, or raise hold"
            )
        kept = self._forms.stored(record, (timestamp, watermark, self._context.clock.now_ms()))
        self._records.bind(key)
        self._records.put(end, kept)
        self._note(key, (release, first, end + 1, reached))
        self.records += 1

    def add_timer(self, key: Hashable, timer: Waiting, watermark: int) -> None:
        """Have a due timer wait; `key` is held from now on, if it is not yet, and has reached `watermark`."""
        if key not in self.under:
            self._note(key, (self._policy.release, 0, 0, watermark))
        self._timers.bind(key)
        self._timers.put(timer, True)

    def keep(self, key: Hashable) -> None:
        """Hold what is left of `key` for another release than this one."""
        self._note(key, (self._policy.release, *self.under[key][1:]))

    def record_in(self, entry: Any) -> Any:
        """Return the record of an entry as the function gets it."""
        return self._forms.record_in(entry)

    def queue(self, key: Hashable) -> HeldQueue:
        """Return what is held of `key`, to be released; nothing of another key is used meanwhile."""
        self._records.bind(key)
        self._timers.bind(key)
        return HeldQueue(self, key, self._records, self._timers)

    def taken(self, key: Hashable, reached: int) -> None:
        """Note that the first record of `key` is processed, at event time `reached` (ms)."""
        release, first, end, _ = self.under[key]
        self._records.bind(key)
        self._records.remove(first)
        self._note(key, (release, first + 1, end, reached))
        self.records -= 1

    def free(self, key: Hashable) -> None:
        """Forget that `key` was held; nothing of it is left."""
        del self.under[key]
        self._under.bind(key)
        self._under.clear()
        self._under.store()

    def _note(self, key: Hashable, under: Under) -> None:
        self.under[key] = under
        self._under.bind(key)
        self._under.value = under
        self._under.store()


class HeldQueue:
    """What is held of one key, in the order in which it is released.

    Attributes:
        reached: event time (ms) that the key has reached in it.
    """

    def __init__(self, held: HeldKeys, key: Hashable, records: Any, timers: Any) -> None:
        self._held, self.key, self._records, self._timers = held, key, records, timers
        self._times: tuple[list[int], list[int]] = ([], [])
        for domain, time in timers:
            heappush(self._times[domain], time)
        _, first, end, self.reached = held.under[key]
        last = records.get(end - 1) if end > first else None
        self.came_to = WATERMARK_MIN if last is None or last.watermark is None else last.watermark
        """The watermark of the last record."""

    def first(self) -> Any:
        """Return the first record as it is stored; None: there is none."""
        _, first, end, _ = self._held.under[self.key]
        return self._records.get(first) if first < end else None

    def due(self, entry: Any) -> Waiting | None:
        """Return the timer that is released before record `entry`; None: there is none. If `entry` is None,
        that is the first of all that wait.
        """
        for domain in (EVENT, PROCESSING):
            time = self._next(domain)
            if time is not None and (entry is None or time <= _reached_at(entry, domain)):
                return domain, time
        return None

    def put(self, timer: Waiting) -> bool:
        """Have a timer wait; return whether it did not before."""
        if timer in self._timers:
            return False
        self._timers.put(timer, True)
        heappush(self._times[timer[0]], timer[1])
        return True

    def drop(self, timer: Waiting) -> bool:
        """Take a timer away; return whether it waited."""
        if timer not in self._timers:
            return False
        self._timers.remove(timer)
        return True

    def _next(self, domain: int) -> int | None:
        times = self._times[domain]
        while times and (domain, times[0]) not in self._timers:
            heappop(times)  # it was dropped
        return times[0] if times else None


def _reached_at(entry: Any, domain: int) -> int:
    if domain == PROCESSING:
        arrived_ms: int = entry.arrived_ms
        return arrived_ms
    return WATERMARK_MIN if entry.watermark is None else entry.watermark
