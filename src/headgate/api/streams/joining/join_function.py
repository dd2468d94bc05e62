"""The keyed function that joins records of two streams by event time. State per key:

    left    event time in ms -> the left records of that time for which partners may still come
    right   the right ones

One timer stands for each time at which records of one side can get no more partners. Then they are forgotten,
and those that had none come out alone, if the kind of join says so. Outputs are pairs of event time and
result; the operator takes them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

from headgate.api.declared.keyed_states import MapState, map_state
from headgate.api.functions import KeyedContext, KeyedProcessFunction, OnTimerContext, RuntimeContext
from headgate.api.streams.joining.tagged_records import LEFT, RIGHT, Side, Tagged
from headgate.api.windows.window_states import record_of, stored_record
from headgate.common.errors import UsageError

Output: TypeAlias = "tuple[int, Any]"
Kept: TypeAlias = Any
"""A stored record: `record`, `row`, `alone` as in tagged records, and `met`: it has had a partner."""


class JoinRules(NamedTuple):
    """The interval of event time (right minus left in ms, both bounds included), and what pairs become."""

    lower_ms: int
    upper_ms: int
    kept: tuple[bool, bool]  # left, right: whether records without partner come out
    function: Callable[[Any, Any], Any]
    flat: bool  # whether the function gives an iterable of results


class JoinFunction(KeyedProcessFunction[Any, Any, Any]):
    """Joins the tagged records of each key.

    Attributes:
        dropped: number of late records that were dropped since the function was opened.
    """

    left: ClassVar[Any]  # declared by the class that `join_function` makes
    right: ClassVar[Any]
    kinds: tuple[Callable[..., Kept], Callable[..., Kept]]

    def __init__(self, rules: JoinRules) -> None:
        self._rules, self.dropped = rules, 0

    def open(self, context: RuntimeContext) -> None:
        self._where, self.dropped = context.uid, 0
        lower, upper, self._comes_alone, _, _ = self._rules
        # Of each side: how far from its records partners are, and after how long none can come.
        self._reaches = (lower, upper), (-upper, -lower)
        self._waits = upper, -lower
        self._states = self.left, self.right

    def process(self, record: Tagged, ctx: KeyedContext[Any]) -> Sequence[Output] | None:
        time: int | None = ctx.timestamp
        if time is None:
            raise UsageError(
                f"the join {self._where!r} is by event time, and a record has none; call with_event_time() "
                "on both streams before join()"
            )
        if time <= ctx.timers.current_watermark:
            self.dropped += 1
            return None
        side: int = record.side
        held = record.right if side else record.left
        outputs: list[Output] = []
        met = not record.alone and self._meet(side, time, record_of(held, record.row), outputs)
        kept, state = self.kinds[side](held, record.row, record.alone, met), self._states[side]
        state.put(time, [*(state.get(time) or ()), kept])
        ctx.timers.register_event_time(time + self._waits[side])
        return outputs

    def _meet(self, side: int, time: int, record: Any, outputs: list[Output]) -> bool:
        """Add the results of a record's pairs, in order of the partners' times; return whether it has any."""
        others, (first, last), found = self._states[1 - side], self._reaches[side], False
        for at in sorted(each for each in others if time + first <= each <= time + last):
            partners = others[at]
            for partner in partners:
                if not partner.alone:
                    found = True
                    other = record_of(partner.record, partner.row)
                    both = (other, record) if side else (record, other)
                    outputs.extend((max(time, at), each) for each in self._results(*both))
            if not all(partner.met or partner.alone for partner in partners):
                others.put(at, [each._replace(met=not each.alone) for each in partners])
        return found

    def _results(self, left: Any, right: Any) -> Iterable[Any]:
        result = self._rules.function(left, right)
        if not self._rules.flat:
            return (result,)
        if result is None:
            return ()
        if isinstance(result, str | bytes | dict) or not isinstance(result, Iterable):
            raise UsageError(
                f"the function of flat_apply() in {self._where!r} returned {type(result).__name__}; expected "
                "an iterable of results, such as a list; use apply() for one result of each pair"
            )
        return result

    def on_timer(self, timestamp: int, ctx: OnTimerContext[Any]) -> Sequence[Output]:
        outputs: list[Output] = []
        for side, state in enumerate(self._states):
            at = timestamp - self._waits[side]
            records = state.get(at)
            if records is None:
                continue
            state.remove(at)
            for each in records if self._comes_alone[side] else ():
                if not each.met:
                    record = record_of(each.record, each.row)
                    both = (None, record) if side else (record, None)
                    outputs.extend((max(timestamp, at), result) for result in self._results(*both))
        return outputs


def join_function(rules: JoinRules, sides: Sequence[Side]) -> JoinFunction:
    """Return the function that joins records of `sides`, left and right.

    The stored types' names have the interval in them: a program with another one lacks records that it would
    need, so that a restore has to refuse it.
    """
    bounds = "_to_".join(
        f"{'minus_' if each < 0 else ''}{abs(each)}ms" for each in (rules.lower_ms, rules.upper_ms)
    )
    hints, states, kinds = {}, {}, []
    for name, side in zip(("left", "right"), sides, strict=True):
        fields = {"record": side.storable.hint, "row": bool, "alone": bool, "met": bool}
        kind = stored_record(f"Joined_{name}_from_{bounds}", fields)
        hints[name], states[name] = MapState[int, list[kind]], map_state()  # type: ignore[valid-type]
        kinds.append(kind)
    body = {"__annotations__": hints, **states, "__module__": __name__}
    function: JoinFunction = type("JoinFunction", (JoinFunction,), body)(rules)
    function.kinds = kinds[LEFT], kinds[RIGHT]
    return function
