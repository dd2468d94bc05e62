"""A thread beside a subtask, whose results go to the worker's loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.runtime.worker.task.chain_runner import Post, SubtaskThread


class PostedThread:
    """Reports what `thread` has done in the worker's loop; implements `runtime.job.call_threads.CallThread`.

    `post` has the loop call a function, from any thread. All methods belong to the loop.
    """

    def __init__(self, thread: SubtaskThread, post: Post) -> None:
        self._thread, self._post = thread, post
        self._unreported, self._over = 0, False

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self._unreported += 1

        def report(result: Any, error: BaseException | None) -> None:
            self._unreported -= 1
            if not self._over:
                done(result, error)

        self._thread.submit(work, lambda result, error: self._post(lambda: report(result, error)))

    def leave(self) -> None:
        self._over = True
        self._thread.leave()
        if not self._unreported:
            self._thread.join()
