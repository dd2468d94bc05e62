"""The enumerators' part of a checkpoint: behind its entry and timeout, before its triggers, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_job_master_requests import Answers, AskedDesk

from headgate.common.errors import UserFunctionError
from headgate.core.checkpoint.queue import QUEUED_MAX
from headgate.core.execution import JobState
from headgate.runtime.control import messages as m
from headgate.runtime.savepoints import SavepointWish

TIMEOUT_MS = 5_000


class HookedDesk(AskedDesk):
    """A desk at which a test says what the enumerators do when a snapshot of them is wanted."""

    def __init__(self, folder: Path, enumerators: Any, **config: Any) -> None:
        timeout = {"execution.checkpointing.timeout": f"{TIMEOUT_MS}ms"}
        super().__init__(folder, **timeout, **config)
        self.running()
        self.master.snapshot_enumerators = lambda: enumerators(self)  # type: ignore[method-assign]

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
    """Who asked is told why. Not even a stop restarts the job, because no source has stopped for it."""
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
    desk.master.snapshot_enumerators = dict  # type: ignore[method-assign]
    desk.saves()
    assert desk.trigger().checkpoint == record.checkpoint + 1


@pytest.mark.ci
def test_requests_that_fail_one_after_the_other_do_not_nest(tmp_path: Path) -> None:
    """As many as may wait, and every one is answered."""
    desk = HookedDesk(tmp_path, slow)
    everybody = [Answers() for _ in range(QUEUED_MAX)]
    desk.saves()
    requests = desk.master.checkpoints.requests
    for answers in everybody:
        requests.savepoint(SavepointWish(), answers)
    desk.settle()
    desk.master.snapshot_enumerators = lambda: failing(desk)  # type: ignore[method-assign]
    desk.master.tick()
    desk.settle()
    assert all("TRIGGER_CHECKPOINT_FAILURE" in answers.error for answers in everybody)
    assert desk.master.state is JobState.RUNNING
