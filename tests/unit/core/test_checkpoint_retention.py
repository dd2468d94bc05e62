"""Which completed checkpoints stay, and which files of those that go may be deleted."""

from __future__ import annotations

import pytest
from coordinator_rig import MANUAL, STOP, Rig, kinds
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.errors import ConfigError, InternalError
from headgate.common.ids import CheckpointId
from headgate.core.checkpoint import retention as r
from headgate.core.checkpoint.effects import DiscardCompleted
from headgate.core.checkpoint.retention import Retention
from headgate.core.checkpoint.shared_state import SharedStateRegistry
from headgate.core.execution import JobEnd

FINISHED, CANCELLED, FAILED, SUSPENDED = JobEnd


def ids(*numbers: int) -> tuple[CheckpointId, ...]:
    """Checkpoint ids."""
    return tuple(map(CheckpointId, numbers))


# -- presets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preset", "discards"),
    [
        (r.NEVER_RETAIN, {FINISHED, CANCELLED, FAILED, SUSPENDED}),
        (r.RETAIN_ON_FAILURE, {FINISHED, CANCELLED, SUSPENDED}),
        (r.RETAIN_ON_CANCELLATION, {FINISHED}),
        (r.RETAIN_ALWAYS, set()),
    ],
)
def test_f34_presets(preset: r.Discards, discards: set[JobEnd]) -> None:
    """F32, F34, sR5: each preset names the ends of a job at which the system deletes."""
    assert preset == discards


# -- retention -----------------------------------------------------------------------------------


def test_f36_at_least_one_is_retained() -> None:
    """F36: nothing to keep is refused, in the store as in the settings."""
    with pytest.raises(ConfigError, match="num-retained is 0; expected at least 1"):
        Retention(0)


def test_sr1_each_newer_one_displaces_the_oldest() -> None:
    """sR1: with one to keep, adding 0 to 3 gives up each predecessor, and the latest is the greatest."""
    kept = Retention(1)
    assert kept.latest is None
    gone = []
    for number in range(4):
        kept.add(CheckpointId(number))
        gone.append(kept.take_surplus())
    assert gone == [(), (0,), (1,), (2,)]
    assert (kept.latest, kept.completed) == (3, (3,))


@pytest.mark.parametrize(
    ("end", "preset", "gone"),
    [
        (FINISHED, r.RETAIN_ON_CANCELLATION, (1, 2)),
        (FINISHED, r.RETAIN_ALWAYS, ()),
        (CANCELLED, r.RETAIN_ON_CANCELLATION, ()),
        (CANCELLED, r.RETAIN_ON_FAILURE, (1, 2)),
        (FAILED, r.RETAIN_ON_FAILURE, ()),
        (FAILED, r.NEVER_RETAIN, (1, 2)),
        (SUSPENDED, r.NEVER_RETAIN, ()),
    ],
)
def test_f37_the_end_of_the_job(end: JobEnd, preset: r.Discards, gone: tuple[int, ...]) -> None:
    """F37: a job that ended discards as its settings say, one that is handed on keeps everything."""
    kept = Retention(5, ids(1, 2))
    assert kept.end(end, preset) == gone
    assert kept.completed == tuple(n for n in (1, 2) if n not in gone)


def test_f37_savepoints_survive_every_end() -> None:
    """What the job was stopped with is the user's, and stays with its log entry."""
    kept = Retention(5, ids(1, 2, 3), unowned=ids(3))
    assert kept.end(FINISHED, r.NEVER_RETAIN) == (1, 2)
    assert kept.completed == (3,)


def test_f37_the_coordinator_tells_what_goes() -> None:
    """Ending aborts what is pending, discards what the settings say, and can be repeated."""
    rig = Rig(retention=r.RETAIN_ON_FAILURE)
    rig.ask()
    rig.complete(1)
    rig.ask(ticket=1)
    ended = rig.core.end(CANCELLED)
    assert kinds(ended) == ["NotifyAbort", "RequestFailed", "DiscardCompleted"]
    assert ended[-1] == DiscardCompleted(ids(1))
    assert rig.core.end(CANCELLED) == []


def test_f37_after_a_stop_only_the_savepoint_is_left() -> None:
    """A job that was stopped has finished: its checkpoints go, its savepoint does not."""
    rig = Rig(retention=r.RETAIN_ON_CANCELLATION)
    rig.ask(MANUAL)
    rig.complete(1)
    rig.ask(STOP)
    rig.complete(2)
    assert rig.core.end(FINISHED) == [DiscardCompleted(ids(1))]
    assert rig.core.completed == (2,)


def test_a_job_does_not_end_while_something_is_being_stored() -> None:
    """It might complete after everything was discarded."""
    rig = Rig()
    rig.ask()
    rig.fill(1)
    rig.core.suspend()
    with pytest.raises(InternalError, match="cannot end as failed while the store of checkpoint 1"):
        rig.core.end(FAILED)
    rig.stored(1)
    assert rig.core.end(FAILED) == []


def test_savepoints_take_no_place() -> None:
    """Of two to keep, two checkpoints stay; a savepoint between them too, one before them does not."""
    kept = Retention(2, ids(1, 2, 3, 4), unowned=ids(1, 3))
    assert kept.take_surplus() == (1,)
    assert kept.completed == (2, 3, 4)
    kept.add(CheckpointId(5))
    assert kept.take_surplus() == (2, 3)


def test_what_is_being_read_stays_with_all_that_follow() -> None:
    """Tasks still read records in flight of 2: it goes when they are through."""
    kept = Retention(1, ids(1, 2, 3, 4))
    kept.hold(CheckpointId(2))
    assert kept.take_surplus() == (1,)
    kept.hold(None)
    assert kept.take_surplus() == (2, 3)


# -- shared files --------------------------------------------------------------------------------


def test_sr5_files_of_one_checkpoint_go_with_it() -> None:
    """sR5: two files used by checkpoint 0 only; below 1 both are dropped."""
    registry = SharedStateRegistry()
    registry.register(CheckpointId(0), ["one", "two"])
    assert registry.unregister_below(CheckpointId(0)) == ()
    assert registry.unregister_below(CheckpointId(1)) == ("one", "two")
    assert registry.unreferenced(["one", "two"]) == ("one", "two")


def test_an_aborted_checkpoint_leaves_only_its_own_files() -> None:
    """What a completed one refers to is not among what may go."""
    registry = SharedStateRegistry()
    registry.register(CheckpointId(1), ["shared"])
    assert registry.unreferenced(["shared", "new", "new"]) == ("new",)


@given(
    st.lists(st.frozensets(st.sampled_from("abcdef")), min_size=1, max_size=8),
    st.integers(1, 3),
)
def test_sr5_no_referenced_file_goes_and_no_other_stays(used: list[frozenset[str]], keep: int) -> None:
    """sR5: against the plain rule: after each retirement exactly the files of the retained ones are left."""
    registry, kept = SharedStateRegistry(), Retention(keep)
    left: set[str] = set()
    for number, files in enumerate(used, start=1):
        registry.register(CheckpointId(number), sorted(files))
        left |= files
        kept.add(CheckpointId(number))
        kept.take_surplus()
        gone = registry.unregister_below(kept.completed[0])
        assert set(gone) <= left
        left -= set(gone)
        assert left == set().union(*(used[n - 1] for n in kept.completed))
