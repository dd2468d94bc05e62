"""The order in which results leave: that of the records, or as they come within two watermarks."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

Q = TypeVar("Q", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Border:
    """An event that no result crosses, such as a watermark; `event` is the caller's own.

    Of two borders of the same `replaces` that follow each other without a record between only the later one
    is kept; None: all are. With `seals` nothing is to be admitted before it has left.
    """

    event: Any
    replaces: str | None = None
    seals: bool = False


class Results(Protocol[Q]):
    """Requests and borders in the order in which they came; :meth:`take` gives them in which they leave."""

    borders: int  # how many wait

    @property
    def sealed(self) -> bool:
        """Whether one of the borders seals."""

    @property
    def ready(self) -> bool:
        """Whether :meth:`take` gives something."""

    def add(self, request: Q) -> None:
        """Add a request after all that came before."""

    def border(self, border: Border) -> None:
        """Add a border after all that came before."""

    def done(self, request: Q) -> None:
        """Note that a request has its results; once for each."""

    def take(self) -> Q | Border | None:
        """Remove and return what leaves next; None: it is not done."""


class _Borders:
    """Counts borders that wait, and those that seal."""

    def __init__(self) -> None:
        self.borders = self._seals = 0

    @property
    def sealed(self) -> bool:
        return self._seals > 0

    def _count(self, border: Border, by: int) -> None:
        self.borders += by
        self._seals += by * border.seals


class OrderedResults(_Borders, Generic[Q]):
    """Results leave in the order of their records."""

    def __init__(self) -> None:
        super().__init__()
        self._line: deque[Q | Border] = deque()
        self._done: set[Q] = set()

    @property
    def ready(self) -> bool:
        if not self._line:
            return False
        first = self._line[0]
        return isinstance(first, Border) or first in self._done

    def add(self, request: Q) -> None:
        self._line.append(request)

    def border(self, border: Border) -> None:
        last = self._line[-1] if self._line else None
        if isinstance(last, Border) and border.replaces is not None and last.replaces == border.replaces:
            self._count(last, -1)
            self._line.pop()
        self._count(border, 1)
        self._line.append(border)

    def done(self, request: Q) -> None:
        self._done.add(request)

    def take(self) -> Q | Border | None:
        if not self.ready:
            return None
        first = self._line.popleft()
        if isinstance(first, Border):
            self._count(first, -1)
        else:
            self._done.discard(first)
        return first


class _Segment(Generic[Q]):
    """The requests between two borders: those that are not done, and results in the order of their coming."""

    __slots__ = ("border", "done", "open")

    def __init__(self) -> None:
        self.open: set[Q] = set()
        self.done: deque[Q] = deque()
        self.border: Border | None = None  # after it; None: the segment is the last one


class UnorderedResults(_Borders, Generic[Q]):
    """Results leave as they come, but none before a border that its record came after, and no border before
    a result whose record came before it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._segments: deque[_Segment[Q]] = deque([_Segment()])
        self._segment_of: dict[Q, _Segment[Q]] = {}

    @property
    def ready(self) -> bool:
        first = self._segments[0]
        return bool(first.done) or (not first.open and first.border is not None)

    def add(self, request: Q) -> None:
        last = self._segments[-1]
        last.open.add(request)
        self._segment_of[request] = last

    def border(self, border: Border) -> None:
        last = self._segments[-1]
        before = self._segments[-2].border if len(self._segments) > 1 else None
        follows = before is not None and not last.open and not last.done
        if follows and before is not None and border.replaces and before.replaces == border.replaces:
            self._count(before, -1)
            self._segments[-2].border = border
        else:
            last.border = border
            self._segments.append(_Segment())
        self._count(border, 1)

    def done(self, request: Q) -> None:
        segment = self._segment_of.pop(request)
        segment.open.remove(request)
        segment.done.append(request)

    def take(self) -> Q | Border | None:
        first = self._segments[0]
        if first.done:
            return first.done.popleft()
        if not self.ready or first.border is None:
            return None
        self._segments.popleft()
        self._count(first.border, -1)
        return first.border
