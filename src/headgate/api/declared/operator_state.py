"""State without keys: lists that are distributed over the subtasks of an operator, and broadcast state. It
is declared like keyed state, as a typed class attribute of a function. `core.operator_state_shares` decides
how it is redistributed when the parallelism changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from headgate.api.declared.declarations import Declaration, Serializers, declared, noted, types_of
from headgate.api.declared.keyed_states import ListState, MapState
from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.common.hints import Hint

if TYPE_CHECKING:
    from headgate.api.declared.declarations import GivenSerializer

V = TypeVar("V")
K = TypeVar("K")

SPLIT: Final = "split"
UNION: Final = "union"
BROADCAST: Final = "broadcast"


class OperatorListState(ListState[V], Protocol[V]):
    """Live handle of one subtask's list; :func:`operator_list_state` says what a restore puts into it."""

    def get(self) -> list[V]:
        """Return a new list of the elements; an element changed in place is changed in the state, too."""

    def __len__(self) -> int: ...


class BroadcastState(MapState[K, V], Protocol[K, V]):
    """Live handle of a map that is the same in every subtask, because each changes it by the same records.

    Square brackets work as with a dict. A change outside of `process_broadcast` raises TypeError.
    """


@dataclass(frozen=True, slots=True)
class OperatorStateDescriptor:
    """An operator state as a function's class declares it: name, redistribution mode, types, serializers."""

    name: str  # the attribute's name; identifies the state within its operator
    mode: str  # "split", "union" or "broadcast"
    # The type arguments of the annotation: of the elements, or of keys and values; ``Any`` where none is
    # given
    types: tuple[Hint, ...]
    serializers: Serializers  # given in the declaration, one for each of `types`, None where the type decides


class OperatorStateDeclaration(Declaration):
    """The class attribute that declares an operator state; in a running function it is a live handle."""

    def __init__(self, mode: str, serializers: Serializers) -> None:
        self.mode, self.serializers = mode, serializers


def operator_list_state(*, redistribution: str = SPLIT, serializer: GivenSerializer = None) -> Any:
    """Declare operator state: a list per subtask, independent of keys.

    It is restored before `open` is called, which may read and change it.

    Args:
        redistribution: "split": when the parallelism changes the elements of all subtasks are dealt out
            evenly, each to one subtask; "union": at every restore each subtask gets the elements of all
            subtasks, in order of the subtasks, and keeps what it wants.
        serializer: a ``TypeSerializer`` for the elements; None: the annotation decides.

    Raises:
        PlanError: there is no such redistribution.

    Example:
        >>> import headgate as hg
        >>> from headgate.testing import OperatorHarness
        >>> class Pairs(hg.ProcessFunction[int, list[int]]):
        ...     waiting: OperatorListState[int] = hg.operator_list_state()
        ...     def process(self, record, ctx):
        ...         self.waiting.add(record)
        ...         if len(self.waiting) == 2:
        ...             yield self.waiting.get()
        ...             self.waiting.clear()
        >>> harness = OperatorHarness(Pairs())
        >>> harness.process_batch([1, 2, 3]); harness.take()
        [[1, 2]]
        >>> later = OperatorHarness.restore(Pairs(), harness.snapshot())
        >>> later.process(4); later.take()
        [[3, 4]]
    """
    if redistribution not in (SPLIT, UNION):
        raise PlanError(
            f"operator_list_state() at {user_site()} got redistribution={redistribution!r}; expected "
            f"{SPLIT!r} or {UNION!r}"
        )
    return noted(OperatorStateDeclaration(redistribution, (serializer,)))


def broadcast_state(*, key_serializer: GivenSerializer = None, serializer: GivenSerializer = None) -> Any:
    """Declare broadcast state: a map that is the same in all subtasks.

    For functions that take a broadcast stream in, whose records reach every subtask. A subtask is restored
    with the map of one old subtask, whatever the parallelism.

    Args:
        key_serializer: a ``TypeSerializer`` for the map's keys; None: the annotation decides.
        serializer: a ``TypeSerializer`` for the map's values; None: the annotation decides.

    Example:
        >>> import headgate as hg
        >>> class Priced(hg.BroadcastProcessFunction):
        ...     prices: BroadcastState[str, float] = hg.broadcast_state()
        ...     def process(self, record, ctx):
        ...         yield record, self.prices.get(record)
        ...     def process_broadcast(self, record, ctx):
        ...         self.prices.put(*record)
        >>> declared_operator_state(Priced())["prices"].types
        (<class 'str'>, <class 'float'>)
    """
    return noted(OperatorStateDeclaration(BROADCAST, (key_serializer, serializer)))


_DECLARED_AS: Final[dict[str, tuple[type, int, str]]] = {
    SPLIT: (OperatorListState, 1, "operator_list_state"),
    UNION: (OperatorListState, 1, "operator_list_state"),
    BROADCAST: (BroadcastState, 2, "broadcast_state"),
}
"""Mode -> the handle's protocol, how many type arguments it has, and the function that declares it."""


def declared_operator_state(function: object) -> dict[str, OperatorStateDescriptor]:
    """Return the operator states of a function's class by name; PlanError: annotated wrongly or twice."""
    cls = type(function)
    found = {}
    for name, state, hint in declared(cls, OperatorStateDeclaration):
        what = f"state {name!r} of {cls.__qualname__}"
        types = types_of(what, state, hint, *_DECLARED_AS[state.mode])
        found[name] = OperatorStateDescriptor(name, state.mode, types, state.serializers)
    return found
