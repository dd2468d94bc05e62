"""A job master that is asked for savepoints, stops and another parallelism: everybody is answered, once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_job_master import FIXED, SLOTS, Desk, FakeGang, check_calm, strike

import headgate as hg
from headgate.checkpoint.opening import open_checkpoint
from headgate.common.errors import HeadgateError
from headgate.connectors.collection import collection_source
from headgate.core.execution import JobState
from headgate.core.job.state import FINISH_MS, GANG_EXIT_MS, REASON_WAIT_MS
from headgate.runtime.driver.job_control import JobControl, request_savepoint
from headgate.runtime.job.replanning import PlannedJob
from headgate.runtime.job.shipped_program import Program, WorkerSettings
from headgate.runtime.master.checkpoints.running_savepoints import SavepointRequest
from headgate.runtime.protocol import messages as m


class Answers:
    """What somebody was told."""

    def __init__(self) -> None:
        self.given: list[tuple[Any, HeadgateError | None]] = []

    def __call__(self, answer: Any, error: HeadgateError | None) -> None:
        self.given.append((answer, error))

    @property
    def error(self) -> str:
        """The only answer, which is a refusal."""
        ((answer, error),) = self.given
        assert answer is None
        return str(error)

    @property
    def answer(self) -> Any:
        """The only answer."""
        ((answer, error),) = self.given
        assert error is None
        return answer


class SizedGang(FakeGang):
    """Remembers how many workers each gang was to have."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def submit(self, gang: int, slots: int) -> None:
        super().submit(gang, slots)
        self.sizes.append(slots)


class AskedDesk(Desk):
    """A desk that can be asked; instead of a new checkpoint every rescaling takes the last one."""

    def __init__(self, folder: Path, **config: Any) -> None:
        super().__init__(**{"execution.checkpointing.savepoint-dir": str(folder), **FIXED, **config})
        master, self.tokens = self.master, 0
        self.gang: SizedGang = SizedGang()
        master.ports = replace(master.ports, gang=self.gang)
        master._rescaling._replan, master._rescaling._has_storage = self.replan, True

    def token(self, size: int) -> bytes:
        self.tokens += 1
        return self.tokens.to_bytes(size)

    def replan(self, parallelism: int) -> PlannedJob:
        """The same program, wider or narrower."""
        env = hg.Environment(parallelism=parallelism)
        env.from_source(collection_source(range(10)), uid="in").sink_to(self.shop, uid="shop")
        plan = env.plan()
        return PlannedJob.of(plan, Program("job", plan, WorkerSettings(), {}))

    def saves(self, **wish: Any) -> Answers:
        """Somebody wants a savepoint; it is triggered, if it may be."""
        answers = Answers()
        request_savepoint(self.master, SavepointRequest(**wish), answers)
        self.settle()
        return answers

    def rescales(self, parallelism: int) -> Answers:
        """Somebody wants another parallelism."""
        answers = Answers()
        self.master.rescale(parallelism, True, answers)
        self.settle()
        return answers

    def come(self, workers: int) -> None:
        """The workers of a new gang register, and deploy."""
        for slot in range(workers):
            self.register(slot)
        for slot in range(workers):
            self.say(slot, m.Deployed(self.master.attempt))

    def trigger(self) -> m.Trigger:
        """The last one that workers were told."""
        found: m.Trigger = self.links[0].last(m.Trigger)
        return found


def test_sc10_a_savepoint_is_stored_and_answered_but_neither_committed_nor_told(tmp_path: Path) -> None:
    """sC10: who asked gets the URI; the tasks hear of no completion, and the sinks publish nothing."""
    desk = AskedDesk(tmp_path).running()
    asked = desk.saves()
    trigger = desk.trigger()
    assert trigger.savepoint is not None
    assert (trigger.savepoint.format, trigger.savepoint.stop) == ("canonical", False)
    desk.acknowledge(trigger.checkpoint)
    desk.settle()
    assert asked.answer == trigger.savepoint.root
    assert open_checkpoint(asked.answer)[1].kind == "savepoint"
    assert desk.links[0].last(m.CheckpointComplete) is None
    assert desk.shop.log == ["abandon"]
    assert desk.master.state is JobState.RUNNING


def test_sc12_savepoints_wait_for_nobody(tmp_path: Path) -> None:
    """sC12: three at a time, answered as they complete."""
    desk = AskedDesk(tmp_path).running()
    asked = {}
    for _ in range(3):
        answers = desk.saves()
        asked[desk.trigger().checkpoint] = answers
    assert len(asked) == 3
    for checkpoint in sorted(asked, reverse=True):
        desk.acknowledge(checkpoint)
        desk.settle()
        assert asked[checkpoint].answer
    assert len({answers.answer for answers in asked.values()}) == 3


def test_a_stop_is_committed_and_ends_the_job(tmp_path: Path) -> None:
    """Commit, word to the workers, answer, farewell."""
    desk = AskedDesk(tmp_path).running()
    asked = desk.saves(stop=True, drain=True)
    order = desk.trigger().savepoint
    assert order is not None
    assert (order.stop, order.drain) == (True, True)
    desk.acknowledge(desk.trigger().checkpoint)
    desk.settle()
    assert desk.shop.log == ["abandon", "commit ['c0', 'c1']"]
    assert asked.answer == desk.master.savepoint
    desk.master.gang_exited(1, None)
    assert desk.master.state is JobState.FINISHED


def test_a_stop_that_fails_restarts_the_job_and_leaves_no_file(tmp_path: Path) -> None:
    """The sources have stopped, so the attempt cannot go on."""
    desk = AskedDesk(tmp_path).running()
    asked = desk.saves(stop=True)
    (tmp_path / desk.trigger().savepoint.root.rpartition("/")[2]).mkdir()  # type: ignore[union-attr]
    part = tmp_path / desk.trigger().savepoint.root.rpartition("/")[2] / "part"  # type: ignore[union-attr]
    part.touch()
    desk.say(1, m.Decline(1, desk.trigger().checkpoint, 0, 1, "CHECKPOINT_ASYNC_EXCEPTION", "disk full"))
    assert desk.master.state is JobState.RECOVERING
    assert "CHECKPOINT_ASYNC_EXCEPTION" in asked.error
    desk.settle()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wish", [{}, {"stop": True}])
def test_what_does_not_run_is_not_saved(tmp_path: Path, wish: dict[str, Any]) -> None:
    """Refused with the field's reason."""
    desk = AskedDesk(tmp_path).started()
    assert "NOT_ALL_REQUIRED_TASKS_RUNNING: the job is starting" in desk.saves(**wish).error


def test_the_end_of_a_job_answers_everybody(tmp_path: Path) -> None:
    """Also who asked a moment before, and who asks afterwards."""
    desk = AskedDesk(tmp_path).running()
    control = JobControl(desk.master, desk.posted.append, 0)
    early, late = Answers(), Answers()
    control.savepoint(None, "native", early)
    desk.master.cancel()
    desk.master.gang_exited(1, None)
    assert desk.master.state is JobState.CANCELLED
    control.close()
    control.rescale(3, late)
    assert "cancelled" in early.error
    assert "cancelled" in late.error
    assert control.status().state == "cancelled"
    desk.settle()
    assert len(early.given) == 1


def test_another_parallelism_is_another_gang(tmp_path: Path) -> None:
    """Old workers leave in order; the new ones run the new plan; no failure is counted."""
    desk = AskedDesk(tmp_path).running()
    asked = desk.rescales(3)
    assert desk.master.state is JobState.RESCALING
    assert all(isinstance(desk.links[slot].sent[-1], m.Finish) for slot in range(SLOTS))
    for slot in range(SLOTS):
        desk.master.link_lost(desk.links[slot], "left")
    desk.settle()
    assert desk.gang.submitted == [1], "not before the old one is gone"
    desk.master.gang_exited(1, None)
    desk.settle()
    assert (desk.gang.sizes, desk.gang.cancelled) == ([2, 3], [])
    desk.come(3)
    assert (asked.answer, desk.master.state) == (3, JobState.RUNNING)
    assert (desk.master.attempt, desk.master.restarts) == (2, 0)


@pytest.mark.parametrize("how", ["never there", "lost", "wrong use"])
def test_a_new_plan_that_does_not_run_is_put_back(tmp_path: Path, how: str) -> None:
    """At once, whatever the restart strategy says of a failure."""
    desk = AskedDesk(tmp_path).running()
    asked = desk.rescales(1)
    desk.master.gang_exited(1, None)
    desk.settle()
    if how == "never there":
        desk.clock.now += desk.master.settings.rescale_timeout_ms
        desk.master.tick()
    else:
        desk.register(0)
        if how == "lost":
            desk.master.link_lost(desk.links[0], "reset")
            desk.clock.now += REASON_WAIT_MS
            desk.master.tick()
        else:
            desk.fail(0, "PlanError")
    assert "back to 2 workers" in asked.error
    assert desk.master.state is JobState.RECOVERING
    desk.master.gang_exited(2, "cancelled")
    desk.settle()
    assert desk.gang.sizes == [2, 1, 2]
    desk.come(2)
    assert desk.master.state is JobState.RUNNING
    assert len(asked.given) == 1


def test_a_job_whose_slots_were_lost_goes_on_with_fewer(tmp_path: Path) -> None:
    """While it waits for workers that do not come, the last checkpoint is where it goes on."""
    desk = AskedDesk(tmp_path).started()
    asked = desk.rescales(1)
    assert desk.gang.cancelled == [1]
    desk.master.gang_exited(1, "cancelled")
    desk.settle()
    assert desk.gang.sizes == [2, 1]
    desk.come(1)
    assert (asked.answer, desk.master.state) == (1, JobState.RUNNING)


def test_one_wish_at_a_time(tmp_path: Path) -> None:
    """The second is told of the first."""
    desk = AskedDesk(tmp_path).running()
    first = desk.rescales(3)
    assert "being rescaled to parallelism 3" in desk.rescales(1).error
    assert first.given == []


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["register", "deployed", "fail", "usage", "link", "gang", "ended", "ack", "decline", "idle",
             "peer", "beat", "tick", "later", "work", "drain", "cancel", "save", "stop", "narrow", "widen",
             "checkpoint", "fence"]
        ),
        st.integers(0, SLOTS),
    ),
    max_size=60,
)  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS)
def test_in_any_order_everybody_is_answered_once_and_every_job_ends(
    tmp_path: Path, events: list[tuple[str, int]]
) -> None:
    """No event is refused by a table of states; nobody waits in vain or hears twice."""
    desk = AskedDesk(tmp_path).running()
    control = JobControl(desk.master, desk.posted.append, 0)
    asked: list[Answers] = []
    wishes = {
        "save": lambda then: control.savepoint(None, "canonical", then),
        "stop": lambda then: control.stop(None, "native", False, then),
        "narrow": lambda then: control.rescale(1, then, from_last=True),
        "widen": lambda then: control.rescale(3, then, from_last=True),
        "checkpoint": control.checkpoint,
    }
    for event, slot in events:
        if event in wishes:
            asked.append(Answers())
            wishes[event](asked[-1])
        else:
            strike(desk, event, slot)
        check_calm(desk)
        assert all(len(answers.given) <= 1 for answers in asked)
    desk.master.cancel()
    for _ in range(6):
        desk.settle()
        desk.master.gang_exited(desk.gang.submitted[-1], None)
        desk.clock.now += FINISH_MS + GANG_EXIT_MS
        desk.master.tick()
    desk.settle()
    assert desk.master.state.terminal
    control.close()
    assert all(len(answers.given) == 1 for answers in asked)


def test_a_stop_is_not_ended_by_a_change_of_parallelism(tmp_path: Path) -> None:
    """Whoever stops the job wants no other parallelism any more: the wish under way is refused."""
    desk = AskedDesk(tmp_path).running()
    desk.master.checkpoints.points.latest = None
    stop = desk.saves(stop=True)
    wider = desk.rescales(SLOTS + 1)
    assert "it is being stopped" in wider.error
    desk.acknowledge(desk.trigger().checkpoint)
    desk.settle()
    assert stop.answer == desk.trigger().savepoint.root  # type: ignore[union-attr]
    assert desk.master.state is JobState.FINISHING


@pytest.mark.parametrize("parallelism", ["2", 2.5, True, None])
def test_a_parallelism_that_is_no_number_disturbs_nobody(tmp_path: Path, parallelism: Any) -> None:
    """It is refused; what the loop raised would have ended the job."""
    desk = AskedDesk(tmp_path).running()
    assert "expected a whole number" in desk.rescales(parallelism).error
    assert desk.master.state is JobState.RUNNING


@pytest.mark.parametrize("target", [17, b"bytes", object()])
def test_a_target_that_is_no_name_disturbs_nobody(tmp_path: Path, target: Any) -> None:
    """It is refused with what was expected; a path is as good as its text."""
    desk = AskedDesk(tmp_path).running()
    assert "expected a path or URI" in desk.saves(target=target).error
    desk.saves(target=tmp_path / "there")
    root = desk.trigger().savepoint.root  # type: ignore[union-attr]
    assert root.startswith((tmp_path / "there").as_uri())
