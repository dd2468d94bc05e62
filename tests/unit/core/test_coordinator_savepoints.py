"""Savepoints and stopping with one: what they ignore, what they are answered, how they fail."""

from __future__ import annotations

import pytest
from coordinator_rig import (
    FINAL,
    MANUAL,
    PERIODIC,
    SAVEPOINT,
    STOP,
    A,
    B,
    Rig,
    Snap,
    complete,
    finalize,
    kinds,
    trigger,
)

from headgate.common.errors import InternalError
from headgate.common.ids import AttemptId, CheckpointId
from headgate.core.checkpoint.effects import (
    Commit,
    Discard,
    FailJob,
    NotifyAbort,
    NotifyComplete,
    RequestDeclined,
    RequestFailed,
    RequestFulfilled,
    Retire,
    TriggerCheckpoint,
)
from headgate.core.checkpoint.failures import CheckpointFailureReason as Reason
from headgate.core.checkpoint.pending import AckResult
from headgate.core.checkpoint.publishing import LEFT_TO_RECOVERY

ONE, TWO, THREE = CheckpointId(1), CheckpointId(2), CheckpointId(3)
CLOSING = Reason.CHECKPOINT_DECLINED_TASK_CLOSING


def test_sc10_trigger_and_confirm_a_savepoint() -> None:
    """sC10: repeats change nothing; stored means answered; it is not retained, committed or notified."""
    rig = Rig(interval_ms=100, max_concurrent=1)
    assert rig.ask(SAVEPOINT, ticket=7) == [trigger(1, SAVEPOINT, ticket=7)]
    assert rig.ack(1, B) == []
    assert rig.ack_result(1, B) == (AckResult.DUPLICATE, [])
    assert rig.ack(1, A) == [finalize(1, A, B, kind=SAVEPOINT, ticket=7)]
    assert rig.stored(1) == [RequestFulfilled(7, ONE)]
    assert rig.core.completed == ()
    figures = rig.core.statistics()
    assert (figures.completed, figures.savepoints, figures.pending) == (0, 1, ())


def test_sc10_files_of_a_complete_savepoint_are_never_discarded() -> None:
    """sC10: an acknowledgement that comes again long after belongs to files that are the user's."""
    rig = Rig()
    rig.ask(SAVEPOINT)
    rig.fill(1), rig.stored(1)
    for number in range(2, 30):
        rig.ask()
        rig.complete(number)
    assert rig.ack_result(1, A) == (AckResult.DUPLICATE, [])


def test_sc10_a_savepoint_does_not_move_the_periodic_pause() -> None:
    """sC10: its completion is no success of a checkpoint: neither the pause nor the failures begin anew."""
    rig = Rig(interval_ms=100, min_pause_ms=100, timeout_ms=10, tolerable_failures=1)
    rig.at(100), rig.at(110)
    rig.at(190)
    rig.ask(SAVEPOINT)
    rig.fill(2), rig.stored(2)
    assert rig.at(200) == [trigger(3, PERIODIC)]
    assert isinstance(rig.at(210)[-1], FailJob)


def test_sc12_five_savepoints_at_once() -> None:
    """sC12: the limit of one holds none of five savepoints; acknowledged newest first, all complete."""
    rig = Rig(max_concurrent=1)
    for number in range(1, 6):
        assert rig.ask(SAVEPOINT, ticket=number) == [trigger(number, SAVEPOINT, ticket=number)]
    answered = []
    for number in range(5, 0, -1):
        rig.fill(number)
    while (storing := rig.core.storing) is not None:
        answered += [e.ticket for e in rig.stored(storing) if isinstance(e, RequestFulfilled)]
    assert answered == [5, 1, 2, 3, 4]
    assert rig.core.tickets == frozenset()


def test_sc12_no_pause_between_savepoints() -> None:
    """sC12: a pause of 100,000 s holds no savepoint."""
    rig = Rig(interval_ms=1000, min_pause_ms=100_000_000)
    rig.ask()
    rig.complete(1)
    assert rig.ask(SAVEPOINT) == [trigger(2, SAVEPOINT)]
    assert rig.ask(SAVEPOINT) == [trigger(3, SAVEPOINT)]


def test_a_pending_savepoint_takes_a_place() -> None:
    """A checkpoint behind a savepoint waits: its barrier would end the savepoint's alignment in the tasks."""
    rig = Rig()
    rig.ask(SAVEPOINT)
    assert rig.ask(MANUAL) == []
    assert rig.core.statistics(rig.now).held_by == "TOO_MANY_CONCURRENT_CHECKPOINTS"
    rig.fill(1)
    assert rig.stored(1) == [trigger(2)]


def test_f24_a_savepoint_is_not_subsumed() -> None:
    """A newer checkpoint completes; the older savepoint stays pending and completes later."""
    rig = Rig(max_concurrent=2)
    rig.ask(SAVEPOINT, ticket=1), rig.ask()
    assert rig.complete(2) == [finalize(2, A, B), Commit(TWO), *complete(2)]
    rig.fill(1)
    assert rig.stored(1) == [RequestFulfilled(1, ONE)]
    assert rig.core.completed == (2,)


@pytest.mark.parametrize("reason", [Reason.CHECKPOINT_ASYNC_EXCEPTION, Reason.CHECKPOINT_DECLINED])
def test_a_savepoint_that_fails_never_fails_the_job(reason: Reason) -> None:
    """Declined, expired or not stored: the asker is told, its files go, the job goes on."""
    rig = Rig(tolerable_failures=0, timeout_ms=100)
    rig.ask(SAVEPOINT, ticket=1)
    rig.ack(1, A)
    assert rig.decline(1, B, reason) == [
        NotifyAbort(ONE, reason, "task (0, 1)"),
        Discard((Snap(*A),), savepoint=ONE),
        RequestFailed(1, SAVEPOINT, reason, "task (0, 1)", ONE),
    ]
    assert rig.ack_result(1, A) == (AckResult.DISCARDED, [Discard((Snap(*A),), savepoint=ONE)])
    rig.ask(SAVEPOINT, ticket=2, timeout_ms=30)
    expired = rig.at(30)
    assert kinds(expired) == ["NotifyAbort", "RequestFailed"]
    rig.ask(SAVEPOINT, ticket=3)
    rig.fill(3)
    failed = rig.store_failed(3, maybe_published=False)
    assert kinds(failed) == ["NotifyAbort", "Discard", "RequestFailed"]
    assert rig.core.tickets == frozenset()


def test_a_savepoint_brings_its_own_timeout() -> None:
    """The configured timeout holds where the asker names none."""
    rig = Rig(timeout_ms=100)
    rig.ask(SAVEPOINT, timeout_ms=5000)
    assert rig.core.next_wakeup() == 5000
    assert rig.at(4999) == []
    assert kinds(rig.at(5000)) == ["NotifyAbort"]


def test_an_unsure_savepoint_keeps_its_files() -> None:
    """Its metadata may be in place: the asker is told of the failure, and nothing is deleted."""
    rig = Rig()
    rig.ask(SAVEPOINT, ticket=1)
    rig.fill(1)
    assert kinds(rig.store_failed(1, maybe_published=True)) == ["NotifyAbort", "RequestFailed"]
    assert rig.ack_result(1, A) == (AckResult.DUPLICATE, [])


def test_a_savepoint_being_stored_outlives_the_attempt() -> None:
    """The tasks have done their part: what is being stored at a suspension is whole, and answered so."""
    rig = Rig()
    rig.ask(SAVEPOINT, ticket=1)
    rig.fill(1)
    assert rig.core.suspend() == []
    assert rig.stored(1) == [RequestFulfilled(1, ONE)]


# -- stop ----------------------------------------------------------------------------------------


def test_stop_is_stored_logged_committed_and_answered() -> None:
    """A stop is a savepoint to begin with and a checkpoint to end with, and the last of the attempt."""
    rig = Rig(interval_ms=100)
    assert rig.ask(STOP, ticket=1) == [trigger(1, STOP, ticket=1)]
    assert rig.core.next_wakeup() == 600_000
    assert rig.at(1000) == []
    assert rig.fill(1) == [finalize(1, A, B, kind=STOP, ticket=1)]
    assert rig.stored(1) == [Commit(ONE)]
    assert rig.core.latest == 1
    assert rig.committed(1) == [NotifyComplete(ONE, STOP, 1), RequestFulfilled(1, ONE)]
    assert rig.core.next_wakeup() is None


def test_stop_waits_neither_for_others_nor_for_the_pause() -> None:
    """It starts beside a pending checkpoint, which it ends when it completes."""
    rig = Rig()
    rig.ask()
    assert rig.ask(STOP, ticket=1) == [trigger(2, STOP, ticket=1)]
    rig.fill(2)
    subsumed = NotifyAbort(ONE, Reason.CHECKPOINT_SUBSUMED, "by 2")
    assert rig.stored(2) == [subsumed, Commit(TWO)]


def test_nothing_starts_behind_a_stop() -> None:
    """Its sources emit no further barrier: who waits is turned down, and so is who comes later."""
    rig = Rig(interval_ms=100)
    rig.ask()
    assert rig.ask(MANUAL, ticket=1) == rig.ask(MANUAL) == []
    assert rig.ask(STOP) == [
        RequestFailed(1, MANUAL, CLOSING),
        RequestDeclined(MANUAL, CLOSING),
        trigger(2, STOP),
    ]
    assert rig.ask(PERIODIC) == [RequestDeclined(PERIODIC, CLOSING)]
    assert rig.ask(SAVEPOINT, ticket=2) == [RequestFailed(2, SAVEPOINT, CLOSING)]
    assert rig.ask(STOP, ticket=3) == [RequestFailed(3, STOP, CLOSING)]
    rig.complete(1)
    assert rig.at(500) == []


@pytest.mark.parametrize(
    "how", ["declined", "declined early", "expired", "not stored", "unsure", "not triggered"]
)
def test_a_stop_that_fails_always_fails_the_job(how: str) -> None:
    """Its sources have stopped, so however many failures are tolerable, the job must be restarted."""
    rig = Rig(tolerable_failures=1000, timeout_ms=100)
    rig.ask(STOP, ticket=1)
    if how == "declined":
        effects = rig.decline(1, A, Reason.CHECKPOINT_DECLINED_TASK_NOT_READY)
    elif how == "declined early":
        effects = rig.decline(1, A, Reason.IO_EXCEPTION)
    elif how == "expired":
        effects = rig.at(100)
    elif how == "not triggered":
        effects = rig.abort(1, Reason.TRIGGER_CHECKPOINT_FAILURE, "enumerator raised")
    else:
        rig.fill(1)
        effects = rig.store_failed(1, maybe_published=how == "unsure")
    answer, failure = effects[-2:]
    assert isinstance(answer, RequestFailed)
    assert isinstance(failure, FailJob)
    assert (failure.checkpoint, failure.stopping, failure.reason) == (ONE, True, answer.reason)
    assert rig.ask(MANUAL) == [RequestDeclined(MANUAL, Reason.NOT_ALL_REQUIRED_TASKS_RUNNING)]


def test_a_stop_that_no_task_heard_of_lets_the_job_go_on() -> None:
    """A place that cannot be written to is found before the trigger: the periodic schedule begins anew."""
    rig = Rig(interval_ms=100)
    rig.ask(STOP, ticket=1)
    refused = rig.abort(1, Reason.IO_EXCEPTION, "read-only")
    assert refused == [
        NotifyAbort(ONE, Reason.IO_EXCEPTION, "read-only"),
        RequestFailed(1, STOP, Reason.IO_EXCEPTION, "read-only", ONE),
    ]
    assert rig.at(100) == [trigger(2, PERIODIC)]


def test_a_final_checkpoint_waits_for_the_outcome_of_a_stop() -> None:
    """The input may end while the job stops; after a stop that no task heard of the final one starts."""
    rig = Rig(interval_ms=100, hooks=["enumerators"])
    assert kinds(rig.ask(STOP)) == ["RunHooks"]
    assert rig.ask(FINAL) == []
    assert rig.core.next_wakeup() == 600_000
    aborted = rig.abort(1, Reason.TRIGGER_CHECKPOINT_FAILURE)
    assert kinds(aborted) == ["NotifyAbort", "RunHooks"]
    assert rig.hooks_done(2) == [trigger(2, FINAL)]


def test_sc17_hooks_that_end_behind_the_timeout_trigger_nothing() -> None:
    """sC17: the next tick gives the stop up, and because no task heard of it the job goes on."""
    rig = Rig(timeout_ms=100, hooks=["enumerators"])
    rig.ask(STOP, ticket=1)
    assert rig.core.stopping
    rig.now = 100
    assert rig.hooks_done(1) == []
    assert rig.core.next_wakeup() == 100
    missing = "no acknowledgement from hook 'enumerators'"
    assert rig.at(100) == [
        NotifyAbort(ONE, Reason.CHECKPOINT_EXPIRED, missing),
        RequestFailed(1, STOP, Reason.CHECKPOINT_EXPIRED, missing, ONE),
    ]
    assert not rig.core.stopping
    assert kinds(rig.ask(MANUAL)) == ["RunHooks"]


def test_stop_takes_no_checkpoints_place() -> None:
    """The user owns it, so the number of retained checkpoints does not count it; its log entry goes."""
    rig = Rig()
    rig.ask()
    rig.complete(1)
    rig.ask(STOP)
    assert rig.complete(2)[-1] == NotifyComplete(TWO, STOP)
    assert rig.core.completed == (1, 2)
    rig.core.suspend()
    rig.core.start(AttemptId(2), [A], 0)
    rig.ask()
    rig.ack(3, A, attempt=2), rig.stored(3)
    assert rig.committed(3)[-1] == Retire((ONE, TWO))
    assert rig.ack_result(2, A) == (AckResult.DUPLICATE, [])


# -- tickets -------------------------------------------------------------------------------------


def test_a_manual_request_is_answered_after_the_commit() -> None:
    """Stored is not enough for somebody who asked for a checkpoint."""
    rig = Rig()
    assert rig.ask(MANUAL, ticket=5) == [trigger(1, ticket=5)]
    rig.fill(1)
    assert rig.stored(1) == [Commit(ONE)]
    assert rig.committed(1) == complete(1, ticket=5)


def test_a_waiting_asker_is_answered_by_suspension() -> None:
    """Queued, collecting, committing: all are told when the attempt ends, each once."""
    rig = Rig()
    rig.ask(MANUAL, ticket=1)
    rig.fill(1), rig.stored(1)
    rig.ask(SAVEPOINT, ticket=2)
    rig.ask(MANUAL, ticket=3)
    assert rig.core.suspend(Reason.TASK_FAILURE, "gone") == [
        RequestFailed(3, MANUAL, Reason.TASK_FAILURE, "gone"),
        NotifyAbort(TWO, Reason.TASK_FAILURE, "gone"),
        RequestFailed(2, SAVEPOINT, Reason.TASK_FAILURE, "gone", TWO),
        RequestFailed(1, MANUAL, Reason.TASK_FAILURE, LEFT_TO_RECOVERY, ONE),
    ]
    assert rig.core.tickets == frozenset()
    assert rig.committed(1) == []


@pytest.mark.parametrize("shut_down", [False, True])
def test_an_asker_whose_checkpoint_is_stored_too_late_learns_where_it_is(shut_down: bool) -> None:
    """It is in the log, but this attempt does not commit it: not what was asked for, and not lost."""
    rig = Rig()
    rig.ask(STOP, ticket=1)
    rig.fill(1)
    assert (rig.core.shutdown() if shut_down else rig.core.suspend()) == []
    reason = Reason.CHECKPOINT_COORDINATOR_SHUTDOWN if shut_down else Reason.CHECKPOINT_COORDINATOR_SUSPEND
    assert rig.stored(1) == [RequestFailed(1, STOP, reason, LEFT_TO_RECOVERY, ONE)]


def test_a_refused_asker_is_answered_at_once() -> None:
    """Suspended or shut down: no checkpoint is begun, and the answer says why."""
    rig = Rig()
    rig.core.suspend()
    waiting = Reason.NOT_ALL_REQUIRED_TASKS_RUNNING
    assert rig.ask(SAVEPOINT, ticket=1) == [RequestFailed(1, SAVEPOINT, waiting)]
    rig.core.shutdown()
    gone = Reason.CHECKPOINT_COORDINATOR_SHUTDOWN
    assert rig.ask(STOP, ticket=2) == [RequestFailed(2, STOP, gone)]


def test_a_ticket_has_one_request() -> None:
    """A number in use, or on a kind that nobody waits for, is a bug of the shell."""
    rig = Rig()
    rig.ask(MANUAL, ticket=1)
    with pytest.raises(InternalError, match="ticket 1 was handed in twice"):
        rig.ask(SAVEPOINT, ticket=1)
    with pytest.raises(InternalError, match="a final checkpoint takes no ticket, got 2"):
        rig.ask(FINAL, ticket=2)


def test_the_final_checkpoint_displaces_askers_but_no_savepoint() -> None:
    """What the final one replaces is turned down; a savepoint that waits for cleaning still comes first."""
    rig = Rig()
    for _ in range(2):
        rig.core.cleaning_started()
    assert rig.ask(MANUAL, ticket=1) == rig.ask(SAVEPOINT, ticket=2) == []
    ended = Reason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM
    assert rig.ask(FINAL) == [RequestFailed(1, MANUAL, ended)]
    started = rig.done(rig.core.cleaning_ended(rig.now))
    assert started == [trigger(1, SAVEPOINT, ticket=2)]
    rig.fill(1)
    begun = [e for e in rig.stored(1) if isinstance(e, TriggerCheckpoint)]
    assert begun == [trigger(2, FINAL)]
