"""Live handles of value, reducing and aggregating states, of which the one entry of a key expires."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final, Generic

from headgate.api.declared.aggregate import ACC, OUT
from headgate.api.declared.keyed_states import AggregateFunction, V
from headgate.common.time import WATERMARK_MIN
from headgate.state.ttl.declared import ABSENT
from headgate.state.ttl.handle import Counts, Expiry, TtlHandle

_PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})


class TtlSingleState(TtlHandle):
    """Base of the handles of states with one entry, and one last-access time, per key."""

    __slots__ = ()

    def judge(self, stamps: int) -> tuple[int, bool, int]:
        return 1, stamps <= self.expiry.limit or stamps == WATERMARK_MIN, stamps

    def _tidy(self) -> int:
        if self._held() is ABSENT:
            return 0
        stamp = self.stamps.value
        if self.expiry.over(stamp):
            self.clear()
            return 1
        self._stamp(self.expiry.since(stamp))
        return 0

    @abstractmethod
    def _held(self) -> Any:
        """Return the value stored for the bound key, expired or not; or ABSENT."""

    def _read(self) -> Any:
        # the value, or ABSENT; one that is expired is removed, even if it is shown
        held = self._held()
        if held is ABSENT:
            return ABSENT
        expiry = self.expiry
        stamp = self.stamps.value
        if expiry.over(stamp):
            self._drop()
            return held if expiry.show_expired else ABSENT
        if expiry.refresh:
            self._stamp(expiry.renewed(stamp))
        return held

    def _shown(self, expired: bool) -> Any:
        held = self._held()
        return held if held is ABSENT or expired or not self.expiry.over(self.stamps.value) else ABSENT

    def _drop(self) -> None:
        self.counts.removed += 1
        self.clear()

    def _stamp(self, stamp: int) -> None:
        stamps = self.stamps
        if stamps.value != stamp:
            stamps.value = stamp
            stamps.store()


class TtlValueState(TtlSingleState, Generic[V]):
    """The live handle of a value state whose values expire, for the value of one key at a time.

    `values`, the inner handle, has ABSENT where there is none. A read of an expired value removes it.
    """

    __slots__ = ("_default", "_make_default")

    def __init__(
        self, values: Any, stamps: Any, expiry: Expiry, counts: Counts, make_default: Callable[[], V]
    ) -> None:
        super().__init__(values, stamps, expiry, counts)
        self._make_default = make_default
        self._default = make_default()

    @property
    def value(self) -> V:
        # a read may renew or remove it, or store the default
        expiry, stamp = self.expiry, self.stamps.value
        if stamp is not None and stamp > expiry.limit and not expiry.refresh:  # as most reads are
            value: V = self.values.value
            return value
        value = self._read()
        if value is not ABSENT:
            return value
        if self.values.immutable:
            return self._default
        default = self._make_default()
        if type(default) not in _PLAIN:
            self.value = default  # the program may change the object that it gets
        return default

    @value.setter
    def value(self, value: V) -> None:
        if value is self._default and self.values.immutable:
            self.clear()
            return
        values, stamps = self.values, self.stamps
        values.value = value
        values.store()
        stamp = stamps.value
        if stamp is None or stamp < self.expiry.now:
            stamps.value = self.expiry.now
            stamps.store()

    def _held(self) -> Any:
        return self.values.value

    def _empty(self) -> V:
        return self._make_default()


class TtlReducingState(TtlSingleState, Generic[V]):
    """Live handle of a reducing state with a time to live; an expired value counts as no value."""

    __slots__ = ()

    def add(self, value: V) -> None:
        if self._held() is not ABSENT and self.expiry.over(self.stamps.value):
            self._drop()
        self.values.add(value)
        self.values.store()
        self._stamp(self.expiry.renewed(self.stamps.value))

    def get(self) -> Any:
        held = self._read()
        return None if held is ABSENT else self._result(held)

    def _held(self) -> Any:
        held = self.values.get()
        return ABSENT if held is None else held

    def _empty(self) -> None:
        return None


class TtlAggregatingState(TtlReducingState[V], Generic[V, ACC, OUT]):
    """Live handle of an aggregating state with a time to live; an expired accumulator counts as none."""

    __slots__ = ("_function",)

    def __init__(
        self,
        values: Any,
        stamps: Any,
        expiry: Expiry,
        counts: Counts,
        function: AggregateFunction[V, ACC, OUT],
    ) -> None:
        super().__init__(values, stamps, expiry, counts)
        self._function = function

    def _result(self, shown: Any) -> Any:
        return self._function.get_result(shown)
