"""A stream connected with a broadcast one: what stands between ``connect`` and ``process``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headgate.api.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from headgate.api.checking import inference
from headgate.api.functions import is_blocking
from headgate.api.showing import html_line
from headgate.api.site import user_site
from headgate.api.streams.stream import DataStream
from headgate.common.errors import PlanError
from headgate.graph.logical import BroadcastProcessNode, KeyedBroadcastProcessNode, Node
from headgate.records.selectors import KeySelector

if TYPE_CHECKING:
    from headgate.api.environment import Environment

K = TypeVar("K")
I = TypeVar("I")  # noqa: E741 - input, as in the functions' signatures
B = TypeVar("B")
U = TypeVar("U")


class BroadcastStream(DataStream[B]):
    """Records of type `B`, each on its way to every subtask of the next operator.

    Example:
        >>> import headgate as hg
        >>> env = hg.Environment()
        >>> rules = env.from_collection(["no tea after six"]).broadcast()
    """


class BroadcastConnectedStream(Generic[I, B]):
    """Records of type `I`, and beside them broadcast records of type `B`."""

    def __init__(self, main: DataStream[I], broadcast: BroadcastStream[B]) -> None:
        self._environment = main._environment
        self._inputs = (main._number, checked_broadcast(main._environment, broadcast)._number)

    def __repr__(self) -> str:
        return _shown(self, self._environment, self._inputs)

    def _repr_html_(self) -> str:
        return html_line(repr(self))

    def process(self, function: BroadcastProcessFunction[I, B, U], uid: str | None = None) -> DataStream[U]:
        """Zero, one or many outputs per record of either side.

        Args:
            function: its class declares broadcast state as class attributes.
            uid: names the state for later versions of the program; needed when checkpoints are on and
                there is state.

        Raises:
            PlanError: `function` is no :class:`BroadcastProcessFunction`.
        """
        if not isinstance(function, BroadcastProcessFunction):
            raise PlanError(
                f"process() behind connect() ({user_site()}) got {type(function).__name__}; expected a "
                "BroadcastProcessFunction (a KeyedBroadcastProcessFunction goes behind key_by().connect())"
            )
        return _added(self._environment, BroadcastProcessNode, self._inputs, function, uid)


class KeyedBroadcastConnectedStream(Generic[K, I, B]):
    """Records of type `I` partitioned by key of type `K`, and beside them broadcast records of type `B`."""

    def __init__(
        self, environment: Environment, number: int, key: KeySelector, broadcast: BroadcastStream[B]
    ) -> None:
        self._environment, self._key = environment, key
        self._inputs = (number, checked_broadcast(environment, broadcast)._number)

    def __repr__(self) -> str:
        return _shown(self, self._environment, self._inputs)

    def _repr_html_(self) -> str:
        return html_line(repr(self))

    def process(
        self, function: KeyedBroadcastProcessFunction[K, I, B, U], uid: str | None = None
    ) -> DataStream[U]:
        """Zero, one or many outputs per record of either side, with state and timers per key.

        Args:
            function: its class declares its state as class attributes.
            uid: names the state for later versions of the program; needed when checkpoints are on and
                there is state or a timer.

        Raises:
            PlanError: `function` is no :class:`KeyedBroadcastProcessFunction`.
        """
        if not isinstance(function, KeyedBroadcastProcessFunction):
            raise PlanError(
                f"process() behind key_by().connect() ({user_site()}) got {type(function).__name__}; "
                "expected a KeyedBroadcastProcessFunction"
            )
        kind = KeyedBroadcastProcessNode
        keys = inference.declared_keys(function, self._key, self._environment.program.node(self._inputs[0]))
        return _added(self._environment, kind, self._inputs, function, uid, key=self._key, keys=keys)


def checked_broadcast(environment: Environment, broadcast: object) -> BroadcastStream[Any]:
    """The broadcast side of a connection.

    Raises:
        PlanError: it is no broadcast stream, or one of another Environment.
    """
    if not isinstance(broadcast, BroadcastStream):
        raise PlanError(
            f"connect() ({user_site()}) got {type(broadcast).__name__}; expected a stream whose last step is "
            "broadcast(), as in stream.connect(rules.broadcast()); two streams of equal rights go together "
            "by union(), told apart by what their records say"
        )
    if broadcast._environment is not environment:
        raise PlanError(
            f"connect() ({user_site()}) got a stream of another Environment; expected one of the same"
        )
    return broadcast


def _shown(connected: object, environment: Environment, inputs: tuple[int, int]) -> str:
    main, broadcast = (environment.program.node(number) for number in inputs)
    sides = f"{main.name!r} ({main.site}) with {broadcast.name!r} ({broadcast.site})"
    return f"<{type(connected).__name__} of {sides}, to be followed by process()>"


def _added(
    environment: Environment,
    kind: type[Node],
    inputs: tuple[int, int],
    function: Any,
    uid: str | None,
    **fields: Any,
) -> DataStream[Any]:
    number = environment.program.add(
        kind,
        type(function).__name__,
        inputs,
        function=function,
        uid=uid,
        blocking=is_blocking(function),
        record_type=inference.process_output(function),
        **fields,
    )
    return DataStream(environment, number)
