"""The event loop of an asynchronous function on virtual time: every call ends when the seed says so."""

from __future__ import annotations

import asyncio
import math
import random
from asyncio import events
from collections.abc import Callable, Sequence
from typing import Any, Final

from headgate.runtime.job.event_loops import Ended, Made
from headgate.testing.simulation.simulated_processes import PAUSE_LOOK_MS, Process

LATE_MS: Final = (0, 0, 1, 7, 60)
"""How much longer (ms) than the function says a call may take."""

Call = tuple[int, int]


class _NoSockets:
    """Of a loop without sockets."""

    def select(self, timeout: float | None) -> list[Any]:
        return []


class _VirtualLoop(asyncio.BaseEventLoop):
    """An asyncio loop for tasks, futures and sleep, at the simulation's time; it has no sockets."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self._now_ms, self._ahead_s = now_ms, 0.0
        self._selector, self._clock_resolution = _NoSockets(), 1e-6

    def __del__(self) -> None:
        """Do nothing: that of a process that was killed is not closed."""

    def time(self) -> float:
        return max(self._now_ms() / 1000, self._ahead_s)

    def is_running(self) -> bool:
        return True

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None:  # else it is about a task that a killed process has left
            raise error

    def _process_events(self, event_list: list[Any]) -> None: ...

    def _write_to_self(self) -> None: ...

    def next_ms(self) -> int | None:
        """Return when the next callback is due, in virtual ms; None: none is planned."""
        this: Any = self
        if this._ready:
            return self._now_ms()
        return math.ceil(this._scheduled[0]._when * 1000 - 1e-6) if this._scheduled else None

    def turn(self, *, ahead: bool = False) -> None:
        """Run what is due, as one thread would; `ahead`: all that is planned, as if its time had come."""
        this: Any = self
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while (due := self.next_ms()) is not None and (ahead or due <= self._now_ms()):
                self._ahead_s = due / 1000
                this._run_once()
        finally:
            self._ahead_s = 0.0
            events._set_running_loop(before)


class SimEventLoop:
    """The event loop of one subtask, simulated; implements `runtime.job.event_loops.EventLoop`."""

    def __init__(self, process: Process, name: str, ended: Callable[[list[Ended]], None]) -> None:
        self._process, self._name, self._ended = process, f"{process.name} {name}", ended
        self._rng = random.Random(f"{process.scene.seed} {self._name}")
        self._loop = _VirtualLoop(process.scene.now)
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
        self._loop.turn(ahead=True)
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
