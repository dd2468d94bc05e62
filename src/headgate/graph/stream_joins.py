"""The node that joins two streams of records by key and event time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headgate.common.time import format_ms
from headgate.graph.logical import KeyedProcessNode


@dataclass(frozen=True, eq=False)
class StreamJoinNode(KeyedProcessNode):
    """A keyed step that joins records of two streams; its function is a `JoinFunction`.

    Attributes:
        how: which records come out: "inner", "left", "right" or "full".
        lower_ms: the least difference in ms of a pair's event times, right minus left; may be negative.
        upper_ms: the greatest one; both bounds are within the interval.
    """

    how: str = "inner"
    lower_ms: int = 0
    upper_ms: int = 0

    def lines(self) -> Iterator[str]:
        """Yield the lines in which `explain()` tells what is joined, and what is kept for how long."""
        lower, upper = (
            f"{'-' if each < 0 else '+'}{format_ms(abs(each))}" for each in (self.lower_ms, self.upper_ms)
        )
        yield f"join of records, {self.how}: right's time within left's {lower} .. {upper}"
        left, right = (format_ms(max(0, each)) for each in (self.upper_ms, -self.lower_ms))
        yield f"keeps records until the watermark has passed them: left by {left}, right by {right}"
