"""The enumerators' part of a checkpoint: behind its entry and timeout, before its triggers, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_job_master_requests import Answers, AskedDesk

from headgate.common.errors import UserFunctionError
from headgate.core.checkpoint.queue import QUEUED_MAX
from headgate.core.execution import JobState
from headgate.runtime.master.checkpoints.running_savepoints import SavepointRequest
from headgate.runtime.master.checkpoints.source_snapshots import RETRY_MS
from headgate.runtime.protocol import messages as m

TIMEOUT_MS = 5_000


class HookedDesk(AskedDesk):
    """A desk at which a test says what the enumerators do when a snapshot of them is wanted."""

    def __init__(self, folder: Path, enumerators: Any, **config: Any) -> None:
        timeout = {"execution.checkpointing.timeout": f"{TIMEOUT_MS}ms"}
        super().__init__(folder, **timeout, **config)
        self.running()
        self.master.sources.snapshot = lambda _: enumerators(self)  # type: ignore[method-assign]

    @property
    def pending(self) -> tuple[int, ...]:
        """Ids of those under way."""
        found: tuple[int, ...] = tuple(self.master.checkpoints.coordinator.statistics().pending)
        return found


def failing(desk: HookedDesk) -> Any:
    """User code that raises."""
    raise UserFunctionError("snapshot() of source 'in' raised ValueError: no", "in", "trace", None)


def slow(desk: HookedDesk) -> Any:
    """User code that takes as long as the checkpoint may."""
    desk.clock.now += TIMEOUT_MS
    return {}


def test_f14_entry_and_timeout_then_enumerators_then_triggers(tmp_path: Path) -> None:
    """And no turn of the loop lies between the last two: a split handed out there would be in both."""
    seen: list[Any] = []

    def enumerators(desk: HookedDesk) -> Any:
        seen.append((desk.pending, desk.master.checkpoints.next_wakeup(), desk.trigger()))
        return {"in": "left"}

    desk = HookedDesk(tmp_path, enumerators)
    asked, due = desk.saves(), desk.clock.monotonic_ms() + TIMEOUT_MS
    checkpoint = desk.trigger().checkpoint
    assert seen == [((checkpoint,), due, None)]
    desk.acknowledge(checkpoint)
    desk.settle()
    assert asked.answer


@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.parametrize(
    ("enumerators", "reason"), [(failing, "TRIGGER_CHECKPOINT_FAILURE"), (slow, "CHECKPOINT_EXPIRED")]
)
def test_sc17_enumerators_that_fail_or_are_slow_trigger_no_task(
    tmp_path: Path, enumerators: Any, reason: str, stop: bool
) -> None:
    """sC17: who asked is told why. Not even a stop restarts the job, because no source has stopped for it."""
    desk = HookedDesk(tmp_path, enumerators)
    asked = desk.saves(stop=stop)
    desk.master.tick()
    desk.settle()
    assert reason in asked.error
    assert desk.links[0].last(m.Trigger) is None
    assert (desk.pending, desk.master.state, desk.master.attempt) == ((), JobState.RUNNING, 1)
    assert list(tmp_path.glob("savepoint-*/*")) == []
    record = desk.master.checkpoints.history.records[-1]
    assert (record.status.value, record.reason) == ("failed", reason)
    desk.master.sources.snapshot = lambda _: {}  # type: ignore[method-assign]
    desk.saves()
    assert desk.trigger().checkpoint == record.checkpoint + 1


class Boundary:
    """A source of epochs at a desk: a checkpoint may be drawn between two of them only."""

    def __init__(self, desk: HookedDesk) -> None:
        self.desk, self.between, self.wants = desk, False, False
        self.told: list[tuple[str, int]] = []
        sources: Any = desk.master.sources
        sources.ready = lambda: self.between
        sources.want_checkpoint = lambda: self.wants
        sources.checkpoint_ended = lambda checkpoint, *, complete: self.told.append(
            ("complete" if complete else "aborted", checkpoint)
        )

    def turn(self, passed_ms: int = RETRY_MS) -> None:
        """Time passes."""
        self.desk.clock.now += passed_ms
        self.desk.master.tick()
        self.desk.settle()


def test_a_checkpoint_waits_until_every_source_is_between_two_epochs(tmp_path: Path) -> None:
    """No task is triggered before; it is asked again soon, and the sources hear how it ended."""
    drawn: list[tuple[int, ...]] = []

    def snapshot(desk: HookedDesk) -> Any:
        drawn.append(desk.pending)
        return {"in": 7}

    desk = HookedDesk(tmp_path, snapshot)
    source = Boundary(desk)
    asked = desk.saves()
    source.turn()
    assert (drawn, desk.trigger()) == ([], None)
    assert desk.master.checkpoints.next_wakeup() == desk.clock.monotonic_ms() + RETRY_MS
    source.between = True
    source.turn()
    checkpoint = desk.trigger().checkpoint
    assert drawn == [(checkpoint,)]
    desk.acknowledge(checkpoint)
    desk.settle()
    # A savepoint is the user's: nothing may be trimmed for it.
    assert asked.answer
    assert source.told == [("aborted", checkpoint)]


def test_a_checkpoint_that_waits_too_long_for_its_sources_is_given_up(tmp_path: Path) -> None:
    """It is never drawn later, and the sources are told."""
    drawn: list[int] = []
    desk = HookedDesk(tmp_path, lambda _: drawn.append(1))
    source = Boundary(desk)
    asked = desk.saves()
    source.turn(TIMEOUT_MS)
    assert "CHECKPOINT_EXPIRED" in asked.error
    source.between = True
    source.turn()
    assert (drawn, desk.trigger(), [what for what, _ in source.told]) == ([], None, ["aborted"])


def test_a_source_that_wants_a_checkpoint_gets_a_periodic_one_at_once(tmp_path: Path) -> None:
    """And one only, though it is asked at every turn."""
    desk = HookedDesk(tmp_path, lambda _: {}, **{"execution.checkpointing.interval": "1h"})
    source = Boundary(desk)
    source.between = True
    source.turn()
    first = desk.trigger().checkpoint
    desk.acknowledge(first)
    desk.settle()
    source.turn()
    assert (desk.trigger().checkpoint, desk.pending, source.told) == (first, (), [("complete", first)])
    source.wants = True
    source.turn()
    source.wants = False
    source.turn()
    assert desk.pending == (desk.trigger().checkpoint,) == (first + 1,)


@pytest.mark.ci
def test_requests_that_fail_one_after_the_other_do_not_nest(tmp_path: Path) -> None:
    """As many as may wait, and every one is answered."""
    desk = HookedDesk(tmp_path, slow)
    everybody = [Answers() for _ in range(QUEUED_MAX)]
    desk.saves()
    requests = desk.master.checkpoints.requests
    for answers in everybody:
        requests.savepoint(SavepointRequest(), answers)
    desk.settle()
    desk.master.sources.snapshot = lambda _: failing(desk)  # type: ignore[method-assign]
    desk.master.tick()
    desk.settle()
    assert all("TRIGGER_CHECKPOINT_FAILURE" in answers.error for answers in everybody)
    assert desk.master.state is JobState.RUNNING
