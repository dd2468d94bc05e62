"""Controls which state a function with a broadcast input can use, depending on the input.

State is in attributes of the function; which object an attribute holds depends on the current input:

    attribute            main input, timers   open()       broadcast input   apply_to_all_keys()
    broadcast state      read-only            read-only    live              live
    keyed state          live                 refused      refused           live
    operator list state  live                 live         live              live

So a rule costs nothing per record: attributes are exchanged per run of records.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Generic, NoReturn, TypeVar

from headgate.api.declared.operator_state import BROADCAST, BroadcastState, declared_operator_state
from headgate.api.functions import RichFunction
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.function_state import FunctionState
from headgate.runtime.worker.operators.operator_contract import H, give_handles

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
S = TypeVar("S")


@contextmanager
def _exchanged(function: RichFunction, inside: Mapping[str, S], after: Mapping[str, H]) -> Iterator[None]:
    give_handles(function, inside)
    try:
        yield
    finally:
        give_handles(function, after)


class TwoSidedState(FunctionState):
    """Operator state of a function, whose broadcast state is read-only except in :meth:`broadcast_side`.
    Made when the operator opens; it sets the states as attributes of the function.
    """

    def __init__(self, context: OperatorContext, function: RichFunction) -> None:
        super().__init__(context, function)
        self._function = function
        declared = declared_operator_state(function)
        self._live = {name: self.handles[name] for name in declared if declared[name].mode == BROADCAST}
        self._read_only = {name: ReadOnlyBroadcastState(name, live) for name, live in self._live.items()}
        give_handles(function, self._read_only)

    def broadcast_side(self) -> AbstractContextManager[None]:
        """Return a context manager: broadcast state may be changed in its block (on the broadcast input)."""
        return _exchanged(self._function, self._live, self._read_only)


class KeyedSides:
    """Refuses the keyed states of a function (`handles`, by name) while its broadcast input is processed."""

    def __init__(self, function: RichFunction, handles: Mapping[str, S]) -> None:
        self._function, self._handles = function, handles
        self._guards = {name: KeylessState(name) for name in handles}

    def broadcast_side(self) -> AbstractContextManager[None]:
        """Return a context manager in whose block any use of keyed state raises RuntimeError."""
        return _exchanged(self._function, self._guards, self._handles)

    @contextmanager
    def every_key(self, state: S) -> Iterator[str]:
        """Allow keyed state again in the `with` block, which visits all keys; yield the name of `state`.
        Raises TypeError if `state` is none of the function's keyed states, or inside such a `with` block.
        """
        name = next((name for name, guard in self._guards.items() if guard is state), None)
        if name is None:
            raise TypeError(self._not_a_state(state))
        with _exchanged(self._function, self._handles, self._guards):
            yield name

    def _not_a_state(self, state: S) -> str:
        if any(handle is state for handle in self._handles.values()):
            return (
                "apply_to_all_keys() is called while it is calling a function for every key; call it again "
                "when it has returned"
            )
        known = ", ".join(f"self.{name}" for name in self._handles) or "none, for it declares none"
        got = f"apply_to_all_keys() got {type(state).__name__}"
        return f"{got}; expected one of the function's keyed states: {known}"


class ReadOnlyBroadcastState(Generic[K, V]):
    """Broadcast state as the main input sees it: it can be read, and every change raises TypeError."""

    __slots__ = ("_live", "_name", "get", "items")

    def __init__(self, name: str, live: BroadcastState[K, V]) -> None:
        self._name, self._live = name, live
        self.get: Final = live.get  # see `api.operator_state.BroadcastState`, as for `items`
        self.items: Final = live.items

    def __contains__(self, key: Hashable) -> bool:
        return key in self._live

    def __iter__(self) -> Iterator[K]:
        return iter(self._live)

    def __len__(self) -> int:
        return len(self._live)

    def __getitem__(self, key: K) -> V:
        return self._live[key]

    def put(self, key: K, value: V) -> NoReturn:
        self._refuse("put")

    def remove(self, key: K) -> NoReturn:
        self._refuse("remove")

    __setitem__, __delitem__ = put, remove

    def clear(self) -> NoReturn:
        self._refuse("clear")

    def _refuse(self, verb: str) -> NoReturn:
        # Not one of Headgate's errors, so that it is reported with the operator and the record.
        raise TypeError(
            f"broadcast state {self._name!r} is read-only here, and {verb}() would change it in this subtask "
            "alone; change it in process_broadcast(), which every subtask runs with the same record"
        )


class KeylessState:
    """Stands for a keyed state while there is no key: its use raises RuntimeError, of operators TypeError."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def _refuse(self, *_: V) -> NoReturn:
        raise _keyless(f"state {object.__getattribute__(self, '_name')!r}")

    __getattr__ = __setattr__ = __getitem__ = __setitem__ = __delitem__ = _refuse
    __contains__ = __iter__ = __len__ = _refuse


def refuse_keyless(what: str) -> NoReturn:
    """Raise the RuntimeError that says: `what` was used in process_broadcast(), where there is no key."""
    raise _keyless(what)


def _keyless(what: str) -> RuntimeError:
    return RuntimeError(
        f"{what} was used in process_broadcast(), where there is no key; use "
        "ctx.apply_to_all_keys(state, function), whose function is called for every key of this subtask"
    )
