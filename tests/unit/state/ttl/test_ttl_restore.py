"""A time to live across restores: written out, left out, switched on, switched off, changed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from ttl_samples import (
    EMPTY,
    HEAP,
    LOGGED_HEAP,
    ROCKS,
    Clock,
    Workbench,
    blob_of,
    full,
    read,
    states,
    workbench,
    write,
)

from headgate.api.declared.keyed_states import StateDescriptor, StateKind
from headgate.api.declared.state_ttl import StateTtl, TtlCleanup, TtlVisibility
from headgate.common.errors import UsageError
from headgate.common.time import WATERMARK_MIN

UNSWEPT = TtlCleanup(incremental=0)
STORES = [
    (HEAP, HEAP),
    (ROCKS, HEAP),
    pytest.param(HEAP, ROCKS, marks=pytest.mark.ci),
    pytest.param(ROCKS, ROCKS, marks=pytest.mark.ci),
]


@pytest.fixture
def bench() -> Iterator[Workbench]:
    """A workbench at time 0."""
    with workbench() as made:
        yield made


@pytest.mark.parametrize(("before", "after"), STORES)
def test_time_goes_on_across_a_restore(bench: Workbench, before: str, after: str) -> None:
    """Stamps are part of the checkpoint; the time between counts."""
    ttl = StateTtl(10)
    backend = bench.make(before, states(ttl))
    write(backend, "ada", 4)
    bench.clock.now = 3
    write(backend, "bob", 5)
    later = bench.make(after, states(ttl), blob_of(backend))
    bench.clock.now = 10
    assert (read(later, "ada"), read(later, "bob")) == (EMPTY, full(5))


@pytest.mark.parametrize("store", [HEAP, ROCKS])
def test_what_is_over_is_not_written_into_a_snapshot(bench: Workbench, store: str) -> None:
    """After the restore it is gone for good, even for a program that may see what is over."""
    ttl = StateTtl(10, visibility=TtlVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP, cleanup=UNSWEPT)
    backend = bench.make(store, states(ttl))
    for bench.clock.now in (0, 5):
        write(backend, "ada", 4)
    write(backend, "bob", 5)
    bench.clock.now = 11
    blob = blob_of(backend)
    later = bench.make(store, states(ttl), blob)
    assert dict(later.scan("log")) == {"ada": [4], "bob": [5]}
    assert dict(later.scan("log#ttl")) == {"ada": [5], "bob": [5]}
    bench.clock.now = 15
    empty = bench.make(store, states(ttl), blob_of(later))
    assert [list(empty.scan(name)) for name in states(ttl)] == [[]] * 7
    assert read(later, "ada")["log"] == [4]  # the live state was not changed by its snapshot


def test_without_full_snapshot_cleanup_all_is_written(bench: Workbench) -> None:
    """What is over is carried along, and still over afterwards."""
    ttl = StateTtl(10, cleanup=TtlCleanup(full_snapshot=False, incremental=0))
    backend = bench.make(HEAP, states(ttl))
    write(backend, "ada", 4)
    bench.clock.now = 10
    later = bench.make(HEAP, states(ttl), blob_of(backend))
    assert dict(later.scan("sum")) == {"ada": 4}
    assert read(later, "ada") == EMPTY


@pytest.mark.parametrize(("before", "after"), STORES)
def test_switched_on_entries_count_as_written_at_the_restore(
    bench: Workbench, before: str, after: str
) -> None:
    """State of a program without a time to live gets the whole time."""
    old = bench.make(before, states(None))
    write(old, "ada", 4)
    bench.clock.now = 1_000
    new = bench.make(after, states(StateTtl(10)), blob_of(old))
    bench.clock.now = 1_009
    assert read(new, "ada") == full(4)
    bench.clock.now = 1_010
    assert read(new, "ada") == EMPTY


class SlowBlob:
    """A blob whose reading takes until a moment.

    Args:
        blob: its bytes.
        clock: is moved.
        until: to this time.
    """

    def __init__(self, blob: bytes, clock: Clock, until: int) -> None:
        self.size, self._blob, self._clock, self._until = len(blob), blob, clock, until

    def read(self, offset: int, length: int) -> bytes:
        self._clock.now = self._until
        return self._blob[offset : offset + length]


@pytest.mark.parametrize("store", [HEAP, ROCKS, LOGGED_HEAP])
@pytest.mark.parametrize("time", ["processing", "event"])
def test_a_long_restore_takes_nothing_of_the_time_of_entries_without_stamps(
    bench: Workbench, store: str, time: str
) -> None:
    """The backend is made at 100, the restore ends at 1000: from then on the whole time, and no more."""
    old = bench.make(store, states(None))
    write(old, "ada", 4)
    blob = blob_of(old)
    bench.clock.now = 100
    new = bench.make(store, states(StateTtl(10, time=time)))
    new.restore([SlowBlob(blob, bench.clock, 1_000)])
    bench.clock.now = 1_009
    assert read(new, "ada") == full(4)
    bench.clock.now = 1_010
    assert read(new, "ada") == EMPTY


def test_a_long_restore_does_not_stop_the_time_of_entries_with_stamps(bench: Workbench) -> None:
    """Written at 0 for 10 ms; the restore lasts from 2 to 8."""
    old = bench.make(HEAP, states(StateTtl(10)))
    write(old, "ada", 4)
    blob = blob_of(old)
    bench.clock.now = 2
    new = bench.make(HEAP, states(StateTtl(10)))
    new.restore([SlowBlob(blob, bench.clock, 8)])
    bench.clock.now = 9
    assert read(new, "ada") == full(4)
    bench.clock.now = 10
    assert read(new, "ada") == EMPTY


def test_before_event_time_is_known_entries_without_stamps_count_from_the_first_watermark(
    bench: Workbench,
) -> None:
    """However many looks there are before it."""
    old = bench.make(HEAP, states(None))
    write(old, "ada", 4)
    blob = blob_of(old)
    bench.clock.now = WATERMARK_MIN
    new = bench.make(HEAP, states(StateTtl(10, time="event")), blob)
    assert read(new, "ada") == full(4)
    bench.clock.now = 1_000
    assert read(new, "ada") == full(4)
    bench.clock.now = 1_010
    assert read(new, "ada") == EMPTY


@pytest.mark.parametrize("store", [HEAP, pytest.param(ROCKS, marks=pytest.mark.ci)])
def test_switched_on_the_sweep_gives_stamps_to_all(bench: Workbench, store: str) -> None:
    """So that the time goes on across further restores, also for keys that nobody uses."""
    old = bench.make(store, states(None))
    for number in range(1, 6):
        write(old, f"cold{number}", number)
    bench.clock.now = 1_000
    new = bench.make(store, states(StateTtl(10)), blob_of(old))
    for _ in range(10):
        write(new, "hot", 1)
    bench.clock.now = 1_009
    newer = bench.make(store, states(StateTtl(10)), blob_of(new))
    assert read(newer, "cold3") == full(3)
    bench.clock.now = 1_010
    assert [read(newer, f"cold{number}") for number in range(1, 6)] == [EMPTY] * 5


def test_new_elements_behind_elements_without_stamps(bench: Workbench) -> None:
    """Of a list or map from before, old entries count from the restore, new ones from their writing."""
    old = bench.make(HEAP, states(None, "log", "totals"))
    write(old, "ada", 1)
    bench.clock.now = 100
    new = bench.make(HEAP, states(StateTtl(10, cleanup=UNSWEPT), "log", "totals"), blob_of(old))
    bench.clock.now = 105
    write(new, "ada", 2)
    assert read(new, "ada") == {"log": [1, 2], "totals": {"n1": 1, "n2": 2}}
    bench.clock.now = 110
    assert read(new, "ada") == {"log": [2], "totals": {"n2": 2}}


@pytest.mark.parametrize(("before", "after"), STORES)
def test_switched_off_entries_live_for_ever(bench: Workbench, before: str, after: str) -> None:
    """Stored stamps that no state declares are skipped, and are in no later checkpoint."""
    old = bench.make(before, states(StateTtl(10)))
    write(old, "ada", 4)
    new = bench.make(after, states(None), blob_of(old))
    bench.clock.now = 1_000_000
    assert read(new, "ada") == full(4)
    again = bench.make(after, states(StateTtl(10)), blob_of(new))
    assert list(again.scan("sum#ttl")) == []
    assert read(again, "ada") == full(4)


def test_duration_and_update_may_change_between_runs(bench: Workbench) -> None:
    """Stamps say when; what follows from it is the new program's business."""
    old = bench.make(HEAP, states(StateTtl(10)))
    write(old, "ada", 4)
    blob = blob_of(old)
    bench.clock.now = 15
    longer = bench.make(HEAP, states(StateTtl(20, update="on-read-and-write")), blob)
    shorter = bench.make(HEAP, states(StateTtl(5)), blob)
    assert (read(longer, "ada"), read(shorter, "ada")) == (full(4), EMPTY)


@pytest.mark.parametrize(("before", "after"), [*product(["processing", "event"], repeat=2)])
def test_stamps_of_one_clock_are_not_read_by_the_other(bench: Workbench, before: str, after: str) -> None:
    """From one clock to the other, entries count as written at the restore."""
    old = bench.make(HEAP, states(StateTtl(10, time=before)))
    write(old, "ada", 4)
    bench.clock.now = 5
    blob = blob_of(old)
    bench.clock.now = 1_000
    new = bench.make(HEAP, states(StateTtl(10, time=after)), blob)
    assert read(new, "ada") == (EMPTY if before == after else full(4))


def test_an_error_names_the_state_and_not_its_stamps(bench: Workbench) -> None:
    """Stamps are nobody's business, also where the declared type does not fit."""
    old = bench.make(HEAP, states(StateTtl(10), "totals"))
    write(old, "ada", 4)
    changed = StateDescriptor("totals", StateKind.MAP, (int, int), dict, ttl=StateTtl(10))
    with pytest.raises(UsageError, match="state 'totals' of the checkpoint cannot be read"):
        bench.make(HEAP, {"totals": changed}, blob_of(old))
    with pytest.raises(UsageError, match=r"holds state 'totals', .*it declares 'log'") as caught:
        bench.make(HEAP, states(StateTtl(10), "log"), blob_of(old))
    assert "#ttl" not in str(caught.value)


def test_values_evolve_as_without_a_time_to_live(bench: Workbench) -> None:
    """Another type of the value leaves the stamps as they are."""
    old = bench.make(HEAP, states(StateTtl(10), "count"))
    write(old, "ada", 4)
    wider: dict[str, Any] = {
        "count": StateDescriptor("count", StateKind.VALUE, (float,), lambda: 0.0, ttl=StateTtl(10))
    }
    bench.clock.now = 9
    new = bench.make(HEAP, wider, blob_of(old))
    found = read(new, "ada")["count"]
    assert (found, type(found)) == (4.0, float)
    bench.clock.now = 10
    assert read(new, "ada") == {"count": 0.0}
