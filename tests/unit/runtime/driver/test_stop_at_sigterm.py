"""What SIGTERM has the driver's loop ask of its job master, turn by turn."""

from __future__ import annotations

from typing import Any

import headgate as hg
from headgate.common.errors import OperatingError, TerminatedError
from headgate.common.settings.config import Config
from headgate.core.execution import JobState
from headgate.runtime.driver.sigterm import RETRY_MS, StopAtSigterm

SAVES = {
    "headgate.on-sigterm": "savepoint",
    "headgate.on-sigterm.timeout": "10s",
    "execution.checkpointing.savepoint-dir": "/savepoints",
}


class Master:
    """Notes what is asked of it."""

    name = "job"

    def __init__(self) -> None:
        self.state, self.asked, self.cancelled = JobState.RUNNING, [], []
        self.then: Any = None

    def take_savepoint(self, request: Any, then: Any) -> None:
        self.asked.append(request)
        self.then = then

    def cancel(self, handed_over: bool = False) -> None:
        self.cancelled.append(handed_over)
        self.state = JobState.CANCELLED


class Clock:
    """Stands where the test puts it."""

    now = 5_000

    def monotonic_ms(self) -> int:
        return self.now


def made(settings: dict[str, Any]) -> tuple[StopAtSigterm, Master, Clock, list[str]]:
    master, clock, notes = Master(), Clock(), []
    config = Config().with_program(settings)
    return StopAtSigterm(master, config, clock, notes.append), master, clock, notes  # type: ignore[arg-type]


def signalled(by_sigterm: bool = True) -> TerminatedError:
    error = TerminatedError()
    error.by_sigterm = by_sigterm
    return error


def test_it_is_about_sigterm_alone_and_only_where_it_is_configured() -> None:
    """Ctrl-C, SIGHUP and high availability are as ever."""
    assert made(SAVES)[0].concerns(signalled())
    assert not made(SAVES)[0].concerns(signalled(by_sigterm=False))
    assert not made(SAVES)[0].concerns(KeyboardInterrupt())
    assert not made({})[0].concerns(signalled())
    assert not made({**SAVES, "high-availability.type": "filesystem"})[0].concerns(signalled())


def test_without_the_option_the_job_is_cancelled_or_left_to_the_next_driver() -> None:
    """At once."""
    stop, master, _, notes = made({})
    stop.begin()
    assert (master.cancelled, master.asked, notes) == ([True], [], [])


def test_it_asks_once_while_an_answer_is_due_and_says_what_it_got() -> None:
    """However many turns the savepoint takes; a second call of `begin` changes nothing."""
    stop, master, clock, notes = made(SAVES)
    stop.tick()
    assert (master.asked, stop.under_way) == ([], False)
    stop.begin()
    for _ in range(5):
        clock.now += 100
        stop.begin()
        stop.tick()
    (request,) = master.asked
    assert (request.stop, request.drain, stop.under_way) == (True, False, True)
    master.then("file:///s", None)
    master.state = JobState.FINISHED
    stop.tick()
    assert (stop.under_way, master.cancelled) == (False, [])
    assert notes == [
        "SIGTERM: stopping with a savepoint, for at most 10s",
        "stopped with savepoint file:///s",
    ]


def test_a_restarting_job_is_waited_for_and_a_savepoint_that_fails_is_taken_again() -> None:
    """Until time is up: then the job is cancelled, once."""
    stop, master, clock, notes = made(SAVES)
    master.state = JobState.RECOVERING
    stop.begin()
    stop.tick()
    assert master.asked == []
    master.state = JobState.RUNNING
    stop.tick()
    master.then(None, OperatingError("the disk is full"))
    stop.tick()
    assert len(master.asked) == 1
    clock.now += RETRY_MS
    stop.tick()
    assert len(master.asked) == 2
    clock.now += 9_000
    stop.tick()
    stop.tick()
    assert master.cancelled == [False]
    assert notes[1:] == [
        "the savepoint failed, and is taken again: the disk is full",
        "SIGTERM: the job is cancelled without a savepoint: it did not stop within 10s",
    ]


def test_what_cannot_come_is_not_waited_for() -> None:
    """Such as a job that takes no checkpoints."""
    stop, master, _, notes = made(SAVES)
    stop.begin()
    stop.tick()
    master.then(None, hg.ConfigError("it takes none"))
    assert master.cancelled == [False]
    assert notes[-1].endswith("cancelled without a savepoint: it takes none")
