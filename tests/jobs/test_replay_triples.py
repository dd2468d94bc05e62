"""Random jobs, keys and checkpoints of the simulator: a replay gets the next checkpoint's state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from unittest import mock

import pytest

from headgate.common.ports import Disk
from headgate.offline.replay.keyed_part import KeyReader, KeyState
from headgate.offline.replay.row_tap import RowTap
from headgate.records.batch import Batch
from sim.replays import Triple, replay_seed

TRIPLES, TRIPLES_LONG = 20, 500
SEEDS_OF_KNOWN = range(1, 61, 2)


def triples(first: int, count: int) -> list[Triple]:
    """So many triples, from the seeds that have any."""
    found: list[Triple] = []
    seed = first
    while len(found) < count:
        triple = replay_seed(seed)
        found += [] if triple is None else [triple]
        seed += 1
    return found


def exact(found: Iterable[Triple]) -> list[Triple]:
    """Those that must be as recorded, and in which something happened."""
    return [triple for triple in found if not triple.report.inexact and triple.report.steps]


def demand(found: list[Triple], share: float) -> None:
    """All hold, and enough of them say something."""
    assert [triple.tell() for triple in found if triple.violation] == []
    assert len(exact(found)) > share * len(found)
    assert any(step.kind == "timer" for triple in exact(found) for step in triple.report.steps)


@pytest.mark.timeout(300)
def test_replays_of_simulated_jobs() -> None:
    """Twenty triples; where a state may differ, the report says why."""
    demand(triples(0, TRIPLES), 0.1)


@pytest.mark.parametrize("seed", [103_047])
def test_seeds_that_once_failed(seed: int) -> None:
    """A reader was given a split that another one had read, behind the split in which it was to stop, and the
    replay waited for ever.
    """
    triple = replay_seed(seed)
    assert triple is not None
    assert triple.violation is None
    assert triple.report.steps


@pytest.mark.proof
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("first", range(10_000, 10_000 + TRIPLES_LONG, 100))
def test_many_replays_of_simulated_jobs(first: int) -> None:
    """Five hundred of them."""
    demand(triples(10 * first, 100), 0.1)


def test_a_replay_that_loses_a_record_is_found() -> None:
    """The tap leaves out the first record of the key."""
    taken = RowTap._record

    def but_the_first(tap: RowTap, row: Batch, sender: str) -> None:
        tap.records += 1
        if tap.records > 1:
            taken(tap, row, sender)

    with mock.patch.object(RowTap, "_record", but_the_first):
        assert any(_wrong(seed) for seed in SEEDS_OF_KNOWN)


def test_a_replay_that_loses_timers_is_found() -> None:
    """The state of the key is restored without them."""
    read = KeyReader.read

    def without_timers(reader: KeyReader, disk: Disk | None, stored: Any) -> KeyState:
        found = read(reader, disk, stored)
        return {name: values for name, values in found.items() if disk is None or "timers" not in name}

    with mock.patch.object(KeyReader, "read", without_timers):
        assert any(_wrong(seed) for seed in SEEDS_OF_KNOWN)


def _wrong(seed: int) -> bool:
    triple = replay_seed(seed)
    return triple is not None and bool(triple.report.differences) and triple.violation is not None
