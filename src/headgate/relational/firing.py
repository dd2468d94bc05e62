"""When windows of tables emit apart from their end, and what becomes of late rows; pure data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headgate.common.time import format_ms


@dataclass(frozen=True, slots=True)
class Firing:
    """When windows emit apart from their end, and which late rows they take.

    Attributes:
        lateness_ms: for so long after its end a window takes rows; each makes it emit again.
        early_ms: before its end a window emits at multiples of this interval of the wall clock if rows have
            come since; None: not before the end.
        late_tag: name of the side output of rows that are later still; None: they are dropped and counted.
    """

    lateness_ms: int = 0
    early_ms: int | None = None
    late_tag: str | None = None

    @property
    def repeats(self) -> bool:
        """Whether a window may emit more than once."""
        return self.lateness_ms > 0 or self.early_ms is not None

    def lines(self) -> Iterator[str]:
        """Yield these rules in words, a line for each that differs from `AT_END`, for plans as text."""
        if self.early_ms is not None:
            yield f"early results every {format_ms(self.early_ms)} of the wall clock"
        if self.lateness_ms:
            yield f"late rows are taken for {format_ms(self.lateness_ms)} after the end of a window"
        if self.late_tag is not None:
            yield f"later rows go to side output {self.late_tag!r}"
        if self.repeats:
            yield "results of a window may come more than once: the last one counts"


AT_END: Final = Firing()
"""Windows emit once, at their end, and later rows are dropped."""
