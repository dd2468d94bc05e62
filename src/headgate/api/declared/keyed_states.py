"""Declarations of keyed state, and the protocols of its live handles. State is declared as a typed class
attribute of a function, so a program's state is known before a record is processed. Nothing is stored here.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar, get_origin

from headgate.api.declared.aggregate import ACC, IN, OUT, accumulator_type, check_aggregate, check_reduce
from headgate.api.declared.aggregate import AggregateFunction as AggregateFunction  # for the state backends
from headgate.api.declared.declarations import Declaration, Serializers, declared, hints_of, noted, types_of
from headgate.api.declared.state_ttl import StateTtl as StateTtl  # for the state backends
from headgate.api.declared.state_ttl import check_ttl
from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.common.hints import Hint

if TYPE_CHECKING:
    from headgate.api.declared.declarations import GivenSerializer

    # For type checkers only: what is given at run time is judged at the declaration, in words of its own.
    GivenTtl: TypeAlias = StateTtl | None

V = TypeVar("V")
MK = TypeVar("MK")
MV = TypeVar("MV")


class ValueState(Protocol[V]):
    """Live handle of a state with one value per key; it reads and writes the value of the current key.

    A key without an entry reads as the declared default; if that can be changed in place, reading stores it.
    :meth:`clear` removes the entry; so does setting `value` to the default itself, where it is immutable.
    """

    value: V

    def clear(self) -> None:
        """Forget the value of the current key."""


class ListState(Protocol[V]):
    """Live handle of a state with a list per key, in order of appending, for the list of the current key."""

    def add(self, value: V) -> None:
        """Append one element to the list."""

    def extend(self, values: Iterable[V]) -> None:
        """Append several elements to the list, in their order."""

    def get(self) -> list[V]:
        """Return a new list of the elements; an element changed in place is changed in the state, too."""

    def update(self, values: Iterable[V]) -> None:
        """Replace the list by these elements."""

    def clear(self) -> None:
        """Remove all elements of the list."""


class MapState(Protocol[MK, MV]):
    """Live handle of the current key's map, which has keys of its own; ``state[k]`` works as with a dict."""

    def get(self, key: MK, default: MV | None = None) -> MV | None:
        """Return the value that the current key's map has for `key`; `default` if it has none."""

    def put(self, key: MK, value: MV) -> None:
        """Set the map's entry for `key`."""

    def remove(self, key: MK) -> None:
        """Remove the map's entry for `key`; an absent one is no error."""

    def __getitem__(self, key: MK) -> MV: ...
    def __setitem__(self, key: MK, value: MV) -> None: ...
    def __delitem__(self, key: MK) -> None: ...
    def __contains__(self, key: object) -> bool: ...
    def __iter__(self) -> Iterator[MK]: ...
    def __len__(self) -> int: ...
    def items(self) -> Iterable[tuple[MK, MV]]:
        """Return the map's entries at this moment as (key, value), in order of insertion."""

    def clear(self) -> None:
        """Remove all entries of the map."""


class ReducingState(Protocol[V]):
    """Live handle of one value per key: everything that was added, reduced by the declared function."""

    def add(self, value: V) -> None:
        """Reduce `value` into the current key's value; a key's first value is kept as it is.

        Raises:
            TypeError: the function returned None, or `value` is None: that would read as empty.
        """

    def get(self) -> V | None:
        """Return the current key's reduced value; None when nothing was added."""

    def clear(self) -> None:
        """Forget the value of the current key."""


class AggregatingState(Protocol[IN, OUT]):
    """Live handle of one result per key: everything that was added, folded by an AggregateFunction."""

    def add(self, value: IN) -> None:
        """Add `value` to the current key's accumulator.

        Raises:
            TypeError: the function's `add` returned None in place of the accumulator.
        """

    def get(self) -> OUT | None:
        """Return the current key's result of what was added so far; None when nothing was."""

    def clear(self) -> None:
        """Forget the accumulator of the current key."""


class StateKind:
    """The kinds of keyed state, a closed set: value, list, map, reducing and aggregating."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"


@dataclass(frozen=True, slots=True)
class StateDescriptor:
    """A keyed state as a function's class declares it, for the plan and the state backend."""

    name: str  # the attribute's name; identifies the state within its operator
    kind: str  # one of :class:`StateKind`
    # Of what is stored: the type arguments of the annotation (two for map, else one), but for aggregating
    # state the accumulator's type; ``Any`` where none is given
    types: tuple[Hint, ...]
    default: Callable[[], Any]  # gives the value for keys without an entry (value state only)
    function: Any = None  # what reduces, or the :class:`AggregateFunction`; None for the other kinds
    # Given in the declaration, one for each of `types`, None where the type decides
    serializers: Serializers = ()
    ttl: Any = None  # how long entries live, a `StateTtl`; None: for ever
    site: str = field(default="", compare=False)  # file and line of the declaration, for errors


class StateDeclaration(Declaration, Generic[V]):
    """The class attribute that declares a keyed state; in a running function it is a live handle."""

    def __init__(
        self,
        kind: str,
        default: V | None = None,
        default_factory: Callable[[], V] | None = None,
        function: Any = None,
        accumulator: Hint | None = None,
        *,
        serializers: Serializers = (),
        ttl: GivenTtl = None,
    ) -> None:
        self.kind = kind
        self.function, self.accumulator = function, accumulator
        check_ttl(ttl)
        self.serializers, self.ttl = serializers, ttl
        self._default, self._factory = default, default_factory

    def default(self) -> V | None:
        """Return the value of a key without an entry; a fresh copy where it could be changed in place."""
        if self._factory is not None:
            return self._factory()
        return copy.deepcopy(self._default)


def value_state(
    default: Any = None,
    *,
    default_factory: Callable[[], Any] | None = None,
    serializer: GivenSerializer = None,
    ttl: GivenTtl = None,
) -> Any:
    """Declare keyed state of one value per key: ``count: hg.ValueState[int] = hg.value_state(default=0)``.

    Args:
        default: what a key without an entry reads as.
        default_factory: makes the default; for values that are changed in place.
        serializer: a ``TypeSerializer`` for the values; None: the annotation decides.
        ttl: how long an entry lives, a ``StateTtl`` (PlanError for others); None: for ever.

    Example:
        >>> import headgate as hg
        >>> class Count(hg.KeyedProcessFunction):
        ...     count: hg.ValueState[int] = hg.value_state(default=0)
        ...     def process(self, record, ctx):
        ...         self.count.value += 1
        ...         yield ctx.key, self.count.value
    """
    return noted(
        StateDeclaration(StateKind.VALUE, default, default_factory, serializers=(serializer,), ttl=ttl)
    )


def list_state(*, serializer: GivenSerializer = None, ttl: GivenTtl = None) -> Any:
    """Declare keyed state of a list per key: ``seen: hg.ListState[str] = hg.list_state()``.

    Args:
        serializer: a ``TypeSerializer`` for the elements; None: the annotation decides.
        ttl: how long an element lives, a ``StateTtl`` (PlanError for others); None: for ever.
    """
    return noted(StateDeclaration(StateKind.LIST, default_factory=list, serializers=(serializer,), ttl=ttl))


def map_state(
    *,
    key_serializer: GivenSerializer = None,
    serializer: GivenSerializer = None,
    ttl: GivenTtl = None,
) -> Any:
    """Declare keyed state of a map per key: ``totals: hg.MapState[str, int] = hg.map_state()``.

    Args:
        key_serializer: a ``TypeSerializer`` for the map's keys; None: the annotation decides.
        serializer: a ``TypeSerializer`` for the map's values; None: the annotation decides.
        ttl: how long an entry lives, a ``StateTtl`` (PlanError for others); None: for ever.
    """
    serializers = (key_serializer, serializer)
    return noted(StateDeclaration(StateKind.MAP, default_factory=dict, serializers=serializers, ttl=ttl))


def reducing_state(
    reduce: Callable[[V, V], V], *, serializer: GivenSerializer = None, ttl: GivenTtl = None
) -> ReducingState[V]:
    """Declare keyed state of one value per key into which every added value is reduced.

    Args:
        reduce: gives one value of two: what was reduced so far, and the added one. It may change the first in
            place and return it; added values then belong to the state.
        serializer: a ``TypeSerializer`` for the values; None: the annotation decides.
        ttl: how long a value lives, a ``StateTtl``; None: for ever.

    Raises:
        PlanError: `reduce` cannot be called with two values, or `ttl` is no ``StateTtl``.

    Example:
        >>> import operator
        >>> import headgate as hg
        >>> from headgate.testing import OperatorHarness
        >>> class Total(hg.KeyedProcessFunction[str, dict, int]):
        ...     total: ReducingState[int] = hg.reducing_state(operator.add)
        ...     def process(self, record, ctx):
        ...         self.total.add(record["amount"])
        ...         yield self.total.get()
        >>> harness = OperatorHarness(Total(), key="user")
        >>> harness.process_batch([{"user": "ada", "amount": 3}, {"user": "ada", "amount": 4}])
        >>> harness.take(), harness.state("total", "ada"), harness.state("total", "bob")
        ([3, 7], 7, None)
    """
    check_reduce(reduce, user_site())
    made: Any = StateDeclaration(StateKind.REDUCING, function=reduce, serializers=(serializer,), ttl=ttl)
    state: ReducingState[V] = noted(made)
    return state


def aggregating_state(
    function: AggregateFunction[IN, ACC, OUT],
    *,
    accumulator: Hint | None = None,
    serializer: GivenSerializer = None,
    ttl: GivenTtl = None,
) -> AggregatingState[IN, OUT]:
    """Declare keyed state of one accumulator per key: values are added to it, a result is computed from it.

    Args:
        function: how values are added and the result is made.
        accumulator: the accumulator's type, where the class of `function` does not say it.
        serializer: a ``TypeSerializer`` for the accumulators; None: their type decides.
        ttl: how long an accumulator lives, a ``StateTtl``; None: for ever.

    Raises:
        PlanError: `function` is no :class:`AggregateFunction`, or `ttl` no ``StateTtl``.

    Example:
        >>> import headgate as hg
        >>> from headgate.testing import OperatorHarness
        >>> class Spread(hg.AggregateFunction[int, list[int], int]):
        ...     def create_accumulator(self):
        ...         return []
        ...     def add(self, value, accumulator):
        ...         return [min([value, *accumulator]), max([value, *accumulator])]
        ...     def get_result(self, accumulator):
        ...         return accumulator[1] - accumulator[0]
        >>> class Spreads(hg.KeyedProcessFunction[str, dict, int]):
        ...     spread: AggregatingState[int, int] = hg.aggregating_state(Spread())
        ...     def process(self, record, ctx):
        ...         self.spread.add(record["amount"])
        ...         yield self.spread.get()
        >>> harness = OperatorHarness(Spreads(), key="user")
        >>> harness.process_batch([{"user": "ada", "amount": amount} for amount in (3, 9, 4)])
        >>> harness.take(), harness.state("spread", "ada")
        ([0, 6, 6], 6)
    """
    check_aggregate(function, user_site())
    made: Any = StateDeclaration(
        StateKind.AGGREGATING, None, None, function, accumulator, serializers=(serializer,), ttl=ttl
    )
    state: AggregatingState[IN, OUT] = noted(made)
    return state


_HANDLES: Final[dict[str, tuple[type, int]]] = {
    StateKind.VALUE: (ValueState, 1),
    StateKind.LIST: (ListState, 1),
    StateKind.MAP: (MapState, 2),
    StateKind.REDUCING: (ReducingState, 1),
    StateKind.AGGREGATING: (AggregatingState, 2),
}


def declared_state(function: object) -> dict[str, StateDescriptor]:
    """Return the keyed states that a function's class declares, by name, inherited first; {} if none.
    PlanError: one is declared twice, annotated as another kind of state, or annotated without a declaration.
    """
    cls = type(function)
    found = {}
    states = declared(cls, StateDeclaration)
    _refuse_undeclared(cls)
    for name, state, hint in states:
        what = f"state {name!r} of {cls.__qualname__}"
        types = types_of(what, state, hint, *_HANDLES[state.kind], f"{state.kind}_state")
        if state.kind == StateKind.AGGREGATING:
            types = (_accumulator(state),)
        found[name] = StateDescriptor(
            name, state.kind, types, state.default, state.function, state.serializers, state.ttl, state.site
        )
    return found


def _refuse_undeclared(cls: type) -> None:
    written = {name: hint for base in cls.__mro__ for name, hint in inspect.get_annotations(base).items()}
    for name, hint in written.items():
        if hasattr(cls, name) or "State" not in str(hint):
            continue
        known = hints_of(cls)[name] if isinstance(hint, str) else hint
        for kind, (handle, _) in _HANDLES.items():
            if (get_origin(known) or known) is handle:
                raise PlanError(
                    f"state {name!r} of {cls.__qualname__} is annotated but not declared; "
                    f"write {name}: hg.{handle.__name__}[...] = hg.{kind}_state()"
                )


def _accumulator(declaration: StateDeclaration[V]) -> Hint:
    # Kept in the declaration, which travels to the workers: the module of a script does not, and there a
    # textual annotation of a function cannot be resolved any more.
    if declaration.accumulator is None:
        declaration.accumulator = accumulator_type(declaration.function, declaration.site)
    return declaration.accumulator
