"""The records of one subtask for which an asynchronous function is being called, and what may leave next.

    state      event                          next state   what the caller has to do
    -          admit                          called       call, attempt 1
    called     answered                       done         -
    called     failed, or a wrong answer      waiting      -
    called     failed, no attempt left        failed       fail the job
    waiting    tick at the time to repeat     called       Again: call, next attempt
    called     tick at the deadline           expired      Expire: cancel; give another answer or fail
    waiting    tick at the deadline           expired      Expire
    expired    answered by the replacement    done         -
    done       take, when its turn has come   -            emit its results

An answer of another attempt than the present one is ignored. `docs/machines/async-io.md` has the invariants.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Generic, TypeAlias, TypeVar

from headgate.common.retries import ONCE, Retries
from headgate.core.async_results import Border, OrderedResults, Results, UnorderedResults

R = TypeVar("R")


class Phase(Enum):
    """What became of a record's request so far; the module's table has the moves."""

    CALLED = "called"
    WAITING = "waiting"
    EXPIRED = "expired"
    FAILED = "failed"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the program said of its calls; `timeout_ms` None: a record may wait for its answer for ever."""

    capacity: int  # how many records may be in flight
    timeout_ms: int | None  # from a record's admission to its answer, attempts and pauses included
    ordered: bool = True
    retries: Retries = ONCE


@dataclass(eq=False, slots=True)
class Request(Generic[R]):
    """One record in flight; whoever made the machine only reads it."""

    number: int  # rises in the order of admission
    record: R
    attempt: int = 1
    phase: Phase = Phase.CALLED
    results: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Again(Generic[R]):
    """Call the function once more; answers name the attempt, which is the request's."""

    request: Request[R]


@dataclass(frozen=True, slots=True)
class Expire(Generic[R]):
    """Cancel the request's call, if there is one; then call for the `REPLACEMENT`, or fail the job."""

    request: Request[R]


Effect: TypeAlias = Again[R] | Expire[R]

REPLACEMENT: Final = 0
"""In place of the number of an attempt: the call of what stands for the answer of an expired request."""

BORDERS_MAX: Final = 1_000
"""Watermarks and other events that may wait between records, before the operator takes no further input."""


class AsyncRequests(Generic[R]):
    """The requests of one subtask. Times are monotonic, in ms. A machine is used by one thread."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._numbers = 0
        self._in_flight: dict[int, Request[R]] = {}
        self._results: Results[Request[R]] = OrderedResults() if rules.ordered else UnorderedResults()
        # (deadline, number): all have the same timeout, so they are in order; some may have left since
        self._deadlines: deque[tuple[int, int]] = deque()
        self._repeats: list[tuple[int, int]] = []  # (time, number)

    @property
    def full(self) -> bool:
        """Whether no record may be admitted, since as many as allowed are in flight."""
        return len(self._in_flight) >= self._rules.capacity or self._results.borders > BORDERS_MAX

    @property
    def room(self) -> int:
        """How many records may be admitted."""
        return 0 if self.full else self._rules.capacity - len(self._in_flight)

    @property
    def sealed(self) -> bool:
        """Whether a border waits after which nothing may be admitted before it has left."""
        return self._results.sealed

    @property
    def ready(self) -> bool:
        """Whether :meth:`take` gives something."""
        return self._results.ready

    def admit(self, record: R, now_ms: int) -> Request[R]:
        """Take a record in, to be called for; the caller has asked whether there is :attr:`room`."""
        timeout = self._rules.timeout_ms
        self._numbers += 1
        request = Request(self._numbers, record)
        self._in_flight[request.number] = request
        self._results.add(request)
        if timeout is not None:
            self._deadlines.append((now_ms + timeout, request.number))
        return request

    def border(self, border: Border) -> None:
        """Put a watermark or another event after the records admitted so far: no result crosses it."""
        self._results.border(border)

    def answered(
        self, number: int, attempt: int, results: list[Any], now_ms: int, *, wrong: bool = False
    ) -> None:
        """Note the results of a call, or of the `REPLACEMENT`; `wrong`: the answer is to be asked for once
        more. After the last attempt a wrong answer is taken all the same.
        """
        request = self._called(number, attempt)
        if request is not None and not (wrong and self._repeat(request, now_ms)):
            request.phase, request.results = Phase.DONE, results
            self._results.done(request)

    def failed(self, number: int, attempt: int, now_ms: int, *, repeat: bool) -> Request[R] | None:
        """Note that a call raised; `repeat`: it is one of the errors after which it is made again. Return the
        request if the job is to fail: there is no further attempt, or this was the `REPLACEMENT`.
        """
        request = self._called(number, attempt)
        if request is None or (repeat and self._repeat(request, now_ms)):
            return None
        request.phase = Phase.FAILED
        return request

    def tick(self, now_ms: int) -> list[Effect[R]]:
        """Return what is due: first the requests whose time is over, then the calls to be repeated."""
        effects: list[Effect[R]] = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            request = self._pending(self._deadlines.popleft()[1])
            if request is not None:
                request.phase = Phase.EXPIRED
                effects.append(Expire(request))
        while self._repeats and self._repeats[0][0] <= now_ms:
            _, number = heapq.heappop(self._repeats)
            waiting = self._in_flight.get(number)
            if waiting is not None and waiting.phase is Phase.WAITING:
                waiting.phase, waiting.attempt = Phase.CALLED, waiting.attempt + 1
                effects.append(Again(waiting))
        return effects

    def due(self) -> int | None:
        """Return when :meth:`tick` is to be called next; None: no time is set."""
        while self._deadlines and self._pending(self._deadlines[0][1]) is None:
            self._deadlines.popleft()
        first = [queue[0][0] for queue in (self._deadlines, self._repeats) if queue]
        return min(first, default=None)

    def take(self) -> Request[R] | Border | None:
        """Remove and return what leaves next, a request with its results or a border; None: nothing yet."""
        taken = self._results.take()
        if isinstance(taken, Request):
            del self._in_flight[taken.number]
        return taken

    def records(self) -> list[R]:
        """Return the records whose results have not left, in order of admission: what a snapshot holds."""
        return [request.record for request in self._in_flight.values()]

    def __len__(self) -> int:
        return len(self._in_flight)

    def _pending(self, number: int) -> Request[R] | None:
        request = self._in_flight.get(number)
        return request if request is not None and request.phase in (Phase.CALLED, Phase.WAITING) else None

    def _called(self, number: int, attempt: int) -> Request[R] | None:
        request = self._in_flight.get(number)
        if request is None:
            return None
        present = REPLACEMENT if request.phase is Phase.EXPIRED else request.attempt
        active = request.phase in (Phase.CALLED, Phase.EXPIRED)
        return request if active and attempt == present else None

    def _repeat(self, request: Request[R], now_ms: int) -> bool:
        retries = self._rules.retries
        if request.phase is Phase.EXPIRED or request.attempt >= retries.attempts:
            return False
        request.phase = Phase.WAITING
        heapq.heappush(self._repeats, (now_ms + retries.delay_after(request.attempt), request.number))
        return True
