"""A failure is the same one again when its fingerprint is, since the same checkpoint."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from headgate.core.same_failures import SAME_FAILURES, Fingerprint, SameFailures

ODD = Fingerprint("operator 'map' (uid 'm')", "ValueError", "job.py:7")
OTHERS = [
    Fingerprint("operator 'map' (uid 'other')", "ValueError", "job.py:7"),
    Fingerprint("operator 'map' (uid 'm')", "KeyError", "job.py:7"),
    Fingerprint("operator 'map' (uid 'm')", "ValueError", "job.py:8"),
]


def test_the_third_of_a_kind_is_told() -> None:
    """Two may be chance."""
    failures = SameFailures(since=None)
    assert [failures.on_failure(ODD) for _ in range(2)] == [False, False]
    assert failures.repeating is None
    assert failures.on_failure(ODD)
    assert failures.repeating is not None
    assert (failures.repeating.fingerprint, failures.repeating.times) == (ODD, SAME_FAILURES)


def test_it_is_told_again_when_it_has_come_twice_as_often() -> None:
    """What is told for ever is not read."""
    failures = SameFailures(since=None)
    assert [n for n in range(1, 50) if failures.on_failure(ODD)] == [3, 6, 12, 24, 48]
    assert failures.repeating is not None
    assert failures.repeating.times == 49


def test_a_record_that_fails_each_time_is_named() -> None:
    """One that came once does not count for others; the kind of failure is the same."""
    failures = SameFailures(since=None)
    for _ in range(3):
        failures.on_failure(replace(ODD, record="7"))
    assert failures.repeating is not None
    assert failures.repeating.record == "7"
    failures.on_failure(replace(ODD, record="8"))
    assert (failures.repeating.times, failures.repeating.record) == (4, "")
    failures.on_checkpoint(1)
    for _ in range(3):
        failures.on_failure(replace(ODD, record="8"))
    assert failures.repeating.record == "8"


@pytest.mark.parametrize("other", OTHERS)
def test_another_operator_exception_or_line_is_another_failure(other: Fingerprint) -> None:
    """Each counts for itself, also where they come in turns."""
    failures = SameFailures(since=None)
    assert not any(failures.on_failure(each) for each in (ODD, other, ODD, other))
    assert failures.on_failure(ODD)
    assert failures.repeating is not None
    assert failures.repeating.fingerprint == ODD


def test_a_checkpoint_begins_the_count_anew() -> None:
    """The job has got further; what keeps coming is told with the checkpoint from which it does."""
    failures = SameFailures(since=1)
    for _ in range(3):
        failures.on_failure(ODD)
    assert failures.repeating is not None
    assert failures.repeating.since == 1
    failures.on_checkpoint(2)
    assert failures.repeating is None
    assert [failures.on_failure(ODD) for _ in range(3)] == [False, False, True]
    assert failures.repeating is not None
    assert failures.repeating.since == 2


def test_what_nothing_tells_from_others_does_not_count() -> None:
    """As of workers that were lost; nor does it end the count of others."""
    failures = SameFailures(since=None)
    told = [failures.on_failure(each) for each in (ODD, None, None, ODD, None, ODD)]
    assert told == [False] * 5 + [True]
    assert not any(SameFailures(since=None).on_failure(None) for _ in range(9))


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_events(seed: int) -> None:
    """Told is what came three times, or three times a power of two, since the last checkpoint."""
    draw = random.Random(seed)
    failures, counts, since = SameFailures(since=0), Counter[Fingerprint](), 0
    for step in range(300):
        if draw.random() < 0.03:
            since = step
            failures.on_checkpoint(step)
            counts.clear()
            continue
        mark = draw.choice([None, ODD, *OTHERS])
        told = failures.on_failure(mark)
        if mark is None:
            assert not told
            continue
        counts[mark] += 1
        assert told == (counts[mark] in {3, 6, 12, 24, 48, 96, 192})
        if counts[mark] >= 3:
            assert failures.repeating is not None
            same = failures.repeating
            assert (same.fingerprint, same.times, same.since) == (mark, counts[mark], since)
