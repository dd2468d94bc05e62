"""The keyed state in which an operator holds records, declared in a subclass of the function's class.

So all that deals with declared state (restores, checks of upgrades, queries, migrations) has it without more.
"""

from __future__ import annotations

import copy
from typing import Any, Final, TypeVar

from headgate.api.declared.keyed_states import MapState, ValueState, map_state, value_state
from headgate.api.functions import KeyedProcessFunction
from headgate.common.hints import Hint

F = TypeVar("F", bound=KeyedProcessFunction[Any, Any, Any])

# No attribute of a function can be named so.
UNDER: Final = "held-under"
"""Per held key: its release, the number of its first record, the one after its last, and its event time."""
RECORDS: Final = "held-records"
"""Per held key: number -> record, whether it was a `Row`, event time, watermark, and when it came."""
TIMERS: Final = "held-timers"
"""Per held key: (domain, time in ms) of timers that were due; the domains are below."""

HELD: Final = (UNDER, RECORDS, TIMERS)
"""All of these states. Calls of the function do not change them, so nothing of them is undone."""

EVENT: Final = 0
PROCESSING: Final = 1


def with_held_states(function: F, record_type: Hint | None) -> F:
    """Return a copy of `function` whose class also declares the state for held records of `record_type`;
    None: of a type that is not known.
    """
    from headgate.api.windows.window_states import Storable, stored_record

    cls = type(function)
    fields: dict[str, Any] = {"record": Storable(record_type).hint, "row": bool}
    times: dict[str, Any] = {"timestamp": int | None, "watermark": int | None, "arrived_ms": int}
    kept = stored_record("HeldRecord", {**fields, **times})
    hints = {
        UNDER: ValueState[tuple[str, int, int, int]],
        RECORDS: MapState[int, kept],  # type: ignore[valid-type]
        TIMERS: MapState[tuple[int, int], bool],
    }
    body = {
        "__annotations__": hints,
        "__module__": __name__,
        "__slots__": (),
        "__doc__": cls.__doc__,
        UNDER: value_state(),
        RECORDS: map_state(),
        TIMERS: map_state(),
    }
    holder = copy.copy(function)
    holder.__class__ = type(cls.__name__, (cls,), body)
    return holder
