"""Jobs killed with records in flight go on at another parallelism: every record once, whatever the exchange.

In the simulator, so that the same records are in flight each time. Each test proves that the checkpoint
which it restores held some.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from topologies import SHAPES, go_on, shape, stop_in_flight

from headgate.testing.simulation.faults import ALL_FAULTS
from sim.topology import Feed, Step, Topology
from sim.topology_checks import records_in_flight

PAIRS = ((1, 2), (2, 1), (2, 3), (3, 2), (4, 3), (3, 4))
LEAST = 4
"""Records in flight; a single channel with four small frames of credit holds no more than five or six."""


@pytest.mark.parametrize(
    "beside", [False, pytest.param(True, marks=pytest.mark.ci)], ids=["alone", "beside-broadcast"]
)
@pytest.mark.parametrize(("before", "after"), PAIRS)
@pytest.mark.parametrize("kind", SHAPES)
def test_records_in_flight_reach_their_new_subtasks(kind: str, before: int, after: int, beside: bool) -> None:
    """sO7: nothing is lost, nothing comes twice, and the state is that of one job."""
    stopped = stop_in_flight(shape(kind, before, beside), "unaligned", seed=before, least=LEAST)
    assert records_in_flight(stopped.cut) >= LEAST
    go_on(shape(kind, after, beside), "unaligned", after, stopped)


@pytest.mark.ci
@pytest.mark.parametrize(("before", "after"), [(3, 7), (12, 7), (5, 3)])
@pytest.mark.parametrize("kind", SHAPES)
def test_far_more_or_fewer_subtasks(kind: str, before: int, after: int) -> None:
    """sO7: pairs that are no multiples of each other, so one subtask feeds several, and is fed by several."""
    stopped = stop_in_flight(shape(kind, before), "unaligned", seed=before, least=LEAST)
    go_on(shape(kind, after), "unaligned", after, stopped)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("kind", SHAPES)
def test_at_the_same_parallelism_the_order_is_kept_too(kind: str, parallelism: int) -> None:
    """Records in flight come before those that were not read yet, each channel's in its order."""
    stopped = stop_in_flight(shape(kind, parallelism), "unaligned", seed=parallelism, least=LEAST)
    go_on(shape(kind, parallelism), "unaligned", 7, stopped, order=True)


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_key_keeps_its_order_wherever_it_goes(before: int, after: int) -> None:
    """What was in flight for a key is counted before what comes later, also by another subtask."""
    stopped = stop_in_flight(shape("keyed", before), "unaligned", seed=before, least=LEAST)
    go_on(shape("keyed", after), "unaligned", after, stopped, order=True)


@pytest.mark.parametrize(
    "widths",
    [(2, 3, 1), (3, 2, 4), *(pytest.param(each, marks=pytest.mark.ci) for each in ((3, 1, 2), (4, 2, 2)))],
)
@pytest.mark.parametrize("kind", SHAPES)
def test_a_restore_of_a_restore(kind: str, widths: tuple[int, int, int]) -> None:
    """A second checkpoint, drawn while restored records still wait, goes on at a third parallelism."""
    first, second, third = (shape(kind, width, size=150) for width in widths)
    stopped = stop_in_flight(first, "unaligned", 1, least=2 * LEAST)
    again = stop_in_flight(second, "unaligned", 2, after=stopped, least=1, level=1)
    assert max(stream.level for stream in again.cut.in_flight) >= 1
    go_on(third, "unaligned", 3, again)


@pytest.mark.parametrize("mode", ["aligned", "timeout", "at-least-once"])
@pytest.mark.parametrize("kind", SHAPES)
def test_another_way_of_taking_checkpoints_after_the_restore(kind: str, mode: str) -> None:
    """What an unaligned checkpoint holds is restored by a job that takes others."""
    stopped = stop_in_flight(shape(kind, 3), "unaligned", 3, least=LEAST)
    outcome = go_on(shape(kind, 2), mode, 4, stopped)
    assert outcome.checkpoints > 0


@pytest.mark.parametrize("kind", SHAPES)
def test_from_aligned_to_unaligned(kind: str) -> None:
    """An aligned checkpoint holds no record in flight, and is as good a start."""
    stopped = stop_in_flight(shape(kind, 2), "aligned", 5)
    assert records_in_flight(stopped.cut) == 0
    go_on(shape(kind, 3), "unaligned", 6, stopped)


@pytest.mark.parametrize("kind", SHAPES)
def test_a_timeout_that_passes_takes_records_along(kind: str) -> None:
    """A checkpoint that began aligned and overtook later is restored like any other."""
    stopped = stop_in_flight(shape(kind, 2), "timeout", 5, least=1)
    assert records_in_flight(stopped.cut) > 0
    go_on(shape(kind, 3), "unaligned", 6, stopped)


@pytest.mark.parametrize(("before", "travel"), [(3, ""), (2, "rebalance")])
def test_operators_that_are_chained_now(before: int, travel: str) -> None:
    """Records in flight between two operators enter the chain where the second one is."""
    exchanged = line(sources=2, shifts=before, travel=travel)
    stopped = stop_in_flight(exchanged, "unaligned", 8, least=LEAST)
    go_on(line(sources=2, shifts=2), "unaligned", 9, stopped)


def test_operators_that_are_chained_no_longer() -> None:
    """The other way round: what was one chain has an exchange in it now."""
    keyed = line(sources=2, shifts=2, count=True)
    stopped = stop_in_flight(keyed, "unaligned", 8, least=LEAST)
    go_on(line(sources=3, shifts=2, count=True, sinks=3), "unaligned", 9, stopped)


@pytest.mark.ci
@pytest.mark.parametrize("kind", SHAPES)
def test_a_restored_job_survives_faults(kind: str) -> None:
    """Failures before its first own checkpoint restore the same records in flight once more."""
    stopped = stop_in_flight(shape(kind, 3), "unaligned", 3, least=LEAST)
    outcomes = [go_on(shape(kind, 2), "unaligned", seed, stopped, ALL_FAULTS) for seed in range(5)]
    assert sum(outcome.restarts for outcome in outcomes) > 0


def test_records_in_flight_to_an_operator_that_is_gone_are_refused() -> None:
    """They would be lost silently; the message names the operator."""
    stopped = stop_in_flight(shape("forward", 2), "unaligned", 3, least=LEAST)
    topology = shape("forward", 2)
    renamed = [replace(step, uid="three") if step.uid == "two" else step for step in topology.steps]
    renamed[-1] = replace(renamed[-1], feeds=(Feed("three"),))
    with pytest.raises(AssertionError, match=r"did not start: UsageError: .*'two'"):
        go_on(replace(topology, steps=tuple(renamed)), "unaligned", 4, stopped)


def line(
    sources: int, shifts: int, travel: str = "", count: bool = False, sinks: int | None = None
) -> Topology:
    """Source, perhaps a count by key, a map, slow sink: `travel` says how records get to the map."""
    template = shape("rebalance", 2)
    before = "count" if count else "in"
    middle = [Step("count", "count", (Feed("in"),), sources, 5)] if count else []
    steps = [
        Step("in", "source", (), sources),
        *middle,
        Step("shift", "map", (Feed(before, None, travel),), shifts),
        Step("out-shift", "sink", (Feed("shift"),), sinks or shifts, cost_ms=4.0),
    ]
    return replace(template, steps=tuple(steps))
