"""The call of streams that joins them; what it needs is loaded when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headgate.api.checking.arguments import check_peers
from headgate.api.site import user_site
from headgate.api.streams.connected import goes_to_all
from headgate.api.streams.stream_outputs import Outputs
from headgate.common.errors import PlanError

if TYPE_CHECKING:
    from headgate.api.streams.joining.joined_streams import JoinedStreams

T = TypeVar("T")
U = TypeVar("U")
S = TypeVar("S", bound=Outputs[Any])


class JoinsOfStreams(Outputs[T], Generic[T, S]):
    """Base class of streams: joins, of which streams of class `S` come."""

    def join(self, other: JoinsOfStreams[U, S], how: str = "inner") -> JoinedStreams[T, U, S]:
        """Join the records of this and the other stream that have equal keys and are close in event time.

        Follow it by ``where()``, ``within()`` and ``apply()``; see ``docs/joins.md``. Records are kept until
        the watermark says that no partner can come.

        Args:
            other: the other stream, of the same Environment.
            how: "inner", "left", "right" or "full", or PySpark's other names of these.

        Raises:
            PlanError: `other` is no such stream, one of both is broadcast, or `how` is another one.

        Example:
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> bids = env.from_collection([(1, 1_000), (2, 2_000)]).with_event_time(lambda bid: bid[1])
            >>> asks = env.from_collection([(1, 1_500), (2, 9_000)]).with_event_time(lambda ask: ask[1])
            >>> near = bids.join(asks).where(lambda each: each[0]).within("-1s", "1s")
            >>> near.apply(lambda bid, ask: (bid, ask), uid="pairs").collect()
            [((1, 1000), (1, 1500))]
        """
        from headgate.api.streams.joining.joined_streams import JoinedStreams, JoinSettings
        from headgate.api.tables.joins.kinds_and_bounds import kind_of

        mine, where = self._environment, f"join() ({user_site()})"
        check_peers(
            "join", (other,), lambda each: isinstance(each, JoinsOfStreams) and each._environment is mine
        )
        kind = kind_of(where, how, ("inner", "left", "right", "full"))
        if goes_to_all(self._node) or goes_to_all(other._node):
            raise PlanError(
                f"{where} got a stream whose last step is broadcast(), of which every subtask would have "
                "each record; join the stream before broadcast()"
            )
        stream: Any = type(self)
        return JoinedStreams(mine, (self._number, other._number), JoinSettings(kind), stream)
