"""Requests in flight: what leaves, and when, in any order of answers, failures and times."""

from __future__ import annotations

import copy

import pytest
from async_requests_world import World
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.retries import Retries
from headgate.core.async_requests import Again, AsyncRequests, Expire, Phase, Rules
from headgate.core.async_results import Border, OrderedResults, UnorderedResults


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("timeout_ms", [None, 15])
def test_every_order_of_three_records(ordered: bool, timeout_ms: int | None) -> None:
    """All that may happen to three records with a watermark between them, two of which fit in."""
    rules = Rules(2, timeout_ms, ordered, Retries(2, 10, 2.0))
    found, open_ends, ends = set(), [World(rules, 3, frozenset({2}))], 0
    while open_ends:
        world = open_ends.pop()
        for move in world.moves():
            later = copy.deepcopy(world)
            later.make(move)
            if later.signature() not in found:
                found.add(later.signature())
                open_ends.append(later)
        if not world.dead:
            ends += 1
            copy.deepcopy(world).finish()
    assert ends > 200


@given(
    ordered=st.booleans(),
    capacity=st.integers(1, 5),
    timeout=st.none() | st.integers(5, 60),
    retries=st.builds(Retries, st.integers(1, 4), st.integers(0, 20), st.sampled_from([1.0, 2.0])),
    borders=st.frozensets(st.integers(1, 12)),
    choices=st.lists(st.integers(0, 1_000), max_size=80),
)
def test_any_story(
    ordered: bool,
    capacity: int,
    timeout: int | None,
    retries: Retries,
    borders: frozenset[int],
    choices: list[int],
) -> None:
    """More records, other rules: nothing is lost, doubled, too early, or stays for ever."""
    world = World(Rules(capacity, timeout, ordered, retries), 12, borders)
    for choice in choices:
        if not (moves := world.moves()):
            break
        world.make(moves[choice % len(moves)])
    if not world.dead:
        world.finish()


def test_watermarks_that_follow_each_other_become_one() -> None:
    """Else a slow record would have them pile up; what is of another kind stays."""
    for results in (OrderedResults[str](), UnorderedResults[str]()):
        results.add("slow")
        results.border(Border(1, "watermark"))
        results.border(Border(2, "watermark"))
        results.border(Border("mark"))
        results.border(Border(3, "watermark", seals=True))
        assert (results.borders, results.sealed, results.ready) == (3, True, False)
        results.done("slow")
        taken = [results.take() for _ in range(4)]
        assert taken[0] == "slow"
        assert [each.event for each in taken[1:] if isinstance(each, Border)] == [2, "mark", 3]
        assert (results.borders, results.sealed, results.take()) == (0, False, None)


def test_one_that_waits_for_its_next_attempt_expires_once() -> None:
    """Its time is counted from its admission; the attempt that was planned is not made."""
    machine: AsyncRequests[str] = AsyncRequests(Rules(1, 100, retries=Retries(3, 80)))
    request = machine.admit("a", 0)
    assert machine.failed(1, 1, 50, repeat=True) is None
    assert (request.phase, machine.due()) == (Phase.WAITING, 100)
    assert machine.tick(100) == [Expire(request)]
    assert machine.tick(130) == []
    machine.answered(1, 1, ["late"], 140)
    assert not machine.ready
    machine.answered(1, 0, ["instead"], 150)
    assert machine.take() is request
    assert (request.results, machine.due(), len(machine)) == (["instead"], None, 0)


def test_delays_grow_up_to_their_bound() -> None:
    """Also where the factor would grow beyond all numbers."""
    grows = Retries(10_000, 100, 2.0, 5_000)
    assert [grows.delay_after(n) for n in (1, 2, 3, 7, 9_999)] == [100, 200, 400, 5_000, 5_000]
    machine: AsyncRequests[str] = AsyncRequests(Rules(1, None, retries=grows))
    request = machine.admit("a", 0)
    machine.failed(1, 1, 10, repeat=True)
    assert (machine.due(), machine.tick(109), machine.tick(110)) == (110, [], [Again(request)])
