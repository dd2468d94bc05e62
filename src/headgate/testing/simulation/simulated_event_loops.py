"""The event loop of an asynchronous function on virtual time: every call ends when the seed says so."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import math
import random
from asyncio import events
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from headgate.runtime.job.event_loops import Ended, Made
from headgate.testing.simulation.simulated_processes import PAUSE_LOOK_MS, Process

LATE_MS: Final = (0, 0, 1, 7, 60)
"""How much longer (ms) than the function says a call may take."""

Call = tuple[int, int]


class _VirtualLoop(asyncio.AbstractEventLoop):
    """What asyncio needs of a loop for tasks, futures and sleep; the time is the simulation's. A socket or a
    thread it has not: such a call raises NotImplementedError.
    """

    def __init__(self, now_ms: Callable[[], int], planned: Callable[[], None]) -> None:
        self._now_ms, self._planned = now_ms, planned
        self._ready: deque[events.Handle] = deque()
        self._timers: list[tuple[float, int, events.TimerHandle]] = []
        self._numbers = itertools.count()

    def time(self) -> float:
        return self._now_ms() / 1000

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None:
            raise error

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Any = None) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.Handle:
        handle = events.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> events.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> events.TimerHandle:
        timer = events.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        self._planned()
        return timer

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        """Do nothing: a cancelled timer is skipped when its time comes."""

    def next_ms(self) -> int | None:
        """Return when the next callback is due, in virtual ms; None: none is planned."""
        if self._ready:
            return self._now_ms()
        return math.ceil(self._timers[0][0] * 1000 - 1e-6) if self._timers else None

    def turn(self, until: float | None = None) -> None:
        """Run what is ready, and timers up to the time `until` (s; None: now), as one thread would."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while self._ready or (self._timers and self._timers[0][0] <= (until or self.time()) + 1e-9):
                if self._ready:
                    handle = self._ready.popleft()
                else:
                    handle = heapq.heappop(self._timers)[2]
                if not handle.cancelled():
                    handle._run()
        finally:
            events._set_running_loop(before)


class SimEventLoop:
    """The event loop of one subtask, simulated; implements `runtime.job.event_loops.EventLoop`."""

    def __init__(self, process: Process, name: str, ended: Callable[[list[Ended]], None]) -> None:
        self._process, self._name, self._ended = process, f"{process.name} {name}", ended
        self._rng = random.Random(f"{process.scene.seed} {self._name}")
        self._loop = _VirtualLoop(process.scene.now, self._plan)
        self._tasks: dict[Call, asyncio.Task[None]] = {}
        self._over = False
        self._planned_ms: int | None = None

    def run(self, make: Made) -> None:
        result: list[BaseException | None] = []

        async def awaited() -> None:
            try:
                await make()
                result.append(None)
            except BaseException as error:
                result.append(error)

        self._loop.create_task(awaited())
        self._loop.turn(float("inf"))
        if result[0] is not None:
            raise result[0]

    def start(self, calls: Sequence[tuple[Call, Made]]) -> None:
        for call, make in calls:
            self._loop.call_soon(self._begin, call, make, self._rng.choice(LATE_MS))
        self._plan()

    def cancel(self, calls: Sequence[Call]) -> None:
        for call in calls:
            if (task := self._tasks.get(call)) is not None:
                task.cancel()
        self._plan()

    def close(self, last: Made) -> None:
        self._over = True
        self.cancel(list(self._tasks))
        self._loop.turn()
        self.run(last)

    def _begin(self, call: Call, make: Made, late_ms: int) -> None:
        self._tasks[call] = self._loop.create_task(self._call(call, make, late_ms))

    async def _call(self, call: Call, make: Made, late_ms: int) -> None:
        try:
            await asyncio.sleep(late_ms / 1000)
            ended = Ended(call, await make(), None)
        except GeneratorExit:  # of a process that was killed
            raise
        except BaseException as error:
            ended = Ended(call, None, error)
        self._tasks.pop(call, None)
        if not self._over:
            self._process.post(lambda: None if self._over else self._ended([ended]))

    def _plan(self) -> None:
        due = self._loop.next_ms()
        if due is not None and (self._planned_ms is None or due < self._planned_ms):
            self._planned_ms = due
            self._process.scene.line.at(due, self._name, self._turn)

    def _turn(self) -> None:
        self._planned_ms = None
        if self._over or not self._process.alive:
            return
        if self._process.paused:
            self._process.scene.line.after(PAUSE_LOOK_MS, self._name, self._turn)
            return
        with self._process.scene.acting(self._process):
            self._loop.turn()
        self._plan()
