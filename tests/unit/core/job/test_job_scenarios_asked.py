"""Scenarios of a job's life, second half: the end, stops, other parallelisms; each with all its effects."""

from __future__ import annotations

import pytest
from job_rig import (
    BROKEN,
    ONCE,
    ONE,
    PAUSE,
    PEER,
    RESCALE,
    THREE,
    TWO,
    TWO_AGAIN,
    WRONG,
    Rig,
    also,
    begin,
    end,
    failing,
    over,
)

from headgate.common.errors import InternalError
from headgate.core.execution import JobEnd, JobState
from headgate.core.job import effects as e
from headgate.core.job import events as v
from headgate.core.job.state import FINISH_MS, GANG_EXIT_MS, Failure, Loss, LossKind, OutcomeKind
from headgate.core.job.table import Phase, Row

FENCED = Failure("another driver leads")
SUSPENDED = e.EndCheckpoints(JobEnd.SUSPENDED)
LATE = Failure(Loss(LossKind.LATE, 2, why=3))


def test_s16_fenced_during_the_drain() -> None:
    """Finished stays; nothing is deleted that the other driver may need."""
    rig = Rig().running()
    rig.on(v.JobDone(1, "savepoint"))
    assert rig.on(v.Fenced(FENCED)) == [e.InterruptCommits()]
    assert rig.on(v.Fenced(FENCED)) == []
    assert rig.on(v.GangExited(1)) == [SUSPENDED, e.Report(e.Ended(OutcomeKind.FINISHED))]
    assert (rig.core.state, rig.core.goes_on) == (JobState.FINISHED, False)


@pytest.mark.parametrize("how", ["fenced", "cancelled"])
def test_s17_fenced_or_cancelled_while_the_point_is_committed(how: str) -> None:
    """What ends late starts nothing; no store is pending, so the job need not wait for it."""
    rig = Rig().restoring()
    rig.on(v.PointFound(None))
    ended = rig.on(v.Fenced(FENCED) if how == "fenced" else v.Cancel())
    interrupted = [e.InterruptCommits(), failing(FENCED, None)] if how == "fenced" else []
    assert ended == [*interrupted, e.LetLeave(1, 1)]
    assert rig.on(v.PointCommitted()) == []
    assert rig.on(v.GangExited(1))[1:] == [
        e.Report(e.Ended(OutcomeKind.FAILED if how == "fenced" else OutcomeKind.CANCELLED))
    ]
    assert rig.on(v.PointCommitted(), v.PointFound(None), v.PointFailed(BROKEN)) == []


def test_s17_cancelled_while_it_is_submitted() -> None:
    """There is no gang to wait for, and what is committed in the background ends in nothing."""
    rig = Rig()
    rig.on(v.Submit(None))
    assert rig.on(v.Cancel()) == over("cancelled")
    assert rig.on(v.PointCommitted()) == []


def test_s18_cancelled_while_cancelling_and_while_failing() -> None:
    """Deadlines stay; the failure is kept."""
    rig = Rig().running()
    rig.on(v.AttemptFailed(1, WRONG))
    rig.after(FINISH_MS - 10)
    assert rig.on(v.Cancel()) == []
    assert rig.core.state is JobState.CANCELLING
    assert rig.on(v.Cancel()) == []
    assert rig.after(10) == [e.CancelGang(1)]
    assert rig.on(v.Cancel()) == []
    assert rig.after(GANG_EXIT_MS) == over("cancelled")
    assert rig.core.outcome is not None
    assert rig.core.outcome.failure == WRONG


def test_s18_a_cancel_for_good_wins_over_one_that_hands_the_job_over() -> None:
    """In either order; a job that is only handed over keeps its checkpoints."""
    for first, second, kept in ((True, True, True), (True, False, False), (False, True, False)):
        rig = Rig(has_successor=True).running()
        rig.on(v.Cancel(first), v.Cancel(second))
        assert rig.core.goes_on is kept
        assert rig.on(v.GangExited(1))[0] == (SUSPENDED if kept else over("cancelled")[0])


def test_s18_a_finishing_job_is_not_cancelled() -> None:
    """Its output is committed."""
    rig = Rig().running()
    rig.on(v.JobDone(1))
    assert rig.on(v.Cancel()) == []
    assert rig.core.state is JobState.FINISHING


def test_s19_a_worker_lost_while_cancelling() -> None:
    """Links end as workers leave; the gang's exit, or its deadline, ends the job."""
    rig = Rig().running()
    rig.on(v.Cancel())
    assert rig.on(v.LinkLost(1, 0), v.AttemptFailed(1, BROKEN), v.PeerLost(1, PEER)) == [e.CloseLink(10)]
    assert rig.after(FINISH_MS) == [e.CancelGang(1)]
    assert rig.on(v.LinkLost(1, 1)) == []
    assert rig.after(GANG_EXIT_MS) == over("cancelled")


def test_s20_cancelled_while_a_checkpoint_is_stored() -> None:
    """Over only after its answer; then retention decides."""
    rig = Rig().running()
    rig.on(v.StorageChanged(v.Storage.STORING), v.Cancel())
    assert rig.on(v.GangExited(1)) == []
    assert rig.core.state is JobState.CANCELLING
    assert rig.on(v.StorageChanged(v.Storage.BUSY)) == over("cancelled")


def test_s21_a_stop_whose_commit_fails_after_the_log_has_it() -> None:
    """Who asked is answered by the checkpoints' machine; the job recovers from that very savepoint."""
    rig = Rig().running()
    assert rig.on(v.StopAsked(3)) == []
    assert rig.core.stopping
    assert rig.on(v.AttemptFailed(1, BROKEN), v.StopEnded(3)) == [
        failing(BROKEN, PAUSE),
        *end(),
        e.Stop(1, 1),
    ]
    assert not rig.core.stopping
    rig.idle()
    rig.after(PAUSE)
    assert rig.on(v.PointFound("the savepoint")) == [e.CommitPoint("the savepoint")]


def test_s22_a_rescale_that_reaches_its_fit_under_a_stop() -> None:
    """Refused: who stops the job wants no other parallelism any more."""
    rig = Rig().running()
    assert rig.on(v.RescaleAsked(1, 3, True)) == [e.MakePlan(1, 3)]
    assert rig.on(v.PlanMade(1, THREE)) == [e.CountSlots(1, THREE)]
    assert rig.on(v.SlotsCounted(1)) == [e.TakeCheckpoint(1)]
    assert rig.on(v.StopAsked(2), v.Saved(1, BROKEN)) == [e.CheckFit(1, THREE)]
    assert rig.on(v.Fits(1)) == [e.Answer(1, 3, e.Refusal.STOPPING)]
    assert rig.on(v.JobDone(1, "savepoint")) == [*end(), e.LetLeave(1, 1)]


def test_s22_a_rescale_whose_checkpoint_is_declined() -> None:
    """Refused unless the last one will do; everything is as before."""
    rig = Rig().running()
    rig.on(v.RescaleAsked(1, 3, False), v.PlanMade(1, THREE), v.SlotsCounted(1))
    assert rig.on(v.Saved(1, BROKEN)) == [e.Answer(1, 3, e.Refusal.NOT_SAVED, BROKEN)]
    assert rig.core.phase is Phase.RUNNING


@pytest.mark.parametrize(
    ("replies", "refusal"),
    [
        ([v.PlanMade(1, None, WRONG)], e.Refusal.NO_PLAN),
        ([v.PlanMade(1, THREE), v.SlotsCounted(1, WRONG)], e.Refusal.NO_SLOTS),
        ([v.PlanMade(1, THREE), v.SlotsCounted(1), v.Saved(1), v.Fits(1, WRONG)], e.Refusal.DOES_NOT_FIT),
    ],
)
def test_a_rescale_is_refused_before_anything_is_touched(replies: list[v.Event], refusal: e.Refusal) -> None:
    """With the reason; the next one is taken up."""
    rig = Rig().running()
    rig.on(v.RescaleAsked(1, 3, False), *replies[:-1])
    assert rig.on(replies[-1]) == [e.Answer(1, 3, refusal, WRONG)]
    assert rig.on(v.RescaleAsked(2, 3, False)) == [e.MakePlan(2, 3)]


def test_a_rescale_to_what_runs_is_answered_at_once() -> None:
    """Nothing ends."""
    rig = Rig().running()
    assert rig.on(v.RescaleAsked(1, 2, False), v.PlanMade(1, None)) == [e.MakePlan(1, 2), e.Answer(1, 2)]


def test_a_rescale_of_a_job_that_does_not_run_needs_the_last_checkpoint() -> None:
    """Refused where a new one is asked for, at every step."""
    rig = Rig().failed()
    assert rig.on(v.RescaleAsked(1, 3, False)) == [e.Answer(1, 3, e.Refusal.NOT_RUNNING)]
    rig = Rig().running()
    rig.on(v.RescaleAsked(1, 3, False), v.PlanMade(1, THREE), v.AttemptFailed(1, BROKEN))
    assert rig.on(v.SlotsCounted(1)) == [e.Answer(1, 3, e.Refusal.NOT_RUNNING)]


def test_a_rescale_whose_checkpoint_was_taken_outlives_the_attempt() -> None:
    """The job failed between the checkpoint and the fit: that checkpoint is where the new plan goes on."""
    rig = Rig().running()
    rig.on(v.RescaleAsked(1, 3, False), v.PlanMade(1, THREE), v.SlotsCounted(1), v.Saved(1))
    rig.on(v.AttemptFailed(1, BROKEN))
    assert rig.on(v.Fits(1)) == [
        e.Report(e.Rescaling(TWO, THREE)),
        e.AdoptPlan(THREE),
        e.LetLeave(1, 1),
    ]


def test_another_size_is_another_gang() -> None:
    """Old workers leave in order, the new plan runs in a new gang, who asked is answered, nothing counted."""
    rig = Rig().running()
    assert rig.asks(THREE) == [
        e.Report(e.Rescaling(TWO, THREE)),
        *end(),
        e.AdoptPlan(THREE),
        e.LetLeave(1, 1),
    ]
    assert rig.core.state is JobState.RESCALING
    assert rig.on(v.LinkLost(1, 0), v.LinkLost(1, 1)) == [e.CloseLink(10), e.CloseLink(11)]
    assert rig.on(v.GangExited(1)) == [e.FindPoint()]
    assert rig.found() == [e.CommitPoint(None), e.SubmitGang(2, 3)]
    assert rig.come(2)[-1] == begin(2, 2, THREE)
    assert rig.deployed(2) == [e.StartCheckpoints(2), e.Answer(1, 3)]
    assert (rig.core.restarts, rig.core.attempt, rig.core.state) == (0, 2, JobState.RUNNING)


def test_s23_a_rescale_from_the_last_checkpoint_during_a_restart_pause() -> None:
    """The pause is dropped; the cause stays a failure, and one restart is counted."""
    rig = Rig().failed()
    assert rig.on(v.RescaleAsked(1, 3, True), v.PlanMade(1, THREE), v.SlotsCounted(1)) == [
        e.MakePlan(1, 3),
        e.CountSlots(1, THREE),
        e.CheckFit(1, THREE),
    ]
    assert rig.on(v.Fits(1)) == [e.Report(e.Rescaling(TWO, THREE)), e.AdoptPlan(THREE), e.LetLeave(1, 1)]
    assert rig.core.state is JobState.RECOVERING
    assert rig.on(v.GangExited(1)) == [e.FindPoint()]
    rig.found()
    rig.come(2)
    assert rig.deployed(2) == [e.StartCheckpoints(2), e.Answer(1, 3)]
    assert rig.core.restarts == 1


def test_s24_a_rescale_while_starting_counts_no_restart() -> None:
    """Nothing failed: a gang that never came is cancelled for a smaller one."""
    rig = Rig().starting()
    rig.on(v.RescaleAsked(1, 1, True), v.PlanMade(1, ONE), v.SlotsCounted(1))
    assert rig.on(v.Fits(1)) == [
        e.Report(e.Rescaling(TWO, ONE)),
        *end(),
        e.AdoptPlan(ONE),
        e.CancelGang(1),
    ]
    rig.on(v.GangExited(1))
    assert rig.found() == [e.CommitPoint(None), e.SubmitGang(2, 1)]
    rig.come(2)
    assert rig.deployed(2) == [e.StartCheckpoints(2), e.Answer(1, 1)]
    assert rig.core.restarts == 0


def test_s25_an_adopted_plan_that_does_not_run_in_time() -> None:
    """The old plan comes back at once, who asked is answered, the strategy is not asked, none is counted."""
    rig = Rig(restart=ONCE).running()
    rig.asks(THREE)
    rig.on(v.GangExited(1))
    assert rig.found() == [e.CommitPoint(None), e.SubmitGang(2, 3)]
    assert rig.after(RESCALE) == [
        e.Report(e.Reverting(2, LATE)),
        *end(2),
        e.AdoptPlan(TWO),
        e.CancelGang(2),
        e.Answer(1, 3, e.Refusal.REVERTED, LATE, 2),
    ]
    assert rig.core.state is JobState.RECOVERING
    assert rig.on(v.AttemptFailed(2, WRONG)) == [also(WRONG, 2)], "a late word of the plan that is gone"
    assert rig.on(v.GangExited(2)) == [e.FindPoint()]
    assert rig.found() == [e.CommitPoint(None), e.SubmitGang(3, 2)]
    rig.come(3)
    assert rig.deployed(3) == [e.StartCheckpoints(3)]
    assert rig.core.restarts == 0
    assert rig.on(v.AttemptFailed(3, BROKEN))[0] == failing(BROKEN, PAUSE, 3), "its one restart is left"


def test_s25_wrong_use_in_an_adopted_plan_brings_the_old_one_back() -> None:
    """Also a failure that no restart helps is the new plan's only; its idle workers stay."""
    rig = Rig().running()
    rig.asks(TWO_AGAIN)
    rig.idle()
    rig.found()
    assert rig.on(v.AttemptFailed(2, WRONG)) == [
        e.Report(e.Reverting(2, WRONG)),
        *end(2),
        e.AdoptPlan(TWO),
        e.Stop(1, 2),
        e.Answer(1, 2, e.Refusal.REVERTED, WRONG, 2),
    ]


def test_s25_a_point_that_cannot_be_read_for_an_adopted_plan() -> None:
    """The old plan comes back, and the strategy is asked as for every recovery."""
    rig = Rig(restart=ONCE).running()
    rig.asks(THREE)
    rig.on(v.GangExited(1))
    assert rig.on(v.PointFailed(BROKEN)) == [
        e.Report(e.PointNotReached(BROKEN, PAUSE)),
        e.AdoptPlan(TWO),
        e.Answer(1, 3, e.Refusal.REVERTED, BROKEN, 2),
    ]
    assert rig.after(PAUSE) == [e.FindPoint()]
    assert rig.on(v.PointFailed(BROKEN)) == [failing(BROKEN, None), *over("failed")]


def test_s26_totals_of_an_old_plan_are_not_those_of_the_new_one() -> None:
    """Dropped from the moment on when another plan is adopted, also while recovering."""
    rig = Rig().failed()
    assert rig.core.counts(1)
    rig.on(v.RescaleAsked(1, 3, True), v.PlanMade(1, THREE), v.SlotsCounted(1), v.Fits(1))
    assert not rig.core.counts(1)
    assert rig.on(v.Beat(1, 0, 4)) == [e.AnswerBeat(1, 0)]


def test_s27_a_second_rescale_and_a_cancel() -> None:
    """The second is refused and names the first; a cancel answers it, and puts nothing back."""
    rig = Rig().running()
    rig.asks(TWO_AGAIN)
    assert rig.on(v.RescaleAsked(2, 1, True)) == [e.Answer(2, 2, e.Refusal.ONE_AT_A_TIME)]
    rig.idle()
    assert rig.found() == [e.CommitPoint(None), begin(2, 1, TWO_AGAIN)]
    assert rig.on(v.Cancel()) == [*end(2), e.LetLeave(1, 2), e.Answer(1, 2, e.Refusal.JOB_ENDS)]


def test_s28_two_subtasks_report_one_damaged_file() -> None:
    """One failure; what is said of an older attempt changes nothing."""
    rig = Rig(restart=ONCE).running()
    assert rig.on(v.AttemptFailed(1, BROKEN), v.AttemptFailed(1, BROKEN)) == [
        failing(BROKEN, PAUSE),
        *end(),
        e.Stop(1, 1),
        also(BROKEN),
    ]
    rig.idle()
    rig.after(PAUSE)
    rig.found()
    assert rig.on(v.AttemptFailed(1, BROKEN), v.Idle(1, 0), v.Deployed(1, 0), v.JobDone(1)) == []
    assert rig.core.phase is Phase.DEPLOYING


def test_s29_a_point_whose_commit_fails_again_and_again() -> None:
    """Each time the strategy is asked; used up, the job fails."""
    rig = Rig().restoring()
    assert rig.on(v.PointFound(None), v.PointFailed(BROKEN)) == [
        e.CommitPoint(None),
        e.Report(e.PointNotReached(BROKEN, PAUSE)),
    ]
    assert rig.after(PAUSE) == [e.FindPoint()]
    assert rig.on(v.PointFound(None), v.PointFailed(BROKEN)) == [
        e.CommitPoint(None),
        failing(BROKEN, None),
        e.LetLeave(1, 1),
    ]
    assert rig.core.restarts == 0, "no attempt began"


def test_s29_the_first_point_cannot_be_committed() -> None:
    """Reported as a failure of the job, which has no attempt yet; then as every recovery."""
    rig = Rig(restart=ONCE)
    rig.on(v.Submit("start"))
    assert rig.on(v.PointFailed(BROKEN)) == [failing(BROKEN, PAUSE, 0)]
    assert rig.after(PAUSE) == [e.FindPoint()]
    assert rig.on(v.PointFound(None)) == [e.CommitPoint("start")]


def test_a_move_that_the_table_does_not_list_raises_with_the_trace() -> None:
    """The message has what led to it."""
    rig = Rig().running()
    with pytest.raises(InternalError, match=r"cannot take submitted while running; history: .*last worker"):
        rig.core._job.take(Row.SUBMITTED)
