"""Jobs with a broadcast side killed with records in flight go on at another parallelism, in the simulator.

The records in flight are of the main side: barriers overtake there, and wait on the broadcast side. A record
that met a subtask without all rules would wait for ever, one that came twice would be counted twice.
"""

from __future__ import annotations

import pytest
from topologies import Stopped, go_on, shape, stop_in_flight

from headgate.api.declared.operator_state import declared_operator_state
from headgate.checkpoint.data_files import read_handle
from headgate.state.operator_state import OperatorStateBackend
from headgate.testing.simulation.faults import ALL_FAULTS
from headgate.testing.simulation.virtual_disk import SimDisk
from sim.topology import JUDGE, Step, Topology
from sim.topology_checks import records_in_flight
from sim.topology_job import Judging

LEAST = 4


def judged(parallelism: int) -> Topology:
    """A keyed operator with a broadcast side before a slow sink."""
    return shape(JUDGE, parallelism, beside=True)


def rules_of(stopped: Stopped) -> list[list[str]]:
    """The rules that each subtask of the stopped job knew at the cut, as it was told them."""
    found = []
    for state in stopped.cut.operators["judge"]:
        backend = OperatorStateBackend(declared_operator_state(Judging(Step("judge", JUDGE))))
        disk = SimDisk(stopped.files)
        backend.restore((held, read_handle(disk, held.handle)) for held in state.operator_state)
        found.append(list(backend.handles["rules"]))
    return found


@pytest.mark.parametrize(
    ("before", "after"),
    [(2, 3), *(pytest.param(*pair, marks=pytest.mark.ci) for pair in ((3, 1), (1, 2), (3, 2), (4, 3)))],
)
def test_so2_so7_rules_and_records_in_flight_at_another_parallelism(before: int, after: int) -> None:
    """sO2: all copies are the same at the cut, so each new subtask may go on with any one of them."""
    stopped = stop_in_flight(judged(before), "unaligned", seed=before, least=LEAST)
    assert records_in_flight(stopped.cut) >= LEAST
    senders = {stream.sender for stream in stopped.cut.in_flight if stream.parts}
    assert senders == {"in-event-time"}
    rules = rules_of(stopped)
    assert rules == [rules[0]] * before
    assert rules[0]
    go_on(judged(after), "unaligned", after, stopped)


def test_a_restore_of_a_restore() -> None:
    """2, then 3, then 1."""
    first = stop_in_flight(judged(2), "unaligned", 1, least=LEAST)
    second = stop_in_flight(judged(3), "unaligned", 2, after=first, least=1)
    go_on(judged(1), "unaligned", 3, second)


@pytest.mark.parametrize(
    "mode", ["unaligned", *(pytest.param(m, marks=pytest.mark.ci) for m in ("timeout", "aligned"))]
)
def test_a_restored_job_survives_faults(mode: str) -> None:
    """Failures before and after its own first checkpoint."""
    stopped = stop_in_flight(judged(2), mode, 3, least=1)
    outcomes = [go_on(judged(3), mode, seed, stopped, ALL_FAULTS) for seed in range(2)]
    assert sum(outcome.restarts for outcome in outcomes) > 0
