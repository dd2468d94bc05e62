"""What stands between a request and its trigger: preconditions, queue, hooks, cleaning."""

from __future__ import annotations

import pytest
from coordinator_rig import (
    FINAL,
    MANUAL,
    PERIODIC,
    SAVEPOINT,
    A,
    B,
    Rig,
    Snap,
    finalize,
    kinds,
    trigger,
)

from headgate.common.errors import InternalError
from headgate.common.ids import AttemptId, CheckpointId
from headgate.core.checkpoint.coordinator import CheckpointCoordinator
from headgate.core.checkpoint.effects import (
    Discard,
    NotifyAbort,
    RequestDeclined,
    RequestFailed,
    RunHooks,
    TriggerCheckpoint,
    Unexpected,
)
from headgate.core.checkpoint.failures import CheckpointFailureReason as Reason
from headgate.core.checkpoint.ledger import REMEMBERED_MAX
from headgate.core.checkpoint.pending import AckResult
from headgate.core.checkpoint.queue import Request, RequestQueue
from headgate.core.checkpoint.requests import CheckpointSettings, Load, Requests

ONE, TWO = CheckpointId(1), CheckpointId(2)
HOOKS = ("enumerators", "user")


def run_hooks(checkpoint: int, ticket: int | None = None) -> RunHooks:
    """The effect that precedes the trigger."""
    return RunHooks(CheckpointId(checkpoint), AttemptId(1), MANUAL, HOOKS, ticket)


# -- preconditions -------------------------------------------------------------------------------


def test_preconditions_come_in_their_order() -> None:
    """F5 to F10: of several that do not hold, the first is the one that is told."""
    core: CheckpointCoordinator[Snap] = CheckpointCoordinator(CheckpointSettings(interval_ms=10))
    stopped = Reason.PERIODIC_SCHEDULER_SHUTDOWN
    not_running = Reason.NOT_ALL_REQUIRED_TASKS_RUNNING
    assert core.request(PERIODIC, 0) == [RequestDeclined(PERIODIC, stopped)]
    assert core.request(MANUAL, 0) == [RequestDeclined(MANUAL, not_running)]
    core.shutdown()
    gone = Reason.CHECKPOINT_COORDINATOR_SHUTDOWN
    for kind in (PERIODIC, MANUAL):
        assert core.request(kind, 0) == [RequestDeclined(kind, gone)]


@pytest.mark.parametrize(
    ("load", "periodic", "savepoint"),
    [
        (Load(preparing=True, pending=9, last_completion_ms=95), "ALREADY_QUEUED", "ALREADY_QUEUED"),
        (Load(cleaning=2, pending=9), "TOO_MANY_CONCURRENT_CHECKPOINTS", "TOO_MANY_CONCURRENT_CHECKPOINTS"),
        (Load(pending=1, last_completion_ms=95), "TOO_MANY_CONCURRENT_CHECKPOINTS", None),
        (Load(last_completion_ms=95), "MINIMUM_TIME_BETWEEN_CHECKPOINTS", None),
        (Load(cleaning=1, last_completion_ms=10), None, None),
    ],
)
def test_waiting_requests_are_held_in_order(load: Load, periodic: str | None, savepoint: str | None) -> None:
    """F7 to F9: what is queued waits for the first of these that holds it; a savepoint for fewer."""
    settings = CheckpointSettings(interval_ms=100, min_pause_ms=50)
    for kind, expected in ((PERIODIC, periodic), (SAVEPOINT, savepoint)):
        requests = Requests(settings, max)
        requests.open(0)
        assert requests.submit(Request(kind), 100) == (None, [])
        held = requests.held_by(load, 100)
        assert (None if held is None else held.name) == expected
        assert (requests.choose(load, 100) is None) == (expected is not None)


def test_f7_one_periodic_request_waits() -> None:
    """A second periodic request is refused while one waits."""
    rig = Rig(interval_ms=100)
    rig.at(100)
    assert rig.ask(PERIODIC) == []
    assert rig.ask(PERIODIC) == [RequestDeclined(PERIODIC, Reason.ALREADY_QUEUED)]


# -- queue ---------------------------------------------------------------------------------------


def test_the_queue_is_ordered_savepoint_forced_manual_periodic() -> None:
    """Whatever came first: savepoints, then the rest by kind, each kind oldest first."""
    rig = Rig(interval_ms=100)
    rig.core.cleaning_started(), rig.core.cleaning_started()
    rig.at(100)
    for kind, ticket in ((MANUAL, 1), (SAVEPOINT, 2), (MANUAL, 3), (SAVEPOINT, 4)):
        assert rig.ask(kind, ticket) == []
    assert rig.core.statistics(rig.now).waiting == 5
    order = [e.ticket for e in rig.core.cleaning_ended(100) if isinstance(e, TriggerCheckpoint)]
    for checkpoint in range(1, 6):
        effects = rig.fill(checkpoint) + rig.stored(checkpoint)
        order += [e.ticket for e in effects if isinstance(e, TriggerCheckpoint)]
        if rig.core.latest == checkpoint:
            rig.committed(checkpoint)
    assert order == [2, 4, 1, 3, None]


def test_a_full_queue_drops_its_lowest() -> None:
    """The youngest manual request gives way to a savepoint; one that is the lowest itself is refused."""
    queue = RequestQueue(capacity=2)
    manual = [Request(MANUAL, n) for n in range(3)]
    savepoints = [Request(SAVEPOINT, n) for n in range(10, 14)]
    assert [queue.add(manual[0]), queue.add(manual[1])] == [None, None]
    assert queue.add(manual[2]) is manual[2]
    assert queue.add(savepoints[0]) is manual[1]
    assert queue.add(savepoints[1]) is manual[0]
    assert queue.add(savepoints[2]) is savepoints[2]
    assert queue.drop_all() == savepoints[:2]


def test_a_displaced_asker_is_told() -> None:
    """1001 requests while nothing may start: the youngest manual one makes room for a savepoint."""
    rig = Rig()
    rig.core.cleaning_started(), rig.core.cleaning_started()
    for ticket in range(1000):
        assert rig.core.request(MANUAL, 0, ticket) == []
    full = Reason.TOO_MANY_CHECKPOINT_REQUESTS
    assert rig.ask(MANUAL, 1000) == [RequestFailed(1000, MANUAL, full)]
    assert rig.ask(SAVEPOINT, 1001) == [RequestFailed(999, MANUAL, full)]


def test_sc16_requests_wait_while_one_is_set_up() -> None:
    """sC16: a second request during the set-up of the first waits; later both are triggered, in order."""
    rig = Rig(hooks=HOOKS, max_concurrent=2)
    assert rig.ask(ticket=1) == [run_hooks(1, ticket=1)]
    assert rig.ask(ticket=2) == []
    assert rig.core.statistics(rig.now).held_by == "ALREADY_QUEUED"
    assert rig.hooks_done(1) == [trigger(1, ticket=1), run_hooks(2, ticket=2)]
    assert rig.hooks_done(2) == [trigger(2, ticket=2)]


def test_sc16_the_first_of_three_cannot_be_set_up() -> None:
    """sC16: the first asker is told of the failure, and the two that waited succeed."""
    rig = Rig(hooks=HOOKS)
    for ticket in (1, 2, 3):
        rig.ask(ticket=ticket)
    failure = Reason.TRIGGER_CHECKPOINT_FAILURE
    assert rig.abort(1, failure, "no id") == [
        NotifyAbort(ONE, failure, "no id"),
        RequestFailed(1, MANUAL, failure, "no id", ONE),
        run_hooks(2, ticket=2),
    ]
    for checkpoint in (2, 3):
        assert rig.hooks_done(checkpoint) == [trigger(checkpoint, ticket=checkpoint)]
        assert "RequestFulfilled" in kinds(rig.complete(checkpoint))


# -- hooks ---------------------------------------------------------------------------------------


def test_sc17_a_hook_that_hangs() -> None:
    """sC17: it expires, is remembered as expired, and when the hook ends no task is triggered."""
    rig = Rig(hooks=HOOKS, timeout_ms=100, tolerable_failures=1)
    assert rig.ask() == [run_hooks(1)]
    assert rig.hooks_done(1, "enumerators") == []
    assert rig.core.next_wakeup() == 100
    detail = "no acknowledgement from hook 'user'"
    assert rig.at(100) == [NotifyAbort(ONE, Reason.CHECKPOINT_EXPIRED, detail)]
    assert rig.core.statistics().failed == 1
    assert rig.hooks_done(1, "user") == rig.hooks_done(1) == []
    assert rig.at(1000) == []


def test_hooks_come_before_tasks() -> None:
    """1.K: nothing that a task says counts before the last hook is through, in whatever order they end."""
    rig = Rig(hooks=HOOKS)
    rig.ask()
    assert rig.ack_result(1, A) == (AckResult.UNKNOWN, [Discard((Snap(*A),))])
    assert rig.decline(1, A) == []
    assert rig.hooks_done(1, "user") == rig.hooks_done(1, "user") == rig.hooks_done(1, "stranger") == []
    assert rig.hooks_done(1, "enumerators") == [trigger(1)]
    assert rig.hooks_done(1) == []
    assert rig.fill(1) == [finalize(1, A, B)]


def test_suspension_ends_the_set_up() -> None:
    """A hook that ends after the attempt triggers nothing."""
    rig = Rig(hooks=HOOKS)
    rig.ask(ticket=1)
    assert kinds(rig.core.suspend()) == ["NotifyAbort", "RequestFailed"]
    assert rig.hooks_done(1) == []


# -- cleaning ------------------------------------------------------------------------------------


def test_nothing_starts_while_too_much_is_being_deleted() -> None:
    """More discards under way than checkpoints may be: every request waits until one is through."""
    rig = Rig()
    rig.core.cleaning_started(), rig.core.cleaning_started()
    assert rig.ask() == rig.ask(SAVEPOINT) == []
    assert rig.core.statistics(rig.now).held_by == "TOO_MANY_CONCURRENT_CHECKPOINTS"
    assert rig.core.cleaning_ended(0) == [trigger(1, SAVEPOINT)]
    rig.core.cleaning_ended(0)
    with pytest.raises(InternalError, match="end of a cleaning that never began"):
        rig.core.cleaning_ended(0)


def test_a_final_checkpoint_held_by_cleaning_does_not_wake_the_shell() -> None:
    """What waits for somebody's word is not a reason to look at the clock."""
    rig = Rig()
    rig.core.cleaning_started(), rig.core.cleaning_started()
    assert rig.ask(FINAL) == []
    assert rig.core.next_wakeup() is None
    assert rig.core.cleaning_ended(0) == [trigger(1, FINAL)]


def test_cleaning_ends_quietly_while_suspended() -> None:
    """Files are deleted between two attempts as well."""
    rig = Rig()
    rig.core.cleaning_started()
    rig.core.suspend()
    assert rig.core.cleaning_ended(0) == []


# -- late words ----------------------------------------------------------------------------------


def test_f22_late_words_about_the_last_sixteen_are_expected() -> None:
    """Both are discarded; only the one about an id that nobody remembers is told."""
    rig = Rig(tolerable_failures=100)
    for number in range(1, REMEMBERED_MAX + 2):
        rig.ask()
        rig.decline(number, A)
    late = Discard((Snap(*A),))
    assert rig.ack_result(2, A) == (AckResult.DISCARDED, [late])
    assert rig.ack_result(1, A) == (AckResult.DISCARDED, [late, Unexpected(ONE, A)])
    assert rig.decline(2, B) == []
    assert rig.decline(1, B) == [Unexpected(ONE, B)]


def test_f22_words_about_a_complete_checkpoint_are_expected() -> None:
    """However long ago it completed: while it is retained its files are in use."""
    rig = Rig(tolerable_failures=100)
    rig.ask()
    rig.complete(1)
    for number in range(2, REMEMBERED_MAX + 4):
        rig.ask()
        rig.decline(number, A)
    assert rig.ack_result(1, A) == (AckResult.DUPLICATE, [])
    assert rig.decline(1, A) == []
