"""Has the workers of a job sample their stacks for a while, and adds up what they have found."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from headgate.common.plain_data import Json
from headgate.runtime.master.attempt.members import Members

LOOP_WAIT_S = 5.0  # how long to wait for the job master's loop; after that the last answer is given again


class StackProfiles:
    """The samplings of one job, one at a time. `members` are its workers, and `post` has the job master's
    loop run a callback. Its methods may be called from any thread but that loop's.
    """

    def __init__(self, members: Members, post: Callable[[Callable[[], None]], None]) -> None:
        self._members, self._post = members, post
        self._lock, self._number, self._running = threading.Lock(), 0, False
        self._stacks: dict[str, int] = {}

    def begin(self, seconds: int) -> None:
        """Sample for so many seconds from now on; a sampling that is under way ends, and is forgotten."""
        with self._lock:
            self._number, self._running, self._stacks = self._number + 1, True, {}
            number = self._number
        self._post(lambda: setattr(self._members, "sampling", number))
        timer = threading.Timer(seconds, self._post, (lambda: self._end(number),))
        timer.daemon = True
        timer.start()

    def found(self) -> dict[str, Json]:
        """Return what has been found: `number` of the sampling (0: none yet), whether it `runs`, and how
        often each stack was found, by its text of frames with semicolons between.
        """
        if self._running:
            added = threading.Event()

            def add() -> None:
                self._add()
                added.set()

            self._post(add)
            added.wait(LOOP_WAIT_S)
        return {"number": self._number, "runs": self._running, "stacks": {**self._stacks}}

    def _add(self) -> None:
        # What a worker sends are sums since the sampling began; a worker that was replaced begins anew.
        sums: Counter[str] = Counter()
        for member in self._members.members():
            stacks = None if member.beat is None else member.beat.stacks
            if stacks is not None and stacks[0] == self._number:
                sums.update(stacks[1])
        self._stacks = dict(sums) or self._stacks

    def _end(self, number: int) -> None:
        if number == self._number:
            self._add()
            self._running = False
            self._members.sampling = 0
