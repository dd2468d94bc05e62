"""The event loop of production: asyncio in a thread of the subtask's own."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from headgate.common.ports import UserCode
from headgate.common.process.children import OwnProcess
from headgate.runtime.job.event_loops import Ended, Made

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

Post = Callable[[Callable[[], None]], None]
Call = tuple[int, int]

LET_GO_S: Final = 2.0
"""How long cancelled calls may take to end."""


class EventLoopThread:
    """Runs calls in an asyncio event loop; implements `runtime.job.event_loops.EventLoop`.

    `post` has the worker's loop call a function, from any thread; `ended` is called there, with all calls
    that have ended since. `code` finds the modules of the user's code.
    """

    def __init__(self, name: str, code: UserCode, post: Post, ended: Callable[[list[Ended]], None]) -> None:
        self._post, self._report, self._code, self._process = post, ended, code, OwnProcess()
        self._tasks: dict[Call, asyncio.Task[None]] = {}
        self._ended: deque[Ended] = deque()
        self._posted = self._over = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name=f"headgate-async-{name}", daemon=True)
        self._thread.start()

    def run(self, make: Made) -> None:
        self._wait_for(_awaited(make))

    def start(self, calls: Sequence[tuple[Call, Made]]) -> None:
        self._loop.call_soon_threadsafe(self._start, calls)

    def cancel(self, calls: Sequence[Call]) -> None:
        self._loop.call_soon_threadsafe(self._cancel, calls)

    def close(self, last: Made) -> None:
        self._over = True
        try:
            self._wait_for(self._let_go(), LET_GO_S + 1)
        except TimeoutError:
            # The worker reports a thread of this name as left over, and is replaced.
            self._thread.name = self._thread.name.replace("headgate-async-", "asynchronous function of ")
            _LOG.warning("%s: a call keeps the thread, and is left behind", self._thread.name)
            self._loop.call_soon_threadsafe(self._loop.stop)
            return
        try:
            self._wait_for(_awaited(last))
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _wait_for(self, awaited: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        # Errors of every kind come here: asyncio itself would let some end the loop.
        answer: Future[T] = Future()

        async def answered() -> None:
            try:
                answer.set_result(await awaited)
            except BaseException as error:
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(answered()))
        return answer.result(seconds)

    # -- in the thread

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._loop.is_closed():
            try:
                self._process.call(self._code.call, self._loop.run_forever)
                self._loop.run_until_complete(self._let_go())  # of what was left behind
                self._loop.run_until_complete(self._loop.shutdown_asyncgens())
                self._loop.close()
            except BaseException as error:  # of a task or a callback that the user's code made itself
                self._end(Ended((0, 0), None, error))

    def _start(self, calls: Sequence[tuple[Call, Made]]) -> None:
        for call, make in calls:
            self._tasks[call] = self._loop.create_task(self._call(call, make))

    async def _call(self, call: Call, make: Made) -> None:
        try:
            ended = Ended(call, await make(), None)
        except BaseException as error:
            ended = Ended(call, None, error)
        self._process.end_if_child()  # the loop of a forked child is its parent's
        self._tasks.pop(call, None)
        self._end(ended)

    def _cancel(self, calls: Sequence[Call]) -> None:
        for call in calls:
            if (task := self._tasks.get(call)) is not None:
                task.cancel()

    async def _let_go(self) -> None:
        mine = asyncio.current_task()
        others = {task for task in asyncio.all_tasks() if task is not mine}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=LET_GO_S)

    def _end(self, ended: Ended) -> None:
        if self._over:
            return
        self._ended.append(ended)
        if not self._posted:
            self._posted = True
            self._post(self._hand_over)

    # -- in the worker's loop

    def _hand_over(self) -> None:
        self._posted = False  # first: what ends from now on posts again
        calls = []
        while self._ended:
            calls.append(self._ended.popleft())
        if calls and not self._over:
            self._report(calls)


async def _awaited(make: Made) -> None:
    await make()
