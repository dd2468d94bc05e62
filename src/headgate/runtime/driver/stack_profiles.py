"""Has the workers of a job sample their stacks for a while, and adds up what they have found."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from headgate.common.files.durable import clock
from headgate.common.plain_data import Json
from headgate.runtime.master.attempt.members import Members

FRESH_S = 15.0  # how long after its end a sampling tells what the workers do
LOOP_WAIT_S = 5.0  # how long to wait for the job master's loop; after that the last answer is given again


class StackProfiles:
    """The samplings of one job, one at a time. `members` are its workers, and `post` has the job master's
    loop run a callback. Its methods may be called from any thread but that loop's.
    """

    def __init__(self, members: Members, post: Callable[[Callable[[], None]], None]) -> None:
        self._members, self._post = members, post
        self._lock, self._number, self._running = threading.Lock(), 0, False
        self._stacks: dict[int, dict[str, int]] = {}  # by worker
        self._ended_s = 0.0

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
        self._ask()
        sums: Counter[str] = Counter()
        for stacks in self._stacks.values():
            sums.update(stacks)
        return {"number": self._number, "runs": self._running, "stacks": {**sums}}

    def recent(self) -> dict[int, dict[str, int]]:
        """Return the stacks of each worker, by the number of its slot; {} if none were sampled lately."""
        self._ask()
        fresh = self._running or clock.monotonic() - self._ended_s <= FRESH_S
        return self._stacks if fresh else {}

    def _ask(self) -> None:
        if self._running:
            added = threading.Event()

            def add() -> None:
                self._add()
                added.set()

            self._post(add)
            added.wait(LOOP_WAIT_S)

    def _add(self) -> None:
        # What a worker sends are sums since the sampling began; a worker that was replaced begins anew.
        found = {}
        for member in self._members.members():
            stacks = None if member.beat is None else member.beat.stacks
            if stacks is not None and stacks[0] == self._number:
                found[member.register.slot] = stacks[1]
        self._stacks = found or self._stacks

    def _end(self, number: int) -> None:
        if number == self._number:
            self._add()
            self._running, self._ended_s = False, clock.monotonic()
            self._members.sampling = 0
