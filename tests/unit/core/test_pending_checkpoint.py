"""One checkpoint on its way: what completes it, what ends it, what it refuses."""

from __future__ import annotations

import pytest
from coordinator_rig import FINAL, MANUAL, PERIODIC, SAVEPOINT, STOP, A, B, C, Rig, Snap

from headgate.common.errors import InternalError
from headgate.common.ids import AttemptId, CheckpointId
from headgate.core.checkpoint.effects import RequestKind
from headgate.core.checkpoint.failures import CheckpointFailureReason as Reason
from headgate.core.checkpoint.pending import AckResult, PendingCheckpoint, Phase, Step
from headgate.core.checkpoint.queue import Request


def pending(kind: RequestKind = MANUAL, **more: tuple[object, ...]) -> PendingCheckpoint[Snap]:
    """A checkpoint of two tasks."""
    return PendingCheckpoint(CheckpointId(1), AttemptId(1), Request(kind), (A, B), 100, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "subsumable"),
    [(PERIODIC, True), (MANUAL, True), (FINAL, True), (SAVEPOINT, False), (STOP, False)],
)
def test_sc21_savepoints_are_not_subsumed(kind: RequestKind, subsumable: bool) -> None:
    """sC21: a checkpoint gives way to a newer one; to subsume a savepoint is a bug."""
    one = pending(kind)
    assert one.can_be_subsumed is subsumable
    if subsumable:
        one.abort(Reason.CHECKPOINT_SUBSUMED)
        assert one.phase is Phase.ABORTED
    else:
        with pytest.raises(InternalError, match="is a savepoint, which nothing subsumes"):
            one.abort(Reason.CHECKPOINT_SUBSUMED)
        assert one.phase is Phase.COLLECTING
        one.abort(Reason.CHECKPOINT_EXPIRED)
        assert one.phase is Phase.ABORTED


def test_sc21_the_shell_cannot_have_a_savepoint_subsumed() -> None:
    """sC21: the same through the coordinator."""
    rig = Rig()
    rig.ask(SAVEPOINT)
    with pytest.raises(InternalError, match="nothing subsumes"):
        rig.abort(1, Reason.CHECKPOINT_SUBSUMED)


def test_sc21_finalized_only_with_all_acknowledgements() -> None:
    """sC21, F28: missing ones are named."""
    one = pending()
    one.acknowledge(Snap(*A))
    with pytest.raises(InternalError, match=r"cannot be finalized: \(0, 1\) are missing"):
        one.move(Step.FINALIZE)
    one.acknowledge(Snap(*B))
    one.move(Step.FINALIZE)
    assert one.phase is Phase.STORING


@pytest.mark.parametrize("reason", list(Reason))
def test_sc21_every_abort_gives_the_collected_snapshots_back(reason: Reason) -> None:
    """sC21: whatever the reason, what was acknowledged is discarded, and an abort comes once."""
    rig = Rig(tolerable_failures=9)
    rig.ask()
    rig.ack(1, B)
    effects = rig.abort(1, reason)
    discarded = [snap for e in effects for snap in getattr(e, "snapshots", ())]
    assert discarded == [Snap(*B)]
    assert rig.abort(1, reason) == []


def test_sc21_an_aborted_one_takes_nothing() -> None:
    """sC21: after the abort an acknowledgement is not collected, and a second abort is a bug."""
    one = pending()
    one.abort(Reason.CHECKPOINT_DECLINED)
    with pytest.raises(InternalError, match="cannot take abort while aborted"):
        one.abort(Reason.CHECKPOINT_DECLINED)


def test_acknowledgements_by_task() -> None:
    """F17 to F19: first, repeated and strange ones; the snapshots come out in the order of the tasks."""
    one = pending()
    assert one.acknowledge(Snap(*B)) is AckResult.SUCCESS
    assert one.acknowledge(Snap(*B)) is AckResult.DUPLICATE
    assert one.acknowledge(Snap(*C)) is AckResult.UNKNOWN
    assert one.acknowledge(Snap(*A)) is AckResult.SUCCESS
    assert one.phase is Phase.FULL
    assert one.snapshots == (Snap(*A), Snap(*B))
