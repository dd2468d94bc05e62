"""Which checkpoints a subtask draws and acknowledges: the scenarios by id, and every order of events.

The scenarios sK* are rows of `reference/conformance.md`.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from headgate.common.errors import InternalError
from headgate.core.subtask_checkpoints import REMEMBERED_MAX, Abort, SubtaskCheckpoints, Verdict

NOTHING = Abort(cancel_running=False, notify_operators=False)
NOTICE = Abort(cancel_running=False, notify_operators=True)
STOP = Abort(cancel_running=True, notify_operators=True)


def taken(*ids: int) -> SubtaskCheckpoints:
    """A subtask whose asynchronous parts of `ids` run."""
    checkpoints = SubtaskCheckpoints()
    for checkpoint in ids:
        assert checkpoints.admit(checkpoint) is Verdict.TAKE
        checkpoints.taken(checkpoint)
    return checkpoints


def test_sk2_abort_during_the_asynchronous_part() -> None:
    """sK2, during: the running part is cancelled and nothing is remembered."""
    checkpoints = taken(1)
    assert checkpoints.running == {1}
    assert checkpoints.aborted(1) == STOP
    assert (checkpoints.running, checkpoints.remembered) == (set(), set())
    assert checkpoints.finished(1) is False, "its files are released, nobody hears of it"


def test_sk2_abort_after_the_asynchronous_part() -> None:
    """sK2, after: operators get the notice, nothing is remembered and nothing cancelled."""
    checkpoints = taken(1)
    assert checkpoints.finished(1) is True
    assert checkpoints.aborted(1) == NOTICE
    assert (checkpoints.running, checkpoints.remembered) == (set(), set())


def test_sk3_abort_before_the_checkpoint_began() -> None:
    """sK3: 1 is aborted before its barriers are there; it is cancelled downstream, and 2 is taken."""
    checkpoints = SubtaskCheckpoints()
    assert checkpoints.aborted(1) == NOTHING
    assert checkpoints.remembered == {1}
    assert checkpoints.admit(1) is Verdict.CANCEL
    assert (checkpoints.running, checkpoints.remembered) == (set(), set())
    assert checkpoints.admit(2) is Verdict.TAKE


def test_sk3_abort_between_the_two_parts_leaks_nothing() -> None:
    """sK3: what is aborted while it is being taken runs to its end unheard, and its files are released."""
    checkpoints = SubtaskCheckpoints()
    checkpoints.admit(1)
    assert checkpoints.aborted(1) == NOTICE
    checkpoints.taken(1)
    assert (checkpoints.running, checkpoints.remembered) == (set(), set())
    assert checkpoints.finished(1) is False


def test_sk3_abort_the_old_one_and_start_a_new_one() -> None:
    """sK3: 42 is aborted while 43 runs; 42 ends as given up, 43 is acknowledged."""
    checkpoints = taken(42, 43)
    assert checkpoints.aborted(42) == STOP
    assert checkpoints.finished(42) is False
    assert checkpoints.running == {43}
    assert checkpoints.finished(43) is True


def test_b8_only_newer_checkpoints_are_drawn() -> None:
    """B8: one that is not newer than the last is skipped, also when it was told aborted."""
    checkpoints = taken(5)
    assert checkpoints.aborted(4) == NOTICE
    assert checkpoints.remembered == set(), "4 can not come any more"
    assert [checkpoints.admit(n) for n in (4, 5, 6)] == [Verdict.SKIP, Verdict.SKIP, Verdict.TAKE]


def test_b8_being_newer_is_asked_before_being_aborted() -> None:
    """B8: ids that a newer checkpoint passed over are forgotten, later ones stay."""
    checkpoints = SubtaskCheckpoints()
    for checkpoint in (1, 2, 4):
        checkpoints.aborted(checkpoint)
    assert checkpoints.admit(3) is Verdict.TAKE
    assert checkpoints.remembered == {4}
    assert [checkpoints.admit(n) for n in (2, 4)] == [Verdict.SKIP, Verdict.CANCEL]


def test_b9_a_second_word_about_an_abort_changes_nothing() -> None:
    """B9: a newer barrier aborts first, and the job master says it again."""
    checkpoints = taken(1)
    assert [checkpoints.aborted(1), checkpoints.aborted(1)] == [STOP, NOTICE]
    assert checkpoints.finished(1) is False


def test_completion_ends_what_is_older() -> None:
    """Ids up to the completed one are neither remembered, nor running, nor taken any more."""
    checkpoints = taken(1, 2, 3)
    assert checkpoints.finished(2) is True
    checkpoints.aborted(4)
    checkpoints.complete(2)
    assert (checkpoints.running, checkpoints.remembered) == ({3}, {4})
    assert checkpoints.finished(1) is False
    checkpoints.complete(4)
    assert (checkpoints.running, checkpoints.remembered, checkpoints.last) == (set(), set(), 4)
    assert checkpoints.admit(4) is Verdict.SKIP


def test_completion_of_a_newer_one_ends_what_is_being_drawn() -> None:
    """A checkpoint that a completion passed between its two parts is not acknowledged any more."""
    checkpoints = SubtaskCheckpoints()
    checkpoints.admit(1)
    checkpoints.complete(2)
    checkpoints.taken(1)
    assert checkpoints.running == set()
    assert checkpoints.finished(1) is False


def test_an_old_completion_does_not_bring_old_checkpoints_back() -> None:
    """The newest id stays the newest."""
    checkpoints = taken(7)
    checkpoints.complete(3)
    assert (checkpoints.last, checkpoints.running) == (7, {7})
    assert checkpoints.admit(5) is Verdict.SKIP


def test_the_memory_of_aborts_is_bounded() -> None:
    """The oldest are dropped: their barriers are the least likely to come still."""
    checkpoints = SubtaskCheckpoints()
    for checkpoint in range(1, REMEMBERED_MAX + 3):
        checkpoints.aborted(checkpoint)
        checkpoints.aborted(checkpoint)
    assert checkpoints.remembered == set(range(3, REMEMBERED_MAX + 3))
    assert checkpoints.admit(3) is Verdict.CANCEL


def test_views_cannot_be_changed() -> None:
    """What is looked at stays as it was."""
    checkpoints = taken(1)
    before = checkpoints.running
    checkpoints.finished(1)
    assert before == {1}
    assert not hasattr(before, "add")
    assert not hasattr(checkpoints.remembered, "add")


@pytest.mark.parametrize("wrong", [1, 3], ids=["older", "newer"])
def test_only_what_was_admitted_is_drawn(wrong: int) -> None:
    """A snapshot that nobody admitted is a programming error."""
    checkpoints = taken(1)
    checkpoints.admit(2)
    with pytest.raises(InternalError, match=f"checkpoint {wrong} was taken, expected 2"):
        checkpoints.taken(wrong)


def test_nothing_is_drawn_twice() -> None:
    """One snapshot per admission."""
    with pytest.raises(InternalError, match="checkpoint 1 was taken, expected None"):
        taken(1).taken(1)


def test_an_end_without_a_beginning_is_refused() -> None:
    """A second end would release the files of an acknowledged checkpoint."""
    checkpoints = taken(1)
    checkpoints.finished(1)
    checkpoints.admit(2)
    for checkpoint in (1, 2, 3):
        with pytest.raises(InternalError, match=f"checkpoint {checkpoint} ended without running"):
            checkpoints.finished(checkpoint)


# --- every order of events

IDS = (1, 2, 3)


@dataclass(frozen=True)
class World:
    """What happened outside: the truth that the machine's answers are held against."""

    taking: int | None = None
    taken: tuple[int, ...] = ()
    asynchronous: frozenset[int] = frozenset()
    acknowledged: frozenset[int] = frozenset()
    aborted: frozenset[int] = frozenset()
    cancelled: frozenset[int] = frozenset()
    complete: int = 0
    newest: int = 0

    def moves(self) -> Iterator[str]:
        """What may happen next: late barriers, repeated aborts, cancelled parts that end or never do."""
        if self.taking is not None:
            yield f"taken {self.taking}"
        else:
            yield from (f"admit {n}" for n in IDS)
        yield from (f"finished {n}" for n in sorted(self.asynchronous))
        yield from (f"aborted {n}" for n in IDS if n > self.complete)
        for n in sorted(self.acknowledged - self.aborted):
            if n > self.complete:
                yield f"complete {n}"


def follow(core: SubtaskCheckpoints, world: World, move: str) -> World:
    """One event, and what must hold of its answer."""
    kind, text = move.split()
    n = int(text)
    if kind == "admit":
        world = admitted(core.admit(n), world, n)
    elif kind == "taken":
        core.taken(n)
        world = replace(world, taking=None, taken=(*world.taken, n), asynchronous=world.asynchronous | {n})
    elif kind == "finished":
        wanted = core.finished(n)
        assert n not in world.acknowledged, "acknowledged at most once"
        given_up = n in world.aborted or n <= world.complete
        assert wanted is not given_up, "acknowledged exactly when nobody gave it up"
        got = frozenset({n}) if wanted else frozenset()
        world = replace(world, asynchronous=world.asynchronous - {n}, acknowledged=world.acknowledged | got)
    elif kind == "aborted":
        answer = core.aborted(n)
        runs = n in world.asynchronous and n not in world.aborted and n > world.complete
        assert answer.cancel_running is runs, "cancelled exactly while it runs"
        assert n not in world.cancelled or not answer.cancel_running, "cancelled at most once"
        assert answer.notify_operators or n not in world.taken, "who drew it hears of the abort"
        hit = frozenset({n}) if answer.cancel_running else frozenset()
        world = replace(world, aborted=world.aborted | {n}, cancelled=world.cancelled | hit)
    else:
        core.complete(n)
        world = replace(world, complete=n, newest=max(world.newest, n))
    check_memory(core, world)
    return world


def admitted(verdict: Verdict, world: World, n: int) -> World:
    """What must hold of a verdict."""
    if n <= world.newest:
        assert verdict is Verdict.SKIP, "not newer than the last one"
        return world
    expected = Verdict.CANCEL if n in world.aborted else Verdict.TAKE
    assert verdict is expected, "an aborted one is cancelled, any other taken"
    assert n not in world.taken, "taken at most once"
    return replace(world, newest=n, taking=n if verdict is Verdict.TAKE else None)


def check_memory(core: SubtaskCheckpoints, world: World) -> None:
    """What is remembered is exactly what can still come; what runs is what is still wanted."""
    assert core.remembered == {n for n in world.aborted if n > world.newest}, "remembers what can come"
    wanted = {n for n in world.asynchronous - world.aborted if n > world.complete}
    assert core.running == wanted, "what runs is what is wanted"
    if world.newest == max(IDS):
        assert core.remembered == set(), "nothing can come any more"


def search(first: SubtaskCheckpoints) -> int:
    """Visit every state that any order of events reaches; gives their number."""
    seen = {(first.describe(), World())}
    queue = deque([(first, World(), ())])
    while queue:
        core, world, path = queue.popleft()
        for move in world.moves():
            after = copy.deepcopy(core)
            try:
                following = follow(after, world, move)
            except (AssertionError, InternalError) as error:
                raise AssertionError(f"{error} after {', '.join((*path, move))}") from error
            if (key := (after.describe(), following)) not in seen:
                seen.add(key)
                queue.append((after, following, (*path, move)))
    return len(seen)


def test_every_order_of_events_with_three_checkpoints() -> None:
    """Late barriers, repeated aborts, parts that end before, after or never: the invariants hold in all."""
    assert search(SubtaskCheckpoints()) > 2_000


class ForgetsToLook(SubtaskCheckpoints):
    """Draws what was aborted before."""

    def admit(self, checkpoint: int) -> Verdict:
        verdict = super().admit(checkpoint)
        if verdict is Verdict.CANCEL:
            self._taking = checkpoint
            return Verdict.TAKE
        return verdict


class AcknowledgesAnyway(SubtaskCheckpoints):
    """Lets an aborted part be acknowledged."""

    def finished(self, checkpoint: int) -> bool:
        super().finished(checkpoint)
        return True


class RemembersForEver(SubtaskCheckpoints):
    """Keeps what can not come any more."""

    def aborted(self, checkpoint: int) -> Abort:
        answer = super().aborted(checkpoint)
        self._remembered.add(checkpoint)
        return answer


class CancelsAgain(SubtaskCheckpoints):
    """Cancels what does not run."""

    def aborted(self, checkpoint: int) -> Abort:
        answer = super().aborted(checkpoint)
        return replace(answer, cancel_running=answer.notify_operators)


class DrawsAgain(SubtaskCheckpoints):
    """Takes the last checkpoint for a newer one."""

    def admit(self, checkpoint: int) -> Verdict:
        if checkpoint == self.last:
            self._last -= 1
        return super().admit(checkpoint)


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (ForgetsToLook, "an aborted one is cancelled"),
        (AcknowledgesAnyway, "nobody gave it up"),
        (RemembersForEver, "remembers what can come"),
        (CancelsAgain, "cancelled exactly while it runs"),
        (DrawsAgain, "not newer than the last one"),
    ],
)
def test_the_search_finds_planted_faults(planted: type[SubtaskCheckpoints], said: str) -> None:
    """Each invariant can fail."""
    with pytest.raises(AssertionError, match=said):
        search(planted())
