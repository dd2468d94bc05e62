"""Threads of which one runs at a time, switched only where a test says: interleavings on demand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence

Choose = Callable[[int, Sequence[int]], int]
"""Who goes on at a step: its number, and who could, the present one first."""


def preempting(steps: Collection[int]) -> Choose:
    """Goes on with whoever runs, but at these steps with the next one."""
    return lambda step, ready: ready[1 if step in steps and len(ready) > 1 else 0]


class Turns:
    """Runs scripts; each is given a function to call wherever another may have a turn.

    Attributes:
        steps: how often a turn could have changed.
    """

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._wake: dict[int, threading.Semaphore] = {}
        self._ready: list[int] = []
        self._errors: list[BaseException] = []
        self.steps = self._running = 0

    def run(self, scripts: Sequence[Callable[[Callable[[str], None]], None]]) -> None:
        """Run all scripts to their ends; the first error of one is raised."""
        self._ready = list(range(len(scripts)))
        self._wake = {who: threading.Semaphore(0) for who in self._ready}
        threads = [
            threading.Thread(target=self._perform, args=(who, script), daemon=True)
            for who, script in enumerate(scripts)
        ]
        for thread in threads:
            thread.start()
        self._wake[self._pick(0)].release()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive(), "a script never got its turn"
        if self._errors:
            raise self._errors[0]

    def pause(self) -> None:
        """Another may have a turn here; for places that cannot be given the script's own function."""
        self._pause(self._running)

    def _perform(self, who: int, script: Callable[[Callable[[str], None]], None]) -> None:
        self._wake[who].acquire()
        try:
            script(lambda what: self._pause(who))
        except BaseException as error:
            self._errors.append(error)
        finally:
            self._ready.remove(who)
            if self._ready:
                self._wake[self._pick(self._ready[0])].release()

    def _pick(self, present: int) -> int:
        self.steps += 1
        at = self._ready.index(present)
        self._running = self._choose(self.steps, self._ready[at:] + self._ready[:at])
        return self._running

    def _pause(self, who: int) -> None:
        chosen = self._pick(who)
        if chosen != who:
            self._wake[chosen].release()
            self._wake[who].acquire()
