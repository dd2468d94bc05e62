"""What is known of a running job: the driver's events with their times, from this process or another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headgate.common.errors import HeadgateError
from headgate.runtime.job.listener import JobListener


@dataclass(frozen=True)
class Event:
    """Something that the driver told.

    Attributes:
        at_s: monotonic clock.
        name: of the listener's method.
        facts: its arguments.
    """

    at_s: float
    name: str
    facts: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name} " + " ".join(f"{key}={value}" for key, value in self.facts.items())


class Watcher:
    """Collects events from any thread and lets others wait for them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.over = False
        self._changed = threading.Condition()

    def note(self, name: str, /, **facts: Any) -> None:
        """Something happened."""
        with self._changed:
            self.events.append(Event(time.monotonic(), name, facts))
            self._changed.notify_all()

    def end(self) -> None:
        """Nothing more will happen; whoever waits goes on."""
        with self._changed:
            self.over = True
            self._changed.notify_all()

    def wait(self, what: Callable[[], Any], timeout_s: float) -> Any:
        """The first true value of `what`, or None when time or the job is over."""
        with self._changed:
            self._changed.wait_for(lambda: what() or self.over, timeout_s)
            return what() or None

    def first(self, name: str, after_s: float) -> Event | None:
        """The first event of a name later than a moment."""
        for event in list(self.events):
            if event.name == name and event.at_s > after_s:
                return event
        return None

    def named(self, name: str) -> list[Event]:
        """All events of a name."""
        return [event for event in list(self.events) if event.name == name]

    def workers(self) -> dict[int, int]:
        """Slot -> process of the present gang."""
        workers: dict[int, int] = {}
        for event in list(self.events):
            if event.name == "gang":
                workers = {}
            elif event.name == "worker":
                workers[event.facts["slot"]] = event.facts["pid"]
        return workers

    def checkpoints(self) -> list[int]:
        """Completed ones, in the order of their completion."""
        return [event.facts["checkpoint"] for event in self.named("checkpoint")]

    def story(self) -> list[str]:
        """Everything, as lines with seconds since the first event."""
        events = list(self.events)
        return [f"{event.at_s - events[0].at_s:8.3f} {event}" for event in events]


class Listener(JobListener):
    """Passes on what the job master tells.

    Args:
        note: takes a name and facts, all plain values.
        in_flight: checkpoint -> how many records in flight it holds, None when that is unknown.
    """

    def __init__(self, note: Callable[..., None], in_flight: Callable[[int], int | None]) -> None:
        self._note, self._in_flight = note, in_flight

    def gang_submitted(self, gang: int, slots: int) -> None:
        self._note("gang", gang=gang, slots=slots)

    def worker_registered(self, slot: int, pid: int, host: str) -> None:
        self._note("worker", slot=slot, pid=pid)

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        # Asked for here, where no newer checkpoint can have replaced it yet.
        records = None if checkpoint is None else self._in_flight(checkpoint)
        self._note("deploying", attempt=attempt, checkpoint=checkpoint, in_flight=records)

    def running(self, attempt: int) -> None:
        self._note("running", attempt=attempt)

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        self._note("checkpoint", checkpoint=checkpoint, took_ms=took_ms)

    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        self._note("failed", attempt=attempt, error=_first_line(error), restart_in_ms=restart_in_ms)

    def note(self, text: str) -> None:
        self._note("note", text=text)

    def ended(self, state: str) -> None:
        self._note("ended", state=state)


def _first_line(error: BaseException) -> str:
    lines: Sequence[str] = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:400]
