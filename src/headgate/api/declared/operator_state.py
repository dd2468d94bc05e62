"""State that belongs to no key: lists that are dealt out to the subtasks of an operator, and broadcast state.

It is declared like keyed state, as a typed class attribute of a function. How it is dealt out when the
parallelism changes is decided by `core.operator_state_shares`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar, get_args, get_origin

from headgate.api.declared.declarations import Declaration, declarations, hints_of, noted
from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.common.hints import Hint

if TYPE_CHECKING:
    from headgate.serde.serializer import TypeSerializer

    # For type checkers only: what is given at run time is judged with the program, in words of its own.
    GivenSerializer: TypeAlias = TypeSerializer[Any] | None

V = TypeVar("V")
K = TypeVar("K")

SPLIT: Final = "split"
UNION: Final = "union"
BROADCAST: Final = "broadcast"


Serializers: TypeAlias = "tuple[TypeSerializer[Any] | None, ...]"
"""Given in a declaration, one for each stored type; None: the type decides."""


class OperatorListState(Protocol[V]):
    """A list of one subtask, in order of appending. Its elements are what is dealt out anew."""

    def add(self, value: V) -> None:
        """Append one element."""
        ...

    def extend(self, values: Iterable[V]) -> None:
        """Append several elements."""
        ...

    def get(self) -> list[V]:
        """The elements, in a list of its own; a change inside an element is a change of the state."""
        ...

    def update(self, values: Iterable[V]) -> None:
        """Replace all elements."""
        ...

    def clear(self) -> None:
        """Forget all elements."""
        ...

    def __len__(self) -> int: ...


class BroadcastState(Protocol[K, V]):
    """A map that is the same in every subtask, because each changes it by the same records.

    Square brackets work as with a dict.
    """

    def get(self, key: K, default: V | None = None) -> V | None:
        """The entry's value, or `default`."""
        ...

    def put(self, key: K, value: V) -> None:
        """Set an entry."""
        ...

    def remove(self, key: K) -> None:
        """Remove an entry; an absent one is no error."""
        ...

    def __getitem__(self, key: K) -> V: ...
    def __setitem__(self, key: K, value: V) -> None: ...
    def __delitem__(self, key: K) -> None: ...
    def __contains__(self, key: object) -> bool: ...
    def __iter__(self) -> Iterator[K]: ...
    def __len__(self) -> int: ...
    def items(self) -> Iterable[tuple[K, V]]:
        """The entries at this moment, in order of insertion."""
        ...

    def clear(self) -> None:
        """Forget all entries."""
        ...


@dataclass(frozen=True, slots=True)
class OperatorStateDescriptor:
    """A declared operator state, resolved.

    Attributes:
        name: the attribute's name; identifies the state within its operator.
        mode: "split", "union" or "broadcast".
        types: the type arguments of the annotation: of the elements, or of keys and values; ``Any``
            where none is given.
        serializers: given in the declaration, one for each of `types`, None where the type decides.
    """

    name: str
    mode: str
    types: tuple[Hint, ...]
    serializers: Serializers


class OperatorStateDeclaration(Declaration):
    """The class attribute that declares an operator state; replaced by a live handle on the instance."""

    def __init__(self, mode: str, serializers: Serializers) -> None:
        self.mode, self.serializers = mode, serializers


def operator_list_state(*, redistribution: str = SPLIT, serializer: GivenSerializer = None) -> Any:
    """Declare a list per subtask.

    It is restored before `open` is called, which may read it.

    Args:
        redistribution: "split": when the parallelism changes the elements of all subtasks are dealt
            out evenly, each to one subtask; "union": at every restore each subtask gets the elements
            of all subtasks, in order of the subtasks, and keeps what it wants.
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
    """Declare a map that is the same in all subtasks.

    For functions that take a broadcast stream in, whose records reach every subtask. A subtask is
    restored with the map of one old subtask, whatever the parallelism.

    Args:
        key_serializer: a ``TypeSerializer`` for the map's keys; None: the annotation decides.
        serializer: one for its values.

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
"""Mode -> the handle's protocol, how many type arguments it has, and what declares it."""


def declared_operator_state(function: object) -> dict[str, OperatorStateDescriptor]:
    """The operator states that a function's class declares, by name, in order of declaration.

    Raises:
        PlanError: an annotation does not fit its declaration, or a name is declared twice.
    """
    cls = type(function)
    found = {k: v for k, v in declarations(cls).items() if isinstance(v, OperatorStateDeclaration)}
    if not found:
        return {}
    hints = hints_of(cls)
    return {name: _describe(cls, name, declaration, hints.get(name)) for name, declaration in found.items()}


def _describe(
    cls: type, name: str, declaration: OperatorStateDeclaration, hint: Hint | None
) -> OperatorStateDescriptor:
    handle, arity, maker = _DECLARED_AS[declaration.mode]
    types: tuple[Hint, ...] = (Any,) * arity
    if hint is not None:
        if (get_origin(hint) or hint) is not handle:
            raise PlanError(
                f"state {name!r} of {cls.__qualname__} ({declaration.site}) is declared with hg.{maker}() "
                f"but annotated {hint!r}; annotate it as hg.{handle.__name__}[...]"
            )
        types = get_args(hint) or types
    return OperatorStateDescriptor(name, declaration.mode, types, declaration.serializers)
