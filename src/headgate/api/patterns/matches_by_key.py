"""The call of keyed streams that matches a pattern; what it needs is loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headgate.api.streams.steps import ProgramContext
from headgate.api.streams.stream_outputs import Outputs
from headgate.records.selectors import KeySelector

if TYPE_CHECKING:
    from headgate.api.patterns.matched_streams import MatchedStream
    from headgate.api.patterns.pattern import Pattern

S = TypeVar("S", bound=Outputs[Any])


class MatchesByKey(Generic[S]):
    """Base class of keyed streams; `_emits` makes the streams that come of them."""

    _environment: ProgramContext
    _number: int
    _key: KeySelector
    _emits: Callable[[ProgramContext, int], S]

    def match(self, pattern: Pattern) -> MatchedStream[S]:
        """Match a pattern against the records of each key, in the order of event time; ``select()`` follows.

        A record is looked at when the watermark has passed it; later ones are dropped. Those of partial
        matches are kept, for the time of ``within()`` if the pattern has it.

        Args:
            pattern: what ``headgate.patterns.Pattern.begin()`` and the calls after it return.

        Raises:
            PlanError: `pattern` is none.
        """
        from headgate.api.patterns.matched_streams import MatchedStream

        return MatchedStream(self._environment, self._number, self._key, pattern, self._emits)
