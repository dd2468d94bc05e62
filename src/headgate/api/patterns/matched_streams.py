"""Keyed streams whose records are matched against a pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from headgate.api.patterns.pattern import Pattern
from headgate.api.patterns.pattern_function import pattern_function
from headgate.api.site import user_site
from headgate.api.streams.steps import ProgramContext, add_function
from headgate.api.streams.stream_outputs import Outputs
from headgate.common.errors import PlanError
from headgate.graph.logical import NEW, KeyedProcessNode
from headgate.records.selectors import KeySelector

S = TypeVar("S", bound=Outputs[Any])


class MatchedStream(Generic[S]):
    """The matches of a pattern among the records of each key; :meth:`select` makes a stream of them."""

    def __init__(
        self,
        environment: ProgramContext,
        number: int,
        key: KeySelector,
        pattern: Pattern,
        stream: Callable[[ProgramContext, int], S],
    ) -> None:
        if not isinstance(pattern, Pattern):
            raise PlanError(
                f"match() ({user_site()}) got {type(pattern).__name__}; expected what Pattern.begin() gives"
            )
        self._environment, self._number, self._key = environment, number, key
        self._pattern, self._stream = pattern, stream

    def select(self, function: Callable[[dict[str, list[Any]]], Any], uid: str | None = None) -> S:
        """Return a stream of what `function` makes of each match, at the event time at which it was decided.

        Args:
            function: gets the match's records as lists, by the names of the stages that have some.
            uid: names the state for later versions of the program; needed when checkpoints are on.

        Raises:
            PlanError: the pattern can match without a record.
        """
        environment, hint = self._environment, self._environment.program.node(self._number).record_type
        made = pattern_function(self._pattern, hint, f"match() ({user_site()})", function)
        node = KeyedProcessNode(NEW, "", function=made, key=self._key)
        return self._stream(environment, add_function(environment, node, uid, self._number))
