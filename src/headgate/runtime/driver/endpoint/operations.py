"""Operations that a client started over HTTP and that take time; their outcomes are fetched by id."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeAlias

from headgate.api.jobs.executor_contract import Then
from headgate.common.errors import HeadgateError, OperatingError
from headgate.common.files.durable import clock

PENDING_MAX: Final = 64
KEPT_MAX: Final = 256  # outcomes; the oldest are dropped first
FORGOTTEN_AFTER_S: Final = 5.0  # a client that did not fetch an outcome for so long is taken for gone
FIRST_WITHIN_S: Final = 0.25  # a client that wants an outcome asks for it within this time

Answer: TypeAlias = str | int | None  # URI of a checkpoint or savepoint, a parallelism, or nothing


class Operation:
    """An operation that a client requested: `what` is checkpoint, savepoint, stop, cancel or rescale. Its
    `outcome` is a result (URI of the snapshot, new parallelism, state of the ended job) or an error.
    """

    def __init__(self, what: str) -> None:
        self.id, self.what = secrets.token_hex(8), what
        self.outcome: Future[tuple[Answer, HeadgateError | None]] = Future()
        self.asked = self.fetched = False  # whether a client asked for the outcome, and got it
        self._began_s = self._came_s = clock.monotonic()

    @property
    def expected(self) -> bool:
        now = clock.monotonic()
        if self.fetched or (self.outcome.done() and now - self._came_s > FORGOTTEN_AFTER_S):
            return False
        return self.asked or now - self._began_s < FIRST_WITHIN_S

    def then(self, result: Answer, error: HeadgateError | None) -> None:
        """Set the outcome, a result (URI, parallelism or state) or an error; only the first call counts."""
        if not self.outcome.done():
            self._came_s = clock.monotonic()
            self.outcome.set_result((result, error))


class Operations:
    """All operations of one job, by id; the endpoint's thread starts them, the job master's ends them."""

    def __init__(self) -> None:
        self._known: dict[str, Operation] = {}
        self._lock = threading.Lock()

    @property
    def any(self) -> bool:
        return bool(self._known)

    def begin(self, what: str, ask: Callable[[Then], None]) -> Operation:
        """Start an operation of kind `what` and return it; `ask` is called with the callback for its outcome.
        Raises OperatingError while :data:`PENDING_MAX` (64) operations are unfinished.
        """
        made = Operation(what)
        with self._lock:
            pending = sum(not each.outcome.done() for each in self._known.values())
            if pending >= PENDING_MAX:
                raise OperatingError(f"{PENDING_MAX} requests are under way already; ask again later")
            self._known[made.id] = made
            self._drop_oldest()
        ask(made.then)
        return made

    def find(self, operation: str) -> Operation | None:
        with self._lock:
            return self._known.get(operation)

    def end(self, what: str, result: Answer) -> None:
        """Give all unfinished operations of kind `what` the outcome `result`: "cancel" at the job's end."""
        with self._lock:
            ended = [each for each in self._known.values() if each.what == what]
        for each in ended:
            each.then(result, None)

    def all_fetched(self, wait_s: float) -> bool:
        """Wait at most `wait_s` until clients have fetched outcomes that they want; return if all have."""
        until = clock.monotonic() + wait_s
        while True:
            with self._lock:
                left = [each for each in self._known.values() if each.expected]
            if not left or clock.monotonic() >= until:
                return not left
            clock.sleep(0.01)

    def _drop_oldest(self) -> None:
        done = [each.id for each in self._known.values() if each.outcome.done()]
        for operation in done[: max(0, len(self._known) - KEPT_MAX)]:
            del self._known[operation]


async def awaited(operation: Operation, wait_s: float) -> bool:
    """Wait at most `wait_s` for an operation's outcome; return whether it is there. The operation goes on."""
    if not operation.outcome.done():
        # The operation goes on, whatever becomes of this wait.
        await asyncio.wait([asyncio.wrap_future(operation.outcome)], timeout=wait_s)
    return operation.outcome.done()
