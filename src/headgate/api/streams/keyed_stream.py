"""Keyed streams: records partitioned by key, ready for functions with state and timers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headgate.api.checking import inference
from headgate.api.functions import KeyedProcessFunction, is_blocking
from headgate.api.showing import Preview, html_line
from headgate.api.site import user_site
from headgate.api.streams.other_names import no_such_member
from headgate.api.streams.stream import DataStream, StreamSink
from headgate.common.errors import PlanError
from headgate.graph.logical import KeyedProcessNode
from headgate.records.selectors import KeySelector

if TYPE_CHECKING:
    from headgate.api.environment import Environment
    from headgate.api.streams.connected import BroadcastStream, KeyedBroadcastConnectedStream

K = TypeVar("K")
T = TypeVar("T")
U = TypeVar("U")


class KeyedStream(Generic[K, T]):
    """Records of type `T`, all records of one key of type `K` in one subtask.

    It can be looked at and printed as any stream. Everything else that a :class:`DataStream` does is written
    before ``key_by()``.

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

    def _repr_html_(self) -> str:
        return html_line(repr(self))

    if not TYPE_CHECKING:  # a type checker is to find what does not exist

        def __getattr__(self, name: str) -> Any:
            raise no_such_member(self, name, of_stream=hasattr(DataStream, name))

    def connect(self, broadcast: BroadcastStream[U]) -> KeyedBroadcastConnectedStream[K, T, U]:
        """Let a function with state per key see, in every subtask, the records of another stream.

        Follow it by ``process()`` with a :class:`KeyedBroadcastProcessFunction`.

        Args:
            broadcast: what ``broadcast()`` returned.

        Raises:
            PlanError: no broadcast stream, or one of another Environment.
        """
        from headgate.api.streams.connected import KeyedBroadcastConnectedStream

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

    # -- looks, as of any stream

    def print(self, uid: str | None = None) -> StreamSink:
        """Have ``execute()`` print every record; see :meth:`DataStream.print`.

        Args:
            uid: names the sink on its lines.
        """
        return self._records().print(uid)

    def collect(self, job_name: str = "collect") -> list[T]:
        """Return all records; see :meth:`DataStream.collect`.

        Args:
            job_name: of the job.
        """
        return self._records().collect(job_name)

    def take(self, n: int, timeout_s: float | None = None) -> list[T]:
        """Return the first `n` records that come; see :meth:`DataStream.take`.

        Args:
            n: how many; fewer where the stream has no more.
            timeout_s: return what has come by then; None: wait for all of them.
        """
        return self._records().take(n, timeout_s)

    def preview(self, n: int = 10, timeout_s: float | None = None) -> Preview:
        """Show the first `n` records that come as a table; see :meth:`DataStream.preview`.

        Args:
            n: how many records; fewer where the stream has no more.
            timeout_s: show what has come by then; None: wait for all of them.
        """
        return self._records().preview(n, timeout_s)

    def _records(self) -> DataStream[T]:
        return DataStream(self._environment, self._number)
