"""Rewords errors of wrong calls of contexts, timers, states and rows, so that they use documented names.

A program knows only the public interfaces (contracts) of these objects, whose classes are internal. Because
they are called once per record, nothing is checked before a call: the error of a failed call is reworded.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Mapping
from typing import Final

from headgate.api import broadcast, functions
from headgate.api.declared import keyed_states as state
from headgate.api.declared import operator_state
from headgate.common.refusals.calls import listed
from headgate.records.row import Row

_CALL: Final = re.compile(
    r"(?:[\w<>]+\.)*(?P<cls>\w+)\.(?P<method>\w+)\(\) "
    r"(?P<what>got an unexpected keyword argument '(?P<name>\w+)'|got |missing |takes )"
)
_CONTRACTS: Final[tuple[tuple[str, type], ...]] = (
    ("BroadcastSideContext", broadcast.KeyedBroadcastContext),
    ("ProcessContext", broadcast.BroadcastContext),
    ("KeyContext", functions.OnTimerContext),
    ("OperatorContext", functions.RuntimeContext),
    ("Timers", functions.TimerService),
    ("BroadcastState", operator_state.BroadcastState),
    ("LiveListState", operator_state.OperatorListState),
    ("ValueState", state.ValueState),
    ("ListState", state.ListState),
    ("MapState", state.MapState),
    ("ReducingState", state.ReducingState),
    ("AggregatingState", state.AggregatingState),
)
"""Ending of an internal class's name, and the public interface that the class implements."""

_SHOWN: Final[Mapping[type, str]] = {
    broadcast.BroadcastContext: "the context of a function without keys",
    functions.OnTimerContext: "the context of a keyed function",
    broadcast.KeyedBroadcastContext: "the context of process_broadcast()",
    functions.RuntimeContext: "the context of open()",
}
_ALSO_CALLED: Final[Mapping[str, str]] = {
    "timer_service": "timers",
    "timerService": "timers",
    "get_current_key": "key",
    "current_key": "key",
    "output": "side_output",
    "emit": "side_output",
    "update": "value",
    "set": "value",
    "watermark": "current_watermark",
    "current_processing_time": "now_ms",
    "register_event_time_timer": "register_event_time",
    "register_processing_time_timer": "register_processing_time",
    "append": "add",
    "index_of_this_subtask": "subtask",
}
"""Names of members in other systems, such as Flink, and the names here."""

_ONLY_WITH_KEYS: Final = ("timers", "timer_service", "key")
_WITHOUT_KEYS: Final = (broadcast.BroadcastContext, functions.RuntimeContext)


def say_public_names(error: BaseException) -> None:
    """Reword in place the error of a wrong call, or missing member, of a public interface; keep any other."""
    if isinstance(error, AttributeError):
        _reword_no_member(error)
    elif type(error) is TypeError and error.args and (call := _CALL.match(str(error.args[0]))) is not None:
        _reword_wrong_call(error, call)


def _reword_no_member(error: AttributeError) -> None:
    thing, name = error.obj, error.name
    if isinstance(thing, Row) and name:
        # A row says nothing of its fields itself: that would make reading them twice as slow.
        error.args = (f"no field {name!r}; the row has {', '.join(thing.keys()) or 'no fields'}",)
        error.name = None
        return
    if thing is None or not name or not type(thing).__module__.startswith("headgate."):
        return
    contract = _contract_of(type(thing).__name__)
    if contract is None:
        return
    known = _members(contract)
    also = _ALSO_CALLED.get(name)
    near = [also] if also in known else difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if contract in _WITHOUT_KEYS and name in _ONLY_WITH_KEYS:
        rest = "; keys and timers are in process() and on_timer() of a KeyedProcessFunction behind key_by()"
    elif near:
        rest = f"; did you mean {near[0]!r}? It has {listed(known)}"
    else:
        rest = f"; it has {listed(known)}"
    error.args = (f"{_shown(contract)} has no {name!r}{rest}",)
    error.name = None  # Python would add a proposal of its own, of names that are not public


def _reword_wrong_call(error: TypeError, call: re.Match[str]) -> None:
    contract = _contract_of(call["cls"])
    function = None if contract is None else getattr(contract, call["method"], None)
    if contract is None or function is None:
        return
    takes = [name for name in inspect.signature(function).parameters if name != "self"]
    arguments = listed(takes) or "no arguments"
    method = f"{call['method']}() of {_shown(contract)}"
    if call["name"] is None:
        error.args = (f"{method} takes {arguments}; the call {str(error.args[0])[call.start('what') :]}",)
        return
    near = difflib.get_close_matches(call["name"], takes, n=1, cutoff=0.0)
    meant = f"; did you mean {near[0]!r}? It takes {arguments}" if near else f"; it takes {arguments}"
    error.args = (f"{method} takes no argument {call['name']!r}{meant}",)


def _contract_of(name: str) -> type | None:
    return next((contract for ending, contract in _CONTRACTS if name.endswith(ending)), None)


def _members(contract: type) -> list[str]:
    named: dict[str, None] = {}
    for cls in reversed(contract.__mro__):
        if cls.__module__.startswith("headgate."):
            named |= dict.fromkeys((*getattr(cls, "__annotations__", ()), *vars(cls)))
    return [name for name in named if not name.startswith("_")]


def _shown(contract: type) -> str:
    return _SHOWN.get(contract, contract.__name__)
