"""Scenarios of a job's life, first half: deployment, failures, lost workers; each with all its effects."""

from __future__ import annotations

import pytest
from job_rig import (
    BROKEN,
    HEARTBEAT,
    NEVER,
    PAUSE,
    PEER,
    REDEPLOY,
    RESTART_OFTEN,
    THREE,
    TWO,
    TWO_AGAIN,
    WRONG,
    Rig,
    also,
    begin,
    end,
    failing,
    gang_gone,
    link_lost,
    over,
)

from headgate.core.execution import JobEnd, JobState
from headgate.core.job import effects as e
from headgate.core.job import events as v
from headgate.core.job.state import (
    CAUSE_WAIT_MS,
    FINISH_MS,
    GANG_EXIT_MS,
    REASON_WAIT_MS,
    Failure,
    Loss,
    LossKind,
    OutcomeKind,
)
from headgate.core.job.table import Phase
from headgate.core.same_failures import Fingerprint


def test_s01_no_trouble() -> None:
    """Gang, deployment, final checkpoint, farewell: finished, and no restart counted."""
    rig = Rig()
    assert rig.on(v.Submit("start")) == [e.CommitPoint("start")]
    assert rig.core.state is JobState.STARTING
    assert rig.on(v.PointCommitted()) == [e.SubmitGang(1, 2)]
    assert rig.on(v.Registered(1, 0, 10)) == [e.AdmitWorker(1, 0, 10)]
    assert rig.on(v.Registered(1, 1, 11)) == [e.AdmitWorker(1, 1, 11), begin(1, 1, TWO, "start")]
    assert rig.on(v.Deployed(1, 1)) == []
    assert rig.on(v.Deployed(1, 0)) == [e.StartCheckpoints(1)]
    assert rig.on(v.DataEnded(1, (0, 0)), v.DataEnded(1, (0, 1))) == [e.RequestFinal()]
    assert rig.on(v.JobDone(1)) == [*end(), e.LetLeave(1, 1)]
    assert rig.core.state is JobState.FINISHING
    assert rig.on(v.LinkLost(1, 0), v.LinkLost(1, 1)) == [e.CloseLink(10), e.CloseLink(11)]
    assert rig.on(v.GangExited(1)) == over("finished")
    assert (rig.core.state, rig.core.restarts, rig.core.next_wakeup()) == (JobState.FINISHED, 0, None)


def test_s01_data_ended_before_the_last_worker_is_deployed() -> None:
    """The final checkpoint is asked for on entering RUNNING, once."""
    rig = Rig().deploying()
    assert rig.on(v.Deployed(1, 0), v.DataEnded(1, (0, 0)), v.DataEnded(1, (0, 1))) == []
    assert rig.on(v.Deployed(1, 1)) == [e.StartCheckpoints(1), e.RequestFinal()]
    assert rig.on(v.DataEnded(1, (0, 1)), v.Deployed(1, 1)) == []


def test_s02_wrong_use_fails_at_once() -> None:
    """The strategy is not asked, and an open rescale is answered."""
    rig = Rig().running()
    rig.on(v.RescaleAsked(7, 3, False), v.PlanMade(7, THREE))
    assert rig.on(v.AttemptFailed(1, WRONG)) == [
        failing(WRONG, None),
        *end(),
        e.LetLeave(1, 1),
        e.Answer(7, 3, e.Refusal.JOB_ENDS),
    ]
    assert rig.on(v.SlotsCounted(7)) == [], "an answer that comes too late"
    assert rig.on(v.GangExited(1)) == over("failed")
    assert rig.core.outcome is not None
    assert rig.core.outcome.failure == WRONG
    assert rig.core.describe()[6][2] == (None, 0), "the strategy has seen nothing"  # type: ignore[index]


def test_s03_a_failure_redeploys_into_the_living_gang_after_the_pause() -> None:
    """The same gang, the point committed before the deployment, one restart counted."""
    rig = Rig().running()
    assert rig.on(v.AttemptFailed(1, BROKEN)) == [failing(BROKEN, PAUSE), *end(), e.Stop(1, 1)]
    assert rig.core.state is JobState.RECOVERING
    assert rig.idle() == []
    assert rig.after(PAUSE) == [e.FindPoint()]
    assert rig.on(v.PointFound("checkpoint 4")) == [e.CommitPoint("checkpoint 4")]
    assert rig.on(v.PointCommitted()) == [begin(2, 1, TWO, "checkpoint 4")]
    assert rig.deployed(2) == [e.StartCheckpoints(2)]
    assert (rig.core.restarts, rig.core.attempt) == (1, 2)


def test_s03_the_pause_may_be_over_first() -> None:
    """The last worker that comes to rest lets the restore point be looked for; storage may be later still."""
    rig = Rig().failed()
    assert rig.after(PAUSE) == []
    assert rig.on(v.StorageChanged(v.Storage.STORING)) == []
    assert rig.idle() == []
    assert rig.on(v.StorageChanged(v.Storage.QUIET)) == [e.FindPoint()]


def test_s04_a_worker_that_keeps_a_user_thread_is_replaced() -> None:
    """Cancelled at once; one failure is counted, and a new gang comes."""
    rig = Rig().failed()
    assert rig.on(v.Idle(1, 0, ("users-thread",))) == [
        e.Report(e.LeftBehind(0, ("users-thread",))),
        e.CancelGang(1),
    ]
    assert rig.after(PAUSE) == []
    assert rig.on(v.GangExited(1, "cancelled")) == [e.FindPoint()]
    assert rig.found() == [e.CommitPoint(None), e.SubmitGang(2, 2)]
    assert (rig.core.restarts, rig.core.attempt) == (1, 2)


def test_s04_a_worker_that_never_says_idle_is_replaced() -> None:
    """After the redeploy timeout the gang is cancelled; no further failure is counted."""
    rig = Rig().failed()
    rig.on(v.Idle(1, 0))
    assert rig.after(PAUSE) == []
    rig.on(v.Beat(1, 0, 1), v.Beat(1, 1, 1))
    assert rig.after(HEARTBEAT - 100) == []
    rig.on(v.Beat(1, 0, 2), v.Beat(1, 1, 2))
    assert rig.after(REDEPLOY - HEARTBEAT) == [e.CancelGang(1)]
    assert rig.on(v.GangExited(1)) == [e.FindPoint()]
    assert rig.found() == [e.CommitPoint(None), e.SubmitGang(2, 2)]
    assert rig.core.restarts == 1


def test_s05_a_worker_lost_while_running_costs_one_cancelled_gang() -> None:
    """Cancelled once, however the loss is reported again; the new gang comes after exit and pause."""
    rig = Rig().running()
    assert rig.on(v.LinkLost(1, 1)) == [e.CloseLink(11)]
    assert rig.after(REASON_WAIT_MS) == [failing(link_lost(1), PAUSE), *end(), e.CancelGang(1)]
    assert rig.on(v.LinkLost(1, 0), v.LinkLost(1, 1), v.AttemptFailed(1, BROKEN)) == [also(BROKEN)]
    assert rig.after(PAUSE) == [], "not before the old gang is gone"
    assert rig.on(v.GangExited(1, "killed")) == [e.FindPoint()]
    assert rig.found() == [e.CommitPoint(None), e.SubmitGang(2, 2)]


def test_s05_the_gangs_end_explains_the_lost_worker() -> None:
    """What its launcher says is the cause, and there is nothing to cancel."""
    rig = Rig().running()
    rig.on(v.LinkLost(1, 1))
    cause = gang_gone(1, "slot 1 was killed")
    assert rig.on(v.GangExited(1, "slot 1 was killed")) == [failing(cause, PAUSE), *end()]
    assert rig.after(PAUSE) == [e.FindPoint()]


def test_s05_a_failure_while_a_loss_is_unexplained_cancels_once() -> None:
    """The attempt ends with the failure, and its suspicion with it."""
    rig = Rig().running()
    rig.on(v.LinkLost(1, 1))
    assert rig.on(v.AttemptFailed(1, BROKEN)) == [failing(BROKEN, PAUSE), *end(), e.CancelGang(1)]
    assert rig.after(REASON_WAIT_MS) == []


@pytest.mark.parametrize("rescaled", [False, True])
def test_s06_a_worker_lost_while_its_gang_comes_to_rest(rescaled: bool) -> None:
    """The gang is cancelled at once, for a rescale too; not after the redeploy timeout."""
    rig = Rig().running()
    if rescaled:
        assert rig.asks(TWO_AGAIN) == [
            e.Report(e.Rescaling(TWO, TWO_AGAIN)),
            *end(),
            e.AdoptPlan(TWO_AGAIN),
            e.Stop(1, 1),
        ]
    else:
        rig.on(v.AttemptFailed(1, BROKEN))
    assert rig.on(v.LinkLost(1, 0)) == [e.CloseLink(10), e.CancelGang(1), also(link_lost(0))]


def test_s07_a_worker_lost_while_the_point_is_committed() -> None:
    """What was begun ends first: there are never two commits at once."""
    rig = Rig().restoring()
    rig.on(v.PointFound(None))
    assert rig.on(v.LinkLost(1, 0)) == [e.CloseLink(10), e.CancelGang(1), also(link_lost(0))]
    assert rig.on(v.PointCommitted()) == []
    assert rig.core.phase is Phase.QUIESCING
    assert rig.on(v.PointCommitted()) == []
    assert rig.on(v.GangExited(1)) == [e.FindPoint()]
    assert rig.found() == [e.CommitPoint(None), e.SubmitGang(2, 2)]


def test_s07_a_gang_that_is_gone_when_the_point_is_committed() -> None:
    """A new one is asked for at once."""
    rig = Rig().restoring()
    rig.on(v.PointFound(None), v.LinkLost(1, 0))
    assert rig.on(v.GangExited(1), v.PointCommitted()) == [e.SubmitGang(2, 2)]


def test_s08_a_redeployed_gang_that_loses_a_worker() -> None:
    """A counted failure, a new gang, the next number."""
    rig = Rig().restoring()
    assert rig.found() == [e.CommitPoint(None), begin(2, 1)]
    rig.on(v.Deployed(2, 0), v.LinkLost(1, 1))
    assert rig.after(REASON_WAIT_MS) == [failing(link_lost(1), PAUSE, 2), *end(2), e.CancelGang(1)]
    rig.on(v.GangExited(1))
    assert rig.after(PAUSE) == [e.FindPoint()]
    assert rig.found() == [e.CommitPoint(None), e.SubmitGang(2, 2)]
    assert (rig.core.restarts, rig.core.attempt) == (2, 3)
    assert rig.come(2)[-1] == begin(3, 2)


def test_s08_the_last_worker_is_deployed_while_another_is_lost() -> None:
    """The attempt does not begin to run without it."""
    rig = Rig().deploying()
    rig.on(v.Deployed(1, 1))
    assert rig.on(v.LinkLost(1, 1), v.Deployed(1, 0)) == [e.CloseLink(11)]
    assert rig.core.phase is Phase.DEPLOYING


def test_s09_a_gang_that_exits_while_starting() -> None:
    """A counted failure; a late worker of the old gang gets its link closed."""
    rig = Rig().starting()
    rig.on(v.Registered(1, 0, 10))
    assert rig.on(v.GangExited(1, "no room")) == [failing(gang_gone(1, "no room"), PAUSE), *end()]
    assert rig.on(v.Registered(1, 1, 11)) == [e.CloseLink(11)]
    assert rig.after(PAUSE) == [e.FindPoint()]
    assert rig.found() == [e.CommitPoint(None), e.SubmitGang(2, 2)]
    assert rig.on(v.Registered(1, 1, 12), v.Registered(2, 2, 13)) == [e.CloseLink(12), e.CloseLink(13)]
    assert rig.on(v.Registered(2, 1, 21), v.Registered(2, 1, 22)) == [
        e.AdmitWorker(2, 1, 21),
        e.CloseLink(22),
    ]


def test_s10_a_cancelled_gang_that_is_never_reported_gone() -> None:
    """Taken for fenced after 15 s; exactly one new gang, and the late exit changes nothing."""
    rig = Rig().failed()
    rig.on(v.Idle(1, 0, ("users",)))
    assert rig.after(GANG_EXIT_MS - 1) == []
    assert rig.after(1) == [e.FindPoint()]
    assert rig.found() == [e.CommitPoint(None), e.SubmitGang(2, 2)]
    assert rig.on(v.GangExited(1, "late")) == []
    assert rig.core.phase is Phase.STARTING


def test_s11_a_heartbeat_that_is_lost_and_comes_back() -> None:
    """It gets no answer any more, so the worker's lease ends it."""
    rig = Rig().running()
    rig.now = HEARTBEAT - 1
    assert rig.on(v.Beat(1, 0, 1)) == [e.AnswerBeat(1, 0)]
    silent = Failure(Loss(LossKind.HEARTBEAT, 1, 1))
    assert rig.after(1) == [e.CloseLink(11), failing(silent, PAUSE), *end(), e.CancelGang(1)]
    assert rig.on(v.Beat(1, 1, 2), v.Beat(1, 0, 2)) == []


def test_s11_a_loop_that_stands_still_and_turns_again() -> None:
    """Two reports, and nothing else."""
    rig = Rig().running()
    rig.now = HEARTBEAT - 1
    rig.on(v.Beat(1, 0, 5), v.Beat(1, 1, 5))
    rig.now += HEARTBEAT - 1
    rig.on(v.Beat(1, 0, 5), v.Beat(1, 1, 6))
    assert rig.after(1) == [e.Report(e.LoopStands(0, HEARTBEAT))]
    assert rig.after(1) == []
    rig.on(v.Beat(1, 0, 6))
    assert rig.after(1) == [e.Report(e.LoopTurns(0))]
    assert rig.after(1) == []


def test_s12_a_lost_peer_whose_own_failure_follows() -> None:
    """That failure is the cause."""
    rig = Rig().running()
    assert rig.on(v.PeerLost(1, PEER), v.PeerLost(1, Failure("another"))) == []
    assert rig.on(v.AttemptFailed(1, BROKEN)) == [failing(BROKEN, PAUSE), *end(), e.Stop(1, 1)]
    assert rig.after(CAUSE_WAIT_MS) == []


def test_s12_a_lost_peer_that_nothing_explains() -> None:
    """After half a second the loss itself is the failure."""
    rig = Rig().running()
    rig.on(v.PeerLost(1, PEER))
    assert rig.after(CAUSE_WAIT_MS - 1) == []
    assert rig.after(1) == [failing(PEER, PAUSE), *end(), e.Stop(1, 1)]


def test_s12_a_lost_worker_explains_its_peers() -> None:
    """The end of its control link says more than what its peers saw."""
    rig = Rig().running()
    rig.on(v.PeerLost(1, PEER), v.LinkLost(1, 0))
    assert rig.after(CAUSE_WAIT_MS) == []
    assert rig.after(REASON_WAIT_MS - CAUSE_WAIT_MS)[0] == failing(link_lost(0), PAUSE)


def test_s13_a_lost_peer_then_cancelled() -> None:
    """The next wake-up is not in the past, and nothing comes of the loss."""
    rig = Rig().running()
    rig.on(v.PeerLost(1, PEER))
    assert rig.on(v.Cancel()) == [*end(), e.LetLeave(1, 1)]
    assert rig.core.next_wakeup() == FINISH_MS
    assert rig.after(CAUSE_WAIT_MS) == []
    assert rig.core.next_wakeup() == FINISH_MS
    assert rig.on(v.GangExited(1)) == over("cancelled")


def test_s14_a_suspicion_ends_with_its_attempt() -> None:
    """An attempt that deploys before the half second is over is not touched by it."""
    rig = Rig().running()
    rig.on(v.PeerLost(1, PEER))
    assert rig.asks(TWO_AGAIN)[-1] == e.Stop(1, 1)
    rig.idle()
    assert rig.found() == [e.CommitPoint(None), begin(2, 1, TWO_AGAIN)]
    assert rig.after(CAUSE_WAIT_MS) == []
    assert rig.on(v.PeerLost(1, PEER), v.AttemptFailed(1, BROKEN)) == []
    assert rig.deployed(2) == [e.StartCheckpoints(2), e.Answer(1, 2)]


def test_s15_fenced_while_running_after_a_lost_peer() -> None:
    """Failed here, it goes on elsewhere: commits are interrupted, checkpoints stay."""
    rig = Rig().running()
    rig.on(v.PeerLost(1, PEER))
    fenced = Failure("another driver leads")
    assert rig.on(v.Fenced(fenced)) == [
        e.InterruptCommits(),
        failing(fenced, None),
        *end(),
        e.LetLeave(1, 1),
    ]
    assert rig.core.next_wakeup() == FINISH_MS
    assert rig.core.goes_on
    assert rig.on(v.GangExited(1)) == [
        e.EndCheckpoints(JobEnd.SUSPENDED),
        e.Report(e.Ended(OutcomeKind.FAILED)),
    ]


def test_strategies_that_allow_nothing_end_the_job() -> None:
    """The first failure is the last; the gang may leave in order."""
    rig = Rig(restart=NEVER).running()
    assert rig.on(v.AttemptFailed(1, BROKEN)) == [failing(BROKEN, None), *end(), e.LetLeave(1, 1)]


def test_a_failure_that_is_always_the_same_ends_the_job_where_that_is_asked_for() -> None:
    """It is reported with its count before; a checkpoint begins the count anew."""
    rig = Rig(restart=RESTART_OFTEN, same_failure_ends=True).running()
    odd = Failure("odd", fingerprint=Fingerprint("map", "ValueError", "job.py:7"))
    for attempt in (1, 2):
        assert rig.on(v.AttemptFailed(attempt, odd)) == [
            failing(odd, 0, attempt),
            *end(attempt),
            e.Stop(1, attempt),
        ]
        rig.idle(attempt)
        rig.found()
        rig.deployed(attempt + 1)
        if attempt == 1:
            rig.on(v.CheckpointCommitted(5))
    rig.on(v.AttemptFailed(3, odd))
    rig.idle(3)
    rig.found()
    rig.deployed(4)
    effects = rig.on(v.AttemptFailed(4, odd))
    assert rig.core.repeating is not None
    assert effects == [
        e.Report(e.Repeats(rig.core.repeating)),
        failing(odd, None, 4),
        *end(4),
        e.LetLeave(1, 4),
    ]
