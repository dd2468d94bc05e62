"""The job master with fakes for everything around it: its life, what it ignores, and that it always ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from counted_metrics import counted
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_samples import ManualClock

import headgate as hg
from headgate.checkpoint.history_file import HistoryFile
from headgate.common.errors import ConfigError, FencedError, HeadgateError, OperatingError
from headgate.common.ids import JobId
from headgate.common.ports import NoProbe
from headgate.common.settings.config import Config
from headgate.connectors.collection import collection_source
from headgate.core.execution import JobState
from headgate.core.job.state import FINISH_MS, GANG_EXIT_MS, REASON_WAIT_MS
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.job.job_settings import job_settings
from headgate.runtime.job.listener import JobListener
from headgate.runtime.job.master_ports import MasterPorts
from headgate.runtime.job.shipped_program import Program, WorkerSettings
from headgate.runtime.master.job_master import JobMaster
from headgate.runtime.protocol import messages as m
from headgate.state.snapshots import OperatorSubtaskState, SubtaskSnapshot
from headgate.testing.simulation.virtual_disk import SimDisk, SimFiles

SLOTS = 2


class FakeLink:
    """Remembers what was said."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.closed = False

    def send(self, message: Any) -> None:
        if not self.closed:
            self.sent.append(message)

    def close(self) -> None:
        self.closed = True

    def last(self, kind: type) -> Any:
        """The last message of a kind."""
        return next((message for message in reversed(self.sent) if type(message) is kind), None)


class FakeGang:
    """Remembers which gangs were asked for and which cancelled."""

    def __init__(self) -> None:
        self.submitted: list[int] = []
        self.cancelled: list[int] = []

    def submit(self, gang: int, slots: int) -> None:
        self.submitted.append(gang)

    def cancel(self, gang: int) -> None:
        self.cancelled.append(gang)


class Shop(hg.Sink[Any]):
    """A sink whose committer notes what is done to it, and refuses on demand."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.refuses = False

    def create_writer(self, context: Any, restored: Sequence[Any]) -> Any: ...

    def create_committer(self) -> Any:
        return _Committer(self)


class _Committer(hg.SinkCommitter):
    def __init__(self, shop: Shop) -> None:
        self.shop = shop

    def commit(self, committables: Sequence[Any]) -> None:
        assert "close" not in self.shop.log, "a committer is not used once it is closed"
        if self.shop.refuses:
            raise OperatingError("the shop is closed")
        self.shop.log.append(f"commit {sorted(committables)}")

    def abandon(self, committed_through: Sequence[Any]) -> None:
        assert "close" not in self.shop.log, "a committer is not used once it is closed"
        self.shop.log.append("abandon")

    def interrupt(self) -> None:
        self.shop.log.append("interrupt")

    def close(self) -> None:
        self.shop.log.append("close")


class Desk:
    """A job master and everything around it, moved by hand."""

    def __init__(self, listener: JobListener | None = None, **config: Any) -> None:
        self.shop = Shop()
        self.clock, self.gang, self.listener = ManualClock(), FakeGang(), listener or JobListener()
        self.posted: deque[Callable[[], None]] = deque()
        self.background: deque[tuple[Any, Any]] = deque()
        env = hg.Environment(parallelism=SLOTS)
        env.from_source(collection_source(range(10)), uid="in").sink_to(self.shop, uid="shop")
        plan: PhysicalPlan = env.plan()
        settings = job_settings(Config().with_program(config))
        ports = MasterPorts(self.clock, self, self.gang, self, NoProbe(), self.posted.append, self.listener)
        program = Program("job", plan, WorkerSettings(), {})
        self.master = JobMaster(JobId("job"), "job", plan, program, settings, ports, None, None, None)
        self.links: dict[int, FakeLink] = {}

    # The doors that the desk is itself.

    def submit(self, work: Any, done: Any) -> None:
        """`Background`: kept until :meth:`run_background`."""
        self.background.append((work, done))

    def uniform(self, low: float, high: float) -> float:
        """`Randomness`."""
        return low

    def token(self, size: int) -> bytes:
        """`Randomness`."""
        return bytes(size)

    # What a test does.

    def run_background(self) -> None:
        """The background thread does one piece of work."""
        if self.background:
            work, done = self.background.popleft()
            try:
                result, failure = work(), None
            except BaseException as error:
                result, failure = None, error
            done(result, failure)

    def drain(self) -> None:
        """The loop handles what was posted."""
        while self.posted:
            self.posted.popleft()()

    def settle(self) -> None:
        """Let background and loop come to rest."""
        while self.background or self.posted:
            self.run_background()
            self.drain()

    def register(self, slot: int) -> FakeLink:
        """A worker of the present gang registers."""
        link = FakeLink()
        gang = self.gang.submitted[-1] if self.gang.submitted else 0
        self.master.message(link, m.Register(gang, slot, 1, "here", f"address-{slot}"))
        if not link.closed:
            self.links[slot] = link
        return link

    def say(self, slot: int, message: Any) -> None:
        """A worker says something."""
        if slot in self.links:
            self.master.message(self.links[slot], message)

    def started(self) -> Desk:
        """Submitted, and the gang asked for."""
        self.master.submit()
        self.settle()
        return self

    def running(self) -> Desk:
        """All registered, deployed and running."""
        self.started()
        for slot in range(SLOTS):
            self.register(slot)
        for slot in range(SLOTS):
            self.say(slot, m.Deployed(self.master.attempt))
        assert self.master.state is JobState.RUNNING
        return self

    def data_ended(self) -> None:
        """Both subtasks are through."""
        for slot in range(SLOTS):
            counters = counted(0, slot, RECORDS_IN=5, RECORDS_OUT=5)
            self.say(slot, m.DataEnded(self.master.attempt, 0, slot, counters))

    def acknowledge(self, checkpoint: int) -> None:
        """Both subtasks' parts are durable."""
        for slot in range(SLOTS):
            states = [OperatorSubtaskState("shop", None, {}, [f"c{slot}"])]
            self.say(slot, m.Acknowledge(self.master.attempt, checkpoint, SubtaskSnapshot(0, slot, states)))

    def fail(self, slot: int, kind: str = "OperatingError") -> None:
        """A subtask raises."""
        self.say(slot, m.TaskFailed(self.master.attempt, 0, slot, kind, ["broken"], None))


FIXED = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 2,
    "restart-strategy.fixed-delay.delay": "100ms",
}


def test_a_life_without_trouble() -> None:
    """Gang, deployment, final checkpoint, commit, farewell - and each in its turn."""
    desk = Desk().running()
    deploys = [desk.links[slot].last(m.Deploy) for slot in range(SLOTS)]
    assert {deploy.attempt for deploy in deploys} == {1}
    assert deploys[0].peers == {0: "address-0", 1: "address-1"}
    desk.data_ended()
    trigger = desk.links[0].last(m.Trigger)
    desk.acknowledge(trigger.checkpoint)
    assert desk.master.state is JobState.RUNNING
    desk.settle()
    assert desk.shop.log == ["abandon", "commit ['c0', 'c1']"]
    assert desk.master.state is JobState.FINISHING
    assert all(isinstance(desk.links[slot].sent[-1], m.Finish) for slot in range(SLOTS))
    desk.master.gang_exited(1, None)
    desk.settle()
    assert (desk.master.state, desk.shop.log[-1]) == (JobState.FINISHED, "close")


def test_data_may_end_before_the_last_worker_is_deployed() -> None:
    """Workers do not wait for each other; what an early one says is kept."""
    desk = Desk().started()
    for slot in range(SLOTS):
        desk.register(slot)
    desk.data_ended()
    assert desk.links[0].last(m.Trigger) is None
    for slot in range(SLOTS):
        desk.say(slot, m.Deployed(1))
    assert desk.links[0].last(m.Trigger) is not None


def test_a_failure_redeploys_into_the_living_gang_after_the_pause() -> None:
    """Stop, wait for all to be idle and for the pause, commit once more, deploy - without a new gang."""
    desk = Desk(**FIXED).running()
    desk.fail(0)
    assert desk.master.state is JobState.RECOVERING
    for slot in range(SLOTS):
        assert desk.links[slot].last(m.Stop) == m.Stop(1)
        desk.say(slot, m.Idle(1, []))
    desk.settle()
    assert desk.master.state is JobState.RECOVERING
    desk.clock.now += 100
    desk.master.tick()
    desk.settle()
    assert desk.master.state is JobState.DEPLOYING
    assert [desk.links[slot].last(m.Deploy).attempt for slot in range(SLOTS)] == [2, 2]
    assert (desk.gang.submitted, desk.master.restarts) == ([1], 1)


@pytest.mark.parametrize("how", ["link", "heartbeat", "stray", "never idle"])
def test_a_gang_that_cannot_be_used_again_is_replaced(how: str) -> None:
    """A lost worker, a silent one, a stray user thread or one that does not come to rest: a new gang."""
    desk = Desk(**FIXED).running()
    if how == "link":
        desk.master.link_lost(desk.links[1], "reset")
        assert desk.gang.cancelled == [], "not before the gang had time to say why"
        desk.clock.now += REASON_WAIT_MS
        desk.master.tick()
    elif how == "heartbeat":
        desk.clock.now += desk.master.settings.heartbeat_timeout_ms
        desk.master.tick()
    else:
        desk.fail(0)
        desk.say(0, m.Idle(1, ["users-thread"] if how == "stray" else []))
        desk.clock.now += desk.master.settings.redeploy_timeout_ms
        desk.master.tick()
    assert desk.gang.cancelled[:1] == [1]
    desk.clock.now += 100
    desk.master.tick()
    assert desk.gang.submitted == [1], "not before the old one is gone"
    desk.master.gang_exited(1, "killed")
    desk.settle()
    assert desk.gang.submitted == [1, 2]
    assert desk.master.state is JobState.STARTING


def test_a_job_master_that_was_replaced_interrupts_its_commit() -> None:
    """At once, not when the commit's turn in the background is over; a second word changes nothing."""
    desk = Desk()
    desk.master.submit()
    assert desk.shop.log == []
    for _ in range(2):
        desk.master.fenced(FencedError("another driver leads"))
    assert desk.shop.log == ["interrupt"]


@pytest.mark.parametrize("replaced", [True, False])
def test_a_job_master_that_was_replaced_leaves_the_history_of_checkpoints_alone(replaced: bool) -> None:
    """The file is the new leader's; one that is cancelled writes how its last checkpoint ended."""
    desk, disk = Desk().running(), SimDisk(SimFiles(), lambda *_: "works")
    desk.master.checkpoints.history._file = HistoryFile(disk, JobId("job"), "job")
    desk.data_ended()
    disk.create("job/history/checkpoints.json", [b"the new leader's"])
    if replaced:
        desk.master.fenced(FencedError("another driver leads"))
    else:
        desk.master.cancel()
    desk.master.gang_exited(1, None)
    desk.settle()
    assert desk.master.state is (JobState.FAILED if replaced else JobState.CANCELLED)
    assert (disk.read("job/history/checkpoints.json") == b"the new leader's") is replaced


def test_a_gang_whose_end_is_not_reported_counts_as_fenced() -> None:
    """After the time for it the job goes on without hearing of the old gang's end."""
    desk = Desk(**FIXED).running()
    desk.master.link_lost(desk.links[1], "reset")
    desk.clock.now += REASON_WAIT_MS
    desk.master.tick()
    desk.clock.now += GANG_EXIT_MS
    desk.master.tick()
    desk.settle()
    assert desk.gang.submitted == [1, 2]
    desk.master.gang_exited(1, "late")
    assert desk.master.state is JobState.STARTING


def test_strangers_are_not_heard() -> None:
    """Old gangs, taken slots, closed links and other attempts change nothing."""
    desk = Desk().running()
    stale = FakeLink()
    desk.master.message(stale, m.Register(0, 0, 1, "here", "x"))
    assert stale.closed
    taken = FakeLink()
    desk.master.message(taken, m.Register(1, 0, 1, "here", "x"))
    assert taken.closed
    desk.master.message(FakeLink(), m.TaskFailed(1, 0, 0, "OperatingError", ["x"], None))
    desk.say(0, m.TaskFailed(7, 0, 0, "OperatingError", ["x"], None))
    desk.master.link_lost(FakeLink(), "who?")
    desk.master.gang_exited(5, "who?")
    assert (desk.master.state, desk.master.attempt) == (JobState.RUNNING, 1)


def test_wrong_use_is_never_retried() -> None:
    """A setting stays wrong, however often it is tried."""
    desk = Desk(**FIXED).running()
    desk.fail(0, "ConfigError")
    assert desk.master.state is JobState.FAILING
    assert isinstance(desk.master.error, ConfigError)
    assert desk.links[1].last(m.Finish) is not None


def test_a_commit_that_fails_again_and_again_uses_up_the_restarts() -> None:
    """Also the failures between two attempts are the restart strategy's."""
    desk = Desk(**FIXED).running()
    desk.data_ended()
    desk.shop.refuses = True
    desk.acknowledge(desk.links[0].last(m.Trigger).checkpoint)
    for _ in range(6):
        desk.settle()
        for slot in range(SLOTS):
            desk.say(slot, m.Idle(desk.master.attempt, []))
        desk.clock.now += 100
        desk.master.tick()
    desk.settle()
    assert desk.master.state is JobState.FAILING
    assert "the shop is closed" in str(desk.master.error)


def test_cancelled_while_it_is_being_submitted_a_job_starts_no_gang() -> None:
    """What was under way in the background ends in nothing."""
    desk = Desk()
    desk.master.submit()
    desk.master.cancel()
    assert desk.master.state is JobState.CANCELLED
    desk.settle()
    assert (desk.gang.submitted, desk.shop.log) == ([], ["abandon", "close"])


def test_committers_are_closed_only_when_the_background_is_through_with_them() -> None:
    """A commit that is under way when the job ends is not cut off."""
    desk = Desk(**FIXED).running()
    desk.data_ended()
    desk.acknowledge(desk.links[0].last(m.Trigger).checkpoint)
    desk.run_background()  # stored
    desk.drain()  # and the commit is on its way
    desk.master.cancel()
    desk.master.gang_exited(1, None)
    assert desk.master.state is JobState.CANCELLED
    desk.settle()
    assert desk.shop.log[-1] == "close"


def test_workers_that_do_not_leave_are_made_to() -> None:
    """At the end, too, there is a limit to patience."""
    desk = Desk().running()
    desk.master.cancel()
    assert desk.gang.cancelled == []
    desk.clock.now += FINISH_MS
    desk.master.tick()
    assert desk.gang.cancelled == [1]
    desk.clock.now += GANG_EXIT_MS
    desk.master.tick()
    assert desk.master.state is JobState.CANCELLED


def test_a_recovering_job_does_not_keep_its_loop_awake() -> None:
    """Once the pause is over it waits for news; a wake-up in the past would spin the driver."""
    desk = Desk(**FIXED).running()
    desk.fail(0)
    assert desk.master.next_wakeup() is not None
    desk.clock.now += 150
    desk.master.tick()
    for _ in range(3):
        wakeup = desk.master.next_wakeup()
        assert wakeup is None or wakeup > desk.clock.now


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["register", "deployed", "fail", "usage", "peer", "link", "gang", "ended", "ack", "decline",
             "idle", "stray", "beat", "tick", "later", "work", "drain", "refuse", "cancel", "fence"]
        ),
        st.integers(0, SLOTS - 1),
    ),
    max_size=80,
)  # fmt: skip


def strike(desk: Desk, event: str, slot: int) -> None:
    """One event, whether or not it makes sense now."""
    master, attempt = desk.master, desk.master.attempt
    counters = counted(0, slot, RECORDS_IN=5, RECORDS_OUT=5)
    checkpoint = getattr(desk.links.get(slot, FakeLink()).last(m.Trigger), "checkpoint", 1)
    snapshot = SubtaskSnapshot(0, slot, [OperatorSubtaskState("shop", None, {}, [f"c{slot}"])])
    actions: dict[str, Callable[[], Any]] = {
        "register": lambda: desk.register(slot),
        "deployed": lambda: desk.say(slot, m.Deployed(attempt)),
        "fail": lambda: desk.fail(slot),
        "usage": lambda: desk.fail(slot, "ConfigError"),
        "peer": lambda: desk.say(slot, m.TaskFailed(attempt, 0, slot, "OperatingError", ["lost"], 1 - slot)),
        "link": lambda: master.link_lost(desk.links.get(slot, FakeLink()), "reset"),
        "gang": lambda: master.gang_exited(desk.gang.submitted[-1] if desk.gang.submitted else 1, "gone"),
        "ended": lambda: desk.say(slot, m.DataEnded(attempt, 0, slot, counters)),
        "ack": lambda: desk.say(slot, m.Acknowledge(attempt, checkpoint, snapshot)),
        "decline": lambda: desk.say(
            slot, m.Decline(attempt, checkpoint, 0, slot, "CHECKPOINT_DECLINED_SUBSUMED", "")
        ),
        "idle": lambda: desk.say(slot, m.Idle(attempt, [])),
        "stray": lambda: desk.say(slot, m.Idle(attempt, ["users"])),
        "beat": lambda: desk.say(slot, m.Heartbeat(attempt, desk.clock.now, desk.clock.now, [counters])),
        "tick": master.tick,
        "work": desk.run_background,
        "drain": desk.drain,
        "cancel": master.cancel,
        "fence": lambda: master.fenced(FencedError("another driver leads")),
    }
    if event == "later":
        desk.clock.now += 120
        master.tick()
    elif event == "refuse":
        desk.shop.refuses = not desk.shop.refuses
    else:
        actions[event]()


def check_calm(desk: Desk) -> None:
    """After a turn of the loop it waits for what is to come; no gang is asked for, or cancelled, twice."""
    desk.master.tick()
    due = desk.master.next_wakeup()
    assert desk.master.state.terminal or due is None or due > desk.clock.now
    for gangs in (desk.gang.submitted, desk.gang.cancelled):
        assert len(gangs) == len(set(gangs))


@settings(max_examples=300)
@given(EVENTS, st.booleans())
def test_no_sequence_of_events_makes_an_illegal_move_and_every_job_ends(
    events: list[tuple[str, int]], begun: bool
) -> None:
    """Whatever comes in whatever order, no event is refused by the table of states; an end stays an end;
    and once it is cancelled and its gangs are gone, the job is over.
    """
    desk = Desk(**FIXED)
    if begun:
        desk.running()
    else:
        desk.master.submit()
    for event, slot in events:
        ended = desk.master.state if desk.master.state.terminal else None
        strike(desk, event, slot)
        assert ended is None or desk.master.state is ended
        check_calm(desk)
    desk.master.cancel()
    gangs = list(desk.gang.submitted)
    desk.settle()
    desk.master.gang_exited(gangs[-1] if gangs else 1, None)
    desk.clock.now += FINISH_MS + GANG_EXIT_MS
    for _ in range(3):
        desk.master.tick()
        desk.settle()
        desk.clock.now += GANG_EXIT_MS
    assert desk.master.state.terminal
    assert desk.gang.submitted == gangs, "a job that is over starts nothing"
    assert desk.shop.log[-1] == "close"
    assert desk.master.error is None or isinstance(desk.master.error, HeadgateError)
