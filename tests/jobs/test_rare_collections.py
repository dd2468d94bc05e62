"""How often the garbage collector runs in worker processes, and nowhere else; see decision 0207."""

from __future__ import annotations

import gc

import headgate as hg
from headgate.runtime.worker.worker_process import YOUNG_OBJECTS, rare_collections
from headgate.testing import MiniCluster, ProcessCluster


def thresholds_in(executor: MiniCluster | ProcessCluster) -> list[int]:
    """Return the threshold that a function sees in a worker of `executor`."""
    env = hg.Environment(parallelism=1, executor=executor)
    return env.from_collection([0], uid="one").map(lambda _: gc.get_threshold()[0], uid="look").collect()


def test_a_worker_process_collects_less_often() -> None:
    """A worker that is a thread of the program's own process leaves the program's threshold."""
    assert thresholds_in(ProcessCluster()) == [YOUNG_OBJECTS]
    before = gc.get_threshold()
    assert thresholds_in(MiniCluster()) == [before[0]]
    assert gc.get_threshold() == before


def test_a_process_that_is_no_worker_any_more_has_its_threshold_again() -> None:
    """Also if user code has set one; a higher threshold stays, and so does a collector that is off."""
    before = gc.get_threshold()
    try:
        for own, wanted in ((700, YOUNG_OBJECTS), (50_000, 50_000), (0, 0)):
            gc.set_threshold(own, 5, 6)
            with rare_collections():
                assert gc.get_threshold() == (wanted, 5, 6)
                gc.set_threshold(123, 4, 4)
            assert gc.get_threshold() == (own, 5, 6)
    finally:
        gc.set_threshold(*before)
