"""The checkpoint coordinator: scenarios by id, and the rules between them."""

from __future__ import annotations

import pytest
from coordinator_rig import FINAL, MANUAL, PERIODIC, A, B, C, Rig, Snap, finalize, trigger

from headgate.common.errors import ConfigError, InternalError
from headgate.common.ids import AttemptId, CheckpointId
from headgate.core.checkpoint.coordinator import CheckpointCoordinator
from headgate.core.checkpoint.effects import (
    Commit,
    Discard,
    Effect,
    FailJob,
    Finalize,
    NotifyAbort,
    NotifyComplete,
    RequestDeclined,
    Retire,
    TriggerCheckpoint,
    Unexpected,
)
from headgate.core.checkpoint.failures import CheckpointFailureReason as Reason
from headgate.core.checkpoint.pending import AckResult
from headgate.core.checkpoint.requests import QUEUED_MAX, CheckpointSettings


def test_sc1_trigger_and_confirm() -> None:
    """sC1: all acknowledgements complete a checkpoint, repeats change nothing, a newer replaces it."""
    rig = Rig()
    assert rig.ask() == [trigger(1)]
    assert rig.core.next_wakeup() == 600_000
    assert rig.ack(1, B) == []
    assert rig.ack_result(1, B) == (AckResult.DUPLICATE, [])
    assert rig.ack(1, A) == [finalize(1, A, B)]
    assert rig.core.next_wakeup() is None
    assert rig.stored(1) == [Commit(CheckpointId(1))]
    assert rig.committed(1) == [NotifyComplete(CheckpointId(1), MANUAL)]
    rig.ask()
    second = rig.complete(2)
    assert second[-1] == Retire((CheckpointId(1),))
    assert rig.core.completed == (2,)


def test_sc2_decline_aborts_one_of_two() -> None:
    """sC2: a decline aborts its checkpoint once and leaves the other alone."""
    rig = Rig(max_concurrent=2, tolerable_failures=9)
    rig.ask(), rig.ask()
    aborted = rig.decline(1, A)
    assert aborted == [NotifyAbort(CheckpointId(1), Reason.CHECKPOINT_DECLINED, "task (0, 0)")]
    assert rig.core.statistics().pending == (2,)
    assert rig.decline(1, A) == rig.decline(1, B) == []
    assert [type(e) for e in rig.complete(2)] == [Finalize, Commit, NotifyComplete]


def test_sc3_two_at_a_time() -> None:
    """sC3: two interleaved checkpoints both complete and both are retained."""
    rig = Rig([A, B, C], max_concurrent=2, num_retained=2)
    rig.ask()
    assert rig.ack(1, B) == []
    rig.ask()
    assert rig.ack(1, C) == rig.ack(2, A) == []
    assert rig.ack(1, A) == [finalize(1, A, B, C)]
    rig.stored(1)
    assert rig.committed(1) == [NotifyComplete(CheckpointId(1), MANUAL)]
    assert rig.ack(2, B) == []
    assert rig.ack(2, C) == [finalize(2, A, B, C)]
    rig.stored(2)
    assert rig.committed(2) == [NotifyComplete(CheckpointId(2), MANUAL)]
    assert rig.core.completed == (1, 2)


def test_sc5_timeout() -> None:
    """sC5: an overdue checkpoint is dropped, what was acknowledged is discarded, late ones too."""
    rig = Rig(timeout_ms=100, tolerable_failures=1)
    rig.ask()
    rig.ack(1, A)
    assert rig.at(99) == []
    assert rig.at(100) == [
        NotifyAbort(CheckpointId(1), Reason.CHECKPOINT_EXPIRED, "no acknowledgement from (0, 1)"),
        Discard((Snap(*A),)),
    ]
    assert rig.core.statistics().pending == rig.core.completed == ()
    assert rig.ack_result(1, B) == (AckResult.DISCARDED, [Discard((Snap(*B),))])


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_sc7_concurrency_limit(limit: int) -> None:
    """sC7: n intervals give n triggers; one completion allows exactly one more."""
    rig = Rig(interval_ms=10, max_concurrent=limit)
    triggered = [effect for now in range(10, 10 * limit + 101, 10) for effect in rig.at(now)]
    assert triggered == [trigger(n, PERIODIC) for n in range(1, limit + 1)]
    more = rig.complete(1)
    assert [e for e in more if isinstance(e, TriggerCheckpoint)] == [trigger(limit + 1, PERIODIC)]
    assert [e for now in range(rig.now, rig.now + 100, 10) for e in rig.at(now)] == []


def test_sc8_subsumption_frees_two_places() -> None:
    """sC8: completing 2 subsumes 1, and then exactly 3 and 4 are pending."""
    rig = Rig(interval_ms=10, max_concurrent=2)
    for now in (10, 20, 30):
        rig.at(now)
    rig.ack(1, A)
    for task in rig.tasks:
        rig.ack(2, task)
    effects = rig.stored(2)
    assert effects == [
        NotifyAbort(CheckpointId(1), Reason.CHECKPOINT_SUBSUMED, "by 2"),
        Discard((Snap(*A),)),
        Commit(CheckpointId(2)),
        trigger(3, PERIODIC),
    ]
    rig.at(40)
    assert rig.core.statistics().pending == (3, 4)


def test_sc9_nothing_without_running_tasks() -> None:
    """sC9: before the tasks run no periodic checkpoint starts and a manual one is refused."""
    core: CheckpointCoordinator[Snap] = CheckpointCoordinator(CheckpointSettings(interval_ms=10))
    assert core.tick(1000) == []
    assert core.next_wakeup() is None
    assert core.request(MANUAL, 1000) == [RequestDeclined(MANUAL, Reason.NOT_ALL_REQUIRED_TASKS_RUNNING)]
    core.start(AttemptId(1), [A], 1000)
    assert core.tick(1010) == [trigger(1, PERIODIC)]


def test_sc13_minimum_pause() -> None:
    """sC13: the next periodic checkpoint waits for the pause after the last completion."""
    rig = Rig(interval_ms=12, min_pause_ms=50)
    assert rig.at(49) == []
    assert rig.at(50) == [trigger(1, PERIODIC)]
    rig.at(130)
    assert not any(isinstance(e, TriggerCheckpoint) for e in rig.complete(1))
    assert rig.core.next_wakeup() == 180
    assert rig.at(179) == []
    assert rig.at(180) == [trigger(2, PERIODIC)]


def test_sc13_queued_request_after_pause() -> None:
    """sC13: of two periodic requests the second waits until the pause has passed."""
    rig = Rig(interval_ms=1000, min_pause_ms=1000)
    rig.at(1000)
    rig.ask(PERIODIC)
    rig.complete(1)
    assert rig.at(1500) == []
    assert rig.at(2000) == [trigger(2, PERIODIC)]


def test_sc15_periodic_ids_grow_across_suspension() -> None:
    """sC15: ticks give growing ids; a suspended coordinator gives none, a restarted one goes on."""
    rig = Rig(interval_ms=10)
    seen: list[int] = []
    for attempt in (1, 2):
        for _ in range(5):
            due = rig.core.next_wakeup()
            assert due is not None
            started = [e for e in rig.at(due) if isinstance(e, TriggerCheckpoint)]
            seen += [e.checkpoint for e in started]
            for task in rig.tasks:
                rig.ack(started[0].checkpoint, task, attempt)
            rig.stored(started[0].checkpoint)
            rig.committed(started[0].checkpoint)
        rig.core.suspend()
        assert rig.at(rig.now + 1000) == []
        rig.core.start(AttemptId(attempt + 1), rig.tasks, rig.now)
    assert seen == list(range(1, 11))


def test_sc15_switched_off_and_shut_down() -> None:
    """sC15: without an interval periodic requests are refused and manual ones work; shutdown refuses all."""
    rig = Rig()
    assert rig.ask(PERIODIC) == [RequestDeclined(PERIODIC, Reason.PERIODIC_SCHEDULER_SHUTDOWN)]
    assert rig.ask(MANUAL) == [trigger(1)]
    aborted = rig.core.shutdown()
    assert aborted == [NotifyAbort(CheckpointId(1), Reason.CHECKPOINT_COORDINATOR_SHUTDOWN)]
    assert rig.ask(MANUAL) == [RequestDeclined(MANUAL, Reason.CHECKPOINT_COORDINATOR_SHUTDOWN)]
    with pytest.raises(InternalError, match="cannot take start while shut down"):
        rig.core.start(AttemptId(2), [A], 0)


def test_acks_of_strangers_are_unknown() -> None:
    """F19: a task or attempt that takes no part is UNKNOWN and its files are discarded."""
    rig = Rig()
    rig.ask()
    assert rig.ack_result(1, C) == (AckResult.UNKNOWN, [Discard((Snap(*C),))])
    assert rig.ack_result(1, A, attempt=7) == (AckResult.UNKNOWN, [Discard((Snap(*A, 7),))])
    told = Unexpected(CheckpointId(99), A)
    assert rig.ack_result(99, A) == (AckResult.DISCARDED, [Discard((Snap(*A),)), told])


@pytest.mark.parametrize("unsure", [False, True])
def test_repeated_ack_never_discards_what_may_be_complete(unsure: bool) -> None:
    """A repeated acknowledgement of a storing, unsure or completed checkpoint leaves its files alone."""
    rig = Rig(tolerable_failures=1)
    rig.ask()
    rig.ack(1, A), rig.ack(1, B)
    assert rig.ack_result(1, B) == (AckResult.DUPLICATE, [])
    if unsure:
        rig.store_failed(1, maybe_published=True)
    else:
        rig.stored(1)
    assert rig.ack_result(1, B) == (AckResult.DUPLICATE, [])


@pytest.mark.parametrize("unsure", [False, True])
def test_store_failure_discards_only_when_certain(unsure: bool) -> None:
    """A failed store aborts and counts; files go only when the log certainly lacks the entry."""
    rig = Rig()
    rig.ask()
    rig.ack(1, A), rig.ack(1, B)
    reason = Reason.FINALIZE_CHECKPOINT_FAILURE
    discard: list[Effect[Snap]] = [] if unsure else [Discard((Snap(*A), Snap(*B)))]
    assert rig.store_failed(1, unsure) == [
        NotifyAbort(CheckpointId(1), reason, "disk full"),
        *discard,
        FailJob(CheckpointId(1), reason, "disk full"),
    ]


def test_next_is_finalized_only_after_the_commit() -> None:
    """Checkpoint 2 does not reach the log before 1 is committed: recovery commits the latest only."""
    rig = Rig(max_concurrent=2)
    rig.ask(), rig.ask()
    rig.ack(1, A), rig.ack(1, B)
    assert rig.ack(2, A) == rig.ack(2, B) == []
    assert rig.stored(1) == [Commit(CheckpointId(1))]
    assert rig.committed(1) == [NotifyComplete(CheckpointId(1), MANUAL), finalize(2, A, B)]


def test_older_full_checkpoint_gets_its_turn_when_the_newer_fails() -> None:
    """A checkpoint that became full behind a newer one is finalized when storing that one fails."""
    rig = Rig(max_concurrent=2, tolerable_failures=5)
    rig.ask(), rig.ask()
    rig.ack(2, A), rig.ack(2, B)
    assert rig.ack(1, A) == rig.ack(1, B) == []
    assert finalize(1, A, B) in rig.store_failed(2, maybe_published=False)


def test_suspend_aborts_pending_and_keeps_what_is_being_stored() -> None:
    """Suspension aborts what collects; a store under way ends as completed, silently, before a restart."""
    rig = Rig(max_concurrent=2)
    rig.ask(), rig.ask()
    rig.ack(1, A), rig.ack(1, B), rig.ack(2, A)
    suspended = rig.done(rig.core.suspend(Reason.TASK_FAILURE, "worker 1 died"))
    assert suspended == [
        NotifyAbort(CheckpointId(2), Reason.TASK_FAILURE, "worker 1 died"),
        Discard((Snap(*A),)),
    ]
    with pytest.raises(InternalError, match="while the store of checkpoint 1 is unresolved"):
        rig.core.start(AttemptId(2), [A], 0)
    assert rig.stored(1) == []
    assert rig.core.latest == 1
    rig.core.start(AttemptId(2), [A], 0)
    assert rig.committed(1) == []


def test_store_failure_after_suspend_discards_quietly() -> None:
    """A store that fails during suspension discards its files and says nothing to tasks."""
    rig = Rig()
    rig.ask()
    rig.ack(1, A), rig.ack(1, B)
    rig.core.suspend()
    assert rig.store_failed(1, maybe_published=False) == [Discard((Snap(*A), Snap(*B)))]


def test_suspend_while_committing_leaves_the_commit_to_recovery() -> None:
    """A late word of a commit from before the suspension changes nothing."""
    rig = Rig()
    rig.ask()
    rig.ack(1, A), rig.ack(1, B), rig.stored(1)
    assert rig.core.suspend() == []
    assert rig.committed(1) == []
    rig.core.start(AttemptId(2), rig.tasks, 0)
    assert rig.committed(1) == []


def test_retired_only_after_the_newer_commit() -> None:
    """The older checkpoint stays until the newer is committed, and across a suspension in between."""
    rig = Rig()
    rig.ask()
    rig.complete(1)
    rig.ask()
    rig.ack(2, A), rig.ack(2, B)
    assert rig.stored(2) == [Commit(CheckpointId(2))]
    rig.core.suspend()
    assert rig.core.completed == (1, 2)
    rig.core.start(AttemptId(2), [A], 0)
    rig.ask()
    rig.ack(3, A, attempt=2), rig.stored(3)
    assert rig.committed(3)[1:] == [Retire((CheckpointId(1), CheckpointId(2)))]


def test_final_goes_first_and_ends_periodic_ones() -> None:
    """The final checkpoint ignores the pause, waits for its turn, and no periodic one follows."""
    rig = Rig(interval_ms=100, min_pause_ms=100)
    rig.at(100)
    assert rig.ask(FINAL) == rig.ask(FINAL) == []
    assert rig.ask(PERIODIC) == [RequestDeclined(PERIODIC, Reason.PERIODIC_SCHEDULER_SHUTDOWN)]
    refused = Reason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM
    assert rig.ask(MANUAL) == [RequestDeclined(MANUAL, refused)]
    rig.ack(1, A), rig.ack(1, B)
    assert rig.stored(1) == [Commit(CheckpointId(1)), trigger(2, FINAL)]
    rig.committed(1)
    rig.ack(2, A)
    assert rig.ack(2, B) == [finalize(2, A, B, kind=FINAL)]
    assert rig.stored(2) == [Commit(CheckpointId(2))]
    assert rig.committed(2)[0] == NotifyComplete(CheckpointId(2), FINAL)
    assert rig.at(100_000) == []
    assert rig.core.next_wakeup() is None


def test_final_displaces_waiting_manual_requests() -> None:
    """Manual requests that still wait when the input ends are declined."""
    rig = Rig()
    rig.ask(), rig.ask()
    refused = Reason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM
    assert rig.ask(FINAL) == [RequestDeclined(MANUAL, refused)]


def test_failed_final_is_tried_again_after_a_pause() -> None:
    """A declined final checkpoint is repeated under a new id, not at once."""
    rig = Rig(final_retry_ms=500)
    assert rig.ask(FINAL) == [trigger(1, FINAL)]
    aborted = rig.decline(1, A, Reason.CHECKPOINT_DECLINED_TASK_NOT_READY)
    assert [type(e) for e in aborted] == [NotifyAbort]
    assert rig.core.next_wakeup() == 500
    assert rig.at(499) == []
    assert rig.at(500) == [trigger(2, FINAL)]


def test_final_is_forgotten_by_suspension() -> None:
    """After a restart the input goes on: periodic checkpoints are back."""
    rig = Rig(interval_ms=100)
    rig.ask(FINAL)
    rig.core.suspend()
    rig.core.start(AttemptId(2), rig.tasks, 0)
    assert rig.at(100) == [trigger(2, PERIODIC, attempt=2)]


def test_failed_trigger_aborts_without_counting() -> None:
    """A trigger that the shell could not carry out aborts its checkpoint and is not counted."""
    rig = Rig()
    rig.ask()
    aborted = rig.core.abort(CheckpointId(1), Reason.TRIGGER_CHECKPOINT_FAILURE, 0, "enumerator raised")
    assert aborted == [NotifyAbort(CheckpointId(1), Reason.TRIGGER_CHECKPOINT_FAILURE, "enumerator raised")]
    assert rig.core.abort(CheckpointId(1), Reason.TRIGGER_CHECKPOINT_FAILURE, 0) == []


def test_job_fails_beyond_the_tolerable_failures() -> None:
    """Counted failures beyond the limit fail the job; a success in between begins anew."""
    rig = Rig(tolerable_failures=1, timeout_ms=10, max_concurrent=1)
    rig.ask()
    assert not any(isinstance(e, FailJob) for e in rig.at(10))
    rig.ask()
    rig.complete(2)
    rig.ask()
    assert not any(isinstance(e, FailJob) for e in rig.at(20))
    rig.ask()
    assert isinstance(rig.at(30)[-1], FailJob)


def test_nothing_follows_a_failure_of_the_job() -> None:
    """After FailJob nothing starts, fails the job again or is stored, until the shell suspends."""
    rig = Rig(interval_ms=10, timeout_ms=30, max_concurrent=2)
    rig.at(10), rig.at(20)
    effects = rig.at(50)
    assert [type(e) for e in effects] == [NotifyAbort, FailJob, NotifyAbort]
    assert rig.at(100) == []
    assert rig.core.next_wakeup() is None
    assert rig.ask() == [RequestDeclined(MANUAL, Reason.NOT_ALL_REQUIRED_TASKS_RUNNING)]
    assert rig.core.statistics().mode == "failing"
    rig.core.suspend()
    rig.core.start(AttemptId(2), [A], 100)
    assert rig.at(110) == [trigger(3, PERIODIC, attempt=2)]


def test_what_is_stored_while_the_job_fails_is_left_to_recovery() -> None:
    """It is complete, but nobody commits it in this attempt."""
    rig = Rig(max_concurrent=2)
    rig.ask(), rig.ask()
    rig.fill(1)
    assert isinstance(rig.decline(2, A)[-1], FailJob)
    assert rig.stored(1) == []
    rig.core.suspend()
    assert rig.core.completed == (1,)


def test_too_many_manual_requests() -> None:
    """The queue of manual requests is bounded, and suspension declines them all."""
    rig = Rig()
    rig.ask()
    for _ in range(QUEUED_MAX):
        assert rig.core.request(MANUAL, 0) == []
    assert rig.ask() == [RequestDeclined(MANUAL, Reason.TOO_MANY_CHECKPOINT_REQUESTS)]
    declined = [e for e in rig.core.suspend() if isinstance(e, RequestDeclined)]
    assert len(declined) == QUEUED_MAX


def test_first_delay_is_drawn_between_pause_and_interval() -> None:
    """The first periodic checkpoint of an attempt comes at a drawn time."""
    bounds: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        bounds.append((low, high))
        return 30.0

    core: CheckpointCoordinator[Snap] = CheckpointCoordinator(
        CheckpointSettings(interval_ms=100, min_pause_ms=20), uniform=uniform
    )
    core.start(AttemptId(1), [A], 1000)
    assert core.next_wakeup() == 1030
    assert bounds == [(20.0, 100.0)]


def test_wrong_words_from_the_shell_are_bugs() -> None:
    """Reports about checkpoints that are not where the shell thinks raise with the story."""
    rig = Rig()
    rig.ask()
    with pytest.raises(InternalError, match="got a store of 1, not being stored"):
        rig.stored(1)
    with pytest.raises(InternalError, match="got a commit of 1, not stored"):
        rig.committed(1)
    with pytest.raises(InternalError, match="cannot take start while running"):
        rig.core.start(AttemptId(2), [A], 0)
    rig.core.suspend()
    with pytest.raises(InternalError, match="cannot start attempt 1 after 1"):
        rig.core.start(AttemptId(1), [A], 0)
    with pytest.raises(InternalError, match="without tasks"):
        rig.core.start(AttemptId(2), [], 0)


def test_ids_go_on_after_those_in_the_log() -> None:
    """A new job master continues above every completed id, and retires what it found."""
    core: CheckpointCoordinator[Snap] = CheckpointCoordinator(
        CheckpointSettings(), CheckpointId(8), completed=[CheckpointId(5), CheckpointId(7)]
    )
    core.start(AttemptId(1), [A], 0)
    assert core.request(MANUAL, 0) == [trigger(8)]
    core.acknowledge(AttemptId(1), CheckpointId(8), Snap(*A), 0)
    core.stored(CheckpointId(8), 0)
    assert core.committed(CheckpointId(8), 0)[1] == Retire((CheckpointId(5), CheckpointId(7)))
    with pytest.raises(InternalError, match="ids must grow"):
        CheckpointCoordinator[Snap](CheckpointSettings(), CheckpointId(7), completed=[CheckpointId(7)])


@pytest.mark.parametrize("name", ["interval_ms", "max_concurrent", "timeout_ms", "num_retained"])
def test_settings_out_of_range_are_refused(name: str) -> None:
    """Zero where at least one is needed is refused by name."""
    with pytest.raises(ConfigError, match=f"{name} is 0; expected at least 1"):
        CheckpointSettings(**{name: 0})


def test_statistics() -> None:
    """Figures follow the events."""
    rig = Rig(max_concurrent=2, tolerable_failures=1)
    rig.ask(), rig.ask()
    rig.complete(1)
    rig.decline(2, A)
    figures = rig.core.statistics()
    assert (figures.triggered, figures.completed, figures.failed, figures.latest) == (2, 1, 1, 1)
    assert figures.last_failure == "checkpoint 2: a task declined the checkpoint (task (0, 0))"
