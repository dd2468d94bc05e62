"""Keyed streams: records partitioned by key, ready for functions with state and timers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from headgate.api import inference
from headgate.api.functions import KeyedProcessFunction, is_blocking
from headgate.api.site import user_site
from headgate.api.stream import DataStream
from headgate.common.errors import PlanError
from headgate.graph.logical import KeyedProcessNode
from headgate.records.selectors import KeySelector

if TYPE_CHECKING:
    from headgate.api.connected import BroadcastStream, KeyedBroadcastConnectedStream
    from headgate.api.environment import Environment

K = TypeVar("K")
T = TypeVar("T")
U = TypeVar("U")


class KeyedStream(Generic[K, T]):
    """Records of type `T`, all records of one key of type `K` in one subtask.

    Example:
        >>> import headgate as hg
        >>> env = hg.Environment()
        >>> by_length = env.from_collection(["a", "bc"]).key_by(len)
    """

    def __init__(self, environment: Environment, number: int, key: KeySelector) -> None:
        self._environment, self._number, self._key = environment, number, key

    def __repr__(self) -> str:
        key = getattr(self._key, "__qualname__", None) or repr(self._key)
        return f"<KeyedStream by {key}, written at {self._environment.program.node(self._number).site}>"

    def connect(self, broadcast: BroadcastStream[U]) -> KeyedBroadcastConnectedStream[K, T, U]:
        """Let a function with state per key see, in every subtask, the records of another stream.

        Follow it by ``process()`` with a :class:`KeyedBroadcastProcessFunction`.

        Args:
            broadcast: what ``broadcast()`` returned.

        Raises:
            PlanError: no broadcast stream, or one of another Environment.
        """
        from headgate.api.connected import KeyedBroadcastConnectedStream

        return KeyedBroadcastConnectedStream(self._environment, self._number, self._key, broadcast)

    def process(self, function: KeyedProcessFunction[K, T, U], uid: str | None = None) -> DataStream[U]:
        """Zero, one or many records out per record in, with state and timers per key.

        Args:
            function: its class declares its state as class attributes.
            uid: names the state for later versions of the program; needed when checkpoints are on
                and there is state or a timer.

        Raises:
            PlanError: `function` is no :class:`KeyedProcessFunction`.
        """
        if not isinstance(function, KeyedProcessFunction):
            raise PlanError(
                f"process() behind key_by() ({user_site()}) got {type(function).__name__}; "
                "expected a KeyedProcessFunction"
            )
        number = self._environment.program.add(
            KeyedProcessNode,
            type(function).__name__,
            (self._number,),
            function=function,
            key=self._key,
            keys=inference.declared_keys(function, self._key, self._environment.program.node(self._number)),
            uid=uid,
            blocking=is_blocking(function),
            record_type=inference.process_output(function),
        )
        return DataStream(self._environment, number)
