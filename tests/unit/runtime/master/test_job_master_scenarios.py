"""Lives of a job in which a worker is lost, a wish comes at a bad moment, or both: what exactly follows.

Every test moves a job master by hand and looks at what it does: gangs asked for and cancelled, messages to
workers, answers, and when it wants to be woken up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from counted_metrics import counted
from operator_samples import ManualClock
from test_job_master import FIXED, SLOTS, Desk
from test_job_master_requests import AskedDesk

import headgate as hg
from headgate.common.errors import FencedError, HeadgateError, OperatingError
from headgate.connectors.collection import collection_source
from headgate.core.execution import JobState
from headgate.core.job.state import CAUSE_WAIT_MS, FINISH_MS, GANG_EXIT_MS, REASON_WAIT_MS
from headgate.display.progress import Narrator
from headgate.display.progress_status import JobProgress
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.job.listener import JobListener
from headgate.runtime.job.replanning import PlannedJob
from headgate.runtime.job.shipped_program import Program, WorkerSettings
from headgate.runtime.protocol import messages as m


class Heard(JobListener):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.failures: list[str] = []
        self.totals: list[int] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        self.failures.append(str(error))

    def progress(self, counters: Sequence[m.Counters]) -> None:
        self.totals.append(sum(entry.records_in for entry in counters))

    def rescaled(self, plan: PhysicalPlan) -> None:
        self.totals.clear()


class SameSize(AskedDesk):
    """Another parallelism is another plan for as many workers, which may therefore stay."""

    def replan(self, parallelism: int) -> PlannedJob:
        env = hg.Environment(parallelism=SLOTS)
        source = env.from_source(collection_source(range(10)), uid="in", parallelism=1)
        source.sink_to(self.shop, uid="shop")
        plan = env.plan()
        return PlannedJob.of(plan, Program("job", plan, WorkerSettings(), {}))


def passes(desk: Desk, ms: int) -> None:
    """Time passes, and the driver's loop turns."""
    desk.clock.now += ms
    desk.master.tick()
    desk.settle()


def peer_lost(desk: Desk, slot: int = 0) -> None:
    """A worker's connection to another one broke; nobody knows why yet."""
    lost = m.TaskFailed(desk.master.attempt, 0, slot, "OperatingError", ["peer lost"], 1 - slot)
    desk.say(slot, lost)


def all_idle(desk: Desk, slots: int = SLOTS) -> None:
    """Every worker has dropped what it ran."""
    for slot in range(slots):
        desk.say(slot, m.Idle(desk.master.attempt, []))


def wakeups(desk: Desk, turns: int, step_ms: int) -> list[int]:
    """How far ahead the job master wants to be woken up, turn by turn."""
    found = []
    for _ in range(turns):
        passes(desk, step_ms)
        due = desk.master.next_wakeup()
        if due is not None:
            found.append(due - desk.clock.now)
    return found


# -- a lost worker ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["link", "heartbeat", "both links", "stray threads"])
def test_a_gang_is_cancelled_once(how: str) -> None:
    """However many find out that it cannot be used any more."""
    desk = Desk(**FIXED).running()
    if how == "heartbeat":
        desk.clock.now += desk.master.settings.heartbeat_timeout_ms
    elif how == "stray threads":
        desk.fail(0)
        for slot in range(SLOTS):
            desk.say(slot, m.Idle(1, ["users-thread"]))
    else:
        for slot in range(1 if how == "link" else SLOTS):
            desk.master.link_lost(desk.links[slot], "reset")
        desk.clock.now += REASON_WAIT_MS
    passes(desk, 0)
    passes(desk, 100)
    assert desk.gang.cancelled == [1]
    desk.master.gang_exited(1, "cancelled")
    desk.settle()
    assert (desk.gang.submitted, desk.gang.cancelled) == ([1, 2], [1])


@pytest.mark.parametrize("how", ["link", "heartbeat"])
def test_a_worker_lost_while_its_gang_comes_to_rest_for_a_rescale_costs_no_timeout(
    how: str, tmp_path: Path
) -> None:
    """The gang was to be deployed again and cannot be any more: it is replaced at once; the rescale stays."""
    desk = SameSize(tmp_path, **{"headgate.spark.redeploy-timeout": "10min"}).running()
    asked = desk.rescales(3)
    assert desk.master.state is JobState.RESCALING
    assert desk.links[0].last(m.Stop) == m.Stop(1)
    if how == "link":
        desk.master.link_lost(desk.links[1], "reset")
    else:
        passes(desk, desk.master.settings.heartbeat_timeout_ms)
    assert desk.gang.cancelled == [1]
    desk.master.gang_exited(1, "cancelled")
    desk.settle()
    assert desk.gang.submitted == [1, 2]
    desk.come(SLOTS)
    assert (asked.answer, desk.master.state, desk.master.restarts) == (3, JobState.RUNNING, 0)


def test_workers_that_leave_for_a_rescale_are_not_lost(tmp_path: Path) -> None:
    """Their connections end one after the other, which is what they were asked for."""
    listener = Heard()
    desk = AskedDesk(tmp_path, listener=listener).running()
    desk.rescales(3)
    listener.notes.clear()
    for slot in range(SLOTS):
        desk.master.link_lost(desk.links[slot], "left")
    assert (desk.gang.cancelled, listener.notes) == ([], [])


@pytest.mark.parametrize("then", ["cancel", "fence", "finish"])
def test_after_a_lost_peer_an_ending_job_waits_for_its_workers_asleep(then: str) -> None:
    """What nobody has explained when the attempt ends needs no explanation: it wakes nobody up any more."""
    desk = Desk(**FIXED).running()
    if then == "finish":
        desk.data_ended()
        desk.acknowledge(desk.links[0].last(m.Trigger).checkpoint)
    peer_lost(desk)
    if then == "cancel":
        desk.master.cancel()
    elif then == "fence":
        desk.master.fenced(FencedError("another driver leads"))
    desk.settle()
    state = {"cancel": JobState.CANCELLING, "fence": JobState.FAILING, "finish": JobState.FINISHING}[then]
    assert desk.master.state is state
    assert min(wakeups(desk, 6, CAUSE_WAIT_MS // 3)) > 0
    assert desk.master.state is state
    assert desk.gang.cancelled == []


def test_a_lost_peer_is_forgotten_with_its_attempt(tmp_path: Path) -> None:
    """The next attempt, of a rescale that was under way, is not the one that lost it."""
    desk = AskedDesk(tmp_path).running()
    peer_lost(desk)
    asked = desk.rescales(1)
    desk.master.gang_exited(1, None)
    desk.settle()
    desk.come(1)
    assert asked.answer == 1
    passes(desk, CAUSE_WAIT_MS)
    assert (desk.master.state, desk.master.attempt) == (JobState.RUNNING, 2)


def test_a_lost_peer_that_nobody_explains_is_the_cause() -> None:
    """After half a second, once."""
    listener = Heard()
    desk = Desk(listener, **FIXED).running()
    peer_lost(desk)
    passes(desk, CAUSE_WAIT_MS - 1)
    assert desk.master.state is JobState.RUNNING
    passes(desk, 1)
    assert desk.master.state is JobState.RECOVERING
    assert listener.failures == ["peer lost"]


def test_the_failure_behind_a_lost_peer_is_the_cause() -> None:
    """It follows within moments, and the loss is not told."""
    listener = Heard()
    desk = Desk(listener, **FIXED).running()
    peer_lost(desk)
    desk.fail(1)
    passes(desk, CAUSE_WAIT_MS)
    assert listener.failures == ["broken"]


# -- the end ------------------------------------------------------------------------------------------


def test_to_cancel_again_does_not_begin_the_wait_anew() -> None:
    """Workers that do not leave are made to, however often the user loses patience."""
    desk = Desk().running()
    desk.master.cancel()
    for _ in range(4):
        passes(desk, FINISH_MS // 4)
        desk.master.cancel()
    assert desk.gang.cancelled == [1]
    for _ in range(3):
        passes(desk, GANG_EXIT_MS // 3)
        desk.master.cancel()
    assert desk.master.state is JobState.CANCELLED
    assert desk.gang.cancelled == [1]


def test_a_failed_job_that_is_cancelled_keeps_its_failure_and_its_time() -> None:
    """It is cancelled then, and says why it failed; its workers get no new time."""
    desk = Desk().running()
    desk.fail(0)
    assert desk.master.state is JobState.FAILING
    passes(desk, FINISH_MS - 1)
    desk.master.cancel()
    assert desk.master.state is JobState.CANCELLING
    passes(desk, 1)
    assert desk.gang.cancelled == [1]
    desk.master.gang_exited(1, "cancelled")
    assert desk.master.state is JobState.CANCELLED
    assert "broken" in str(desk.master.error)


def test_to_cancel_a_job_whose_gang_is_cancelled_already_changes_nothing_for_the_gang() -> None:
    """It is on its way out, and has the time that it was given."""
    desk = Desk(**FIXED).running()
    desk.clock.now += desk.master.settings.heartbeat_timeout_ms
    desk.master.tick()
    assert desk.gang.cancelled == [1]
    passes(desk, GANG_EXIT_MS - 1)
    desk.master.cancel()
    passes(desk, 1)
    assert (desk.master.state, desk.gang.cancelled) == (JobState.CANCELLED, [1])


# -- another parallelism ------------------------------------------------------------------------------


def test_a_rescale_of_a_job_that_starts_is_no_restart(tmp_path: Path) -> None:
    """Nothing has failed."""
    desk = AskedDesk(tmp_path).started()
    asked = desk.rescales(1)
    desk.master.gang_exited(1, "cancelled")
    desk.settle()
    desk.come(1)
    assert (asked.answer, desk.master.state, desk.master.restarts) == (1, JobState.RUNNING, 0)


def test_a_rescale_during_a_restart_pause_is_a_restart(tmp_path: Path) -> None:
    """A failure is what the attempt follows; the pause is dropped."""
    desk = AskedDesk(tmp_path).running()
    desk.fail(0)
    asked = desk.rescales(1)
    desk.master.gang_exited(1, "cancelled")
    desk.settle()
    desk.come(1)
    assert (asked.answer, desk.master.state, desk.master.restarts) == (1, JobState.RUNNING, 1)


def test_a_plan_that_is_put_back_is_no_restart(tmp_path: Path) -> None:
    """The job did not fail; neither its status nor a display counts it."""
    status = JobProgress("job", None, 0)
    desk = AskedDesk(tmp_path, listener=Narrator(status, Silent(), ManualClock())).running()
    asked = desk.rescales(1)
    desk.master.gang_exited(1, None)
    desk.settle()
    desk.register(0)
    desk.fail(0)
    assert "back to 2 workers" in asked.error
    assert (status.state, status.restarts) == ("restarting", 0)
    desk.master.gang_exited(2, "cancelled")
    desk.settle()
    desk.come(SLOTS)
    assert (desk.master.state, desk.master.restarts) == (JobState.RUNNING, 0)
    desk.fail(0)
    all_idle(desk)
    passes(desk, 100)
    assert (desk.master.restarts, status.restarts) == (1, 1)


def test_a_plan_adopted_in_a_restart_pause_goes_when_the_restore_point_fails(tmp_path: Path) -> None:
    """As one that was adopted while the job ran does: the old plan is put back, the strategy is asked."""
    desk = AskedDesk(tmp_path).running()
    desk.fail(0)
    desk.shop.refuses = True
    asked = desk.rescales(1)
    desk.master.gang_exited(1, "cancelled")
    fail_to_find(desk)
    desk.settle()
    assert "back to 2 workers" in asked.error
    passes(desk, 100)
    desk.settle()
    assert desk.gang.sizes == [2, 2]


@pytest.mark.parametrize("put_back", [False, True])
def test_what_workers_of_an_old_plan_count_is_not_the_new_plans(tmp_path: Path, put_back: bool) -> None:
    """Its subtasks have the same numbers, and others' records."""
    listener = Heard()
    desk = AskedDesk(tmp_path, listener=listener).running()
    if put_back:
        desk.rescales(1)
        desk.master.gang_exited(1, None)
        desk.settle()
        desk.register(0)
    desk.fail(0)
    if not put_back:
        desk.rescales(1)
    attempt = desk.master.attempt
    counters = counted(RECORDS_IN=5, RECORDS_OUT=5)
    desk.say(0, m.Heartbeat(attempt, desk.clock.now, desk.clock.now, [counters]))
    desk.say(0, m.Totals(attempt, [counters]))
    assert listener.totals == []
    assert desk.master.counters() == []


# -- wake-ups -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pause_ms", [0, 100])
def test_when_the_pause_is_over_the_loop_sleeps_until_there_is_news(pause_ms: int) -> None:
    """A wake-up for now, again and again, is a core that does nothing else."""
    desk = Desk(**{**FIXED, "restart-strategy.fixed-delay.delay": f"{pause_ms}ms"}).running()
    desk.fail(0)
    passes(desk, pause_ms)
    assert min(wakeups(desk, 5, 0)) > 0


class Silent:
    """A display that shows nothing."""

    def show(self, event: str, facts: Mapping[str, Any]) -> None:
        """Nothing."""


def fail_to_find(desk: Desk) -> None:
    """The next piece of background work that looks for a restore point fails."""

    def fails() -> Any:
        raise OperatingError("the storage cannot be reached")

    _, done = desk.background.popleft()
    desk.background.appendleft((fails, done))
