"""What connected streams have in common, and the check of the functions that `process()` is given."""

from __future__ import annotations

from typing import TypeVar

from headgate.api.showing import ShownAsLine
from headgate.api.site import user_site
from headgate.api.streams.steps import ProgramContext, add_function
from headgate.api.streams.stream_outputs import Outputs
from headgate.common.errors import PlanError
from headgate.graph import logical
from headgate.graph.partitioners import Broadcast
from headgate.records.selectors import KeySelector

B = TypeVar("B")


class Connected(ShownAsLine):
    """Base of connected streams; making one is a PlanError if `broadcast` is not of the same Environment."""

    def __init__(
        self, environment: ProgramContext, number: int, broadcast: Outputs[B], key: KeySelector = ""
    ) -> None:
        given: object = broadcast
        if not (isinstance(given, Outputs) and goes_to_all(given._node)):
            raise PlanError(
                f"connect() ({user_site()}) got {type(broadcast).__name__}; expected a stream whose last "
                "step is broadcast(), as in stream.connect(rules.broadcast()); two streams of equal rights "
                "go together by union(), told apart by what their records say"
            )
        if broadcast._environment is not environment:
            raise PlanError(
                f"connect() ({user_site()}) got a stream of another Environment; expected one of the same"
            )
        self._environment, self._inputs, self._key = environment, (number, broadcast._number), key

    def __repr__(self) -> str:
        main, broadcast = map(self._environment.program.node, self._inputs)
        both = f"{main.name!r} ({main.site}) with {broadcast.name!r} ({broadcast.site})"
        return f"<{type(self).__name__} of {both}, to be followed by process()>"

    def _added(self, node: logical.ProcessNode | logical.KeyedProcessNode, uid: str | None) -> int:
        return add_function(self._environment, node, uid, *self._inputs)


def goes_to_all(node: logical.Node) -> bool:
    """Return whether the step sends each record to all subtasks."""
    return isinstance(node, logical.PartitionNode) and isinstance(node.partitioner, Broadcast)


def demand(kind: type, function: object, after: str = "", hint: str = "") -> None:
    """Raise PlanError unless ``process()`` got a function of class `kind`; `after` says where it stands."""
    if not isinstance(function, kind):
        verb = f"process(){after} ({user_site()})"
        raise PlanError(f"{verb} got {type(function).__name__}; expected a {kind.__name__}{hint}")
