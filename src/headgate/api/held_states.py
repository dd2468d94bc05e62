"""The keyed state in which an operator holds records, declared in a subclass of the function's class.

So all that deals with declared state (restores, checks of upgrades, queries, migrations) has it without more.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Final, TypeVar

from headgate.api.declared.held_names import RECORDS, TIMERS, UNDER
from headgate.api.declared.keyed_states import MapState, ValueState, map_state, value_state
from headgate.api.functions import KeyedProcessFunction
from headgate.api.holding import Holding
from headgate.common.hints import Hint
from headgate.graph.logical import KeyedProcessNode

F = TypeVar("F", bound=KeyedProcessFunction[Any, Any, Any])

EVENT: Final = 0
PROCESSING: Final = 1

PLAIN: Final = "plain"
DICT_OF_ROW: Final = "row"
FIELDS: Final = "fields"
"""Forms in which a record is stored: as it is, the dict of a `Row`, and class and fields of an instance."""


def with_held_states(node: KeyedProcessNode, record_type: Hint | None) -> KeyedProcessNode:
    """Return `node`, of which the function's class also declares the state for held records of `record_type`
    (None: of a type that is not known), if it is to hold any.
    """
    if not isinstance(node.on_error, Holding):
        return node
    return replace(node, function=_declaring(node.function, record_type))


def class_in_program(function: object) -> type:
    """Return the class of a function that the program has: not the one that also declares held records."""
    cls = type(function)
    return cls.__bases__[0] if cls.__module__ == __name__ else cls


def _declaring(function: F, record_type: Hint | None) -> F:
    from headgate.api.windows.window_states import Storable, stored_record

    cls = type(function)
    hint: Any = Storable(record_type).hint
    # A record that is not of its declared type is in `other`, and `typed` is empty.
    fields: dict[str, Any] = {"typed": list[hint], "other": Any, "form": str}
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
        "__qualname__": cls.__qualname__,
        "__slots__": (),
        "__doc__": cls.__doc__,
        UNDER: value_state(),
        RECORDS: map_state(),
        TIMERS: map_state(),
    }
    holder = copy.copy(function)
    # Of a frozen dataclass no attribute can be set.
    object.__setattr__(holder, "__class__", type(cls.__name__, (cls,), body))
    return holder
