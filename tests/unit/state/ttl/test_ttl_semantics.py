"""What a time to live means, rule by rule, for every kind of state."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ttl_samples import EMPTY, HEAP, KINDS, ROCKS, Workbench, blob_of, full, read, states, workbench, write

from headgate.api.declared.state_ttl import StateTtl, TtlCleanup, TtlUpdate, TtlVisibility
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.state.ttl.handle import TtlStatistics

UNSWEPT = TtlCleanup(incremental=0)


@pytest.fixture
def bench() -> Iterator[Workbench]:
    """A workbench at time 0."""
    with workbench() as made:
        yield made


@pytest.mark.parametrize("store", [HEAP, ROCKS])
def test_an_entry_is_over_when_stamp_plus_duration_is_now(bench: Workbench, store: str) -> None:
    """Written at 0 for 10 ms: it is there at 9 and gone at 10."""
    backend = bench.make(store, states(StateTtl(10)))
    write(backend, "ada", 4)
    bench.clock.now = 9
    assert read(backend, "ada") == full(4)
    bench.clock.now = 10
    assert read(backend, "ada") == EMPTY


def test_reads_do_not_prolong_on_create_and_write(bench: Workbench) -> None:
    """By default only writes do."""
    backend = bench.make(HEAP, states(StateTtl(10)))
    write(backend, "ada", 4)
    bench.clock.now = 9
    read(backend, "ada")
    bench.clock.now = 10
    assert read(backend, "ada") == EMPTY


def test_reads_prolong_on_read_and_write(bench: Workbench) -> None:
    """A read begins the time anew, for every kind."""
    backend = bench.make(HEAP, states(StateTtl(10, update=TtlUpdate.ON_READ_AND_WRITE)))
    write(backend, "ada", 4)
    for bench.clock.now in (9, 18, 27):
        assert read(backend, "ada") == full(4)
    bench.clock.now = 37
    assert read(backend, "ada") == EMPTY


def test_return_expired_if_not_cleaned_up_gives_it_once(bench: Workbench) -> None:
    """The first read after the end gives the entry and removes it."""
    ttl = StateTtl(10, visibility=TtlVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP, cleanup=UNSWEPT)
    backend = bench.make(HEAP, states(ttl))
    write(backend, "ada", 4)
    bench.clock.now = 10
    assert read(backend, "ada") == full(4)
    assert read(backend, "ada") == EMPTY


def test_elements_of_lists_end_one_by_one(bench: Workbench) -> None:
    """Each element has the time of its own addition."""
    backend = bench.make(HEAP, states(StateTtl(10), "log"))
    log = backend.handles["log"]
    for bench.clock.now in (0, 4, 8):
        log.bind("ada")
        log.add(bench.clock.now)
    for bench.clock.now, left in ((12, [4, 8]), (14, [8])):
        log.bind("ada")
        assert log.get() == left


def test_entries_of_maps_end_one_by_one_and_a_new_one_comes_last(bench: Workbench) -> None:
    """Each key has its own time; one that was over and is put again has a new place in the order."""
    backend = bench.make(HEAP, states(StateTtl(10), "totals"))
    totals = backend.handles["totals"]
    totals.bind("ada")
    totals.put("a", 1)
    bench.clock.now = 5
    totals.bind("ada")
    totals.put("b", 2)
    bench.clock.now = 11
    totals.bind("ada")
    assert ("a" in totals, "b" in totals, len(totals), list(totals)) == (False, True, 1, ["b"])
    totals.put("a", 3)
    assert list(totals.items()) == [("b", 2), ("a", 3)]


def test_an_accumulator_that_is_over_counts_as_empty(bench: Workbench) -> None:
    """What is added after the end begins anew, also where nobody read in between."""
    backend = bench.make(HEAP, states(StateTtl(10), "sum", "mean", "spread"))
    write(backend, "ada", 4)
    bench.clock.now = 10
    write(backend, "ada", 7)
    assert read(backend, "ada") == {"sum": 7, "mean": 7.0, "spread": 0}


def test_setting_the_default_removes_the_entry(bench: Workbench) -> None:
    """As without a time to live, and nothing is left of its stamp."""
    backend = bench.make(HEAP, states(StateTtl(10), "count"))
    count = backend.handles["count"]
    count.bind("ada")
    count.value = 4
    count.value = 0
    assert (list(backend.scan("count")), list(backend.scan("count#ttl"))) == ([], [])


def test_reading_what_is_absent_leaves_no_stamp(bench: Workbench) -> None:
    """Keys that are only asked for take no memory."""
    ttl = StateTtl(10, update=TtlUpdate.ON_READ_AND_WRITE)
    names = [name for name in KINDS if name != "basket"]  # its default is changed in place, so it is stored
    backend = bench.make(HEAP, states(ttl, *names))
    read(backend, "ada")
    assert [list(backend.scan(f"{name}#ttl")) for name in names] == [[] for _ in names]


def test_a_default_that_is_changed_in_place_lives_from_its_first_read(bench: Workbench) -> None:
    """The program changes the object that it got; it is an entry like others."""
    backend = bench.make(HEAP, states(StateTtl(10), "basket"))
    basket = backend.handles["basket"]
    basket.bind("ada")
    basket.value.append(1)
    assert basket.value == [1]
    bench.clock.now = 10
    basket.bind("ada")
    assert basket.value == []


def test_before_the_first_watermark_nothing_ends(bench: Workbench) -> None:
    """What was written before event time was known counts as written at the first watermark."""
    bench.clock.now = WATERMARK_MIN
    backend = bench.make(HEAP, states(StateTtl(10, time="event")))
    write(backend, "ada", 4)
    bench.clock.now = 1_000_000
    write(backend, "bob", 4)
    bench.clock.now += 9
    assert read(backend, "ada") == full(4)
    bench.clock.now += 1
    assert read(backend, "ada") == EMPTY


def test_a_snapshot_right_behind_the_first_watermark_keeps_everything(bench: Workbench) -> None:
    """The cut may be the first to see the watermark."""
    bench.clock.now = WATERMARK_MIN
    descriptors = states(StateTtl(10, time="event"))
    backend = bench.make(HEAP, descriptors)
    write(backend, "ada", 4)
    bench.clock.now = 1_000_000
    later = bench.make(HEAP, descriptors, blob_of(backend))
    assert read(later, "ada") == full(4)


def test_at_the_end_of_event_time_all_is_over(bench: Workbench) -> None:
    """The last watermark is behind every time to live; what is written then stays."""
    backend = bench.make(HEAP, states(StateTtl(10, time="event"), "count", "log"))
    write(backend, "ada", 4)
    bench.clock.now = WATERMARK_MAX
    assert read(backend, "ada") == {"count": 0, "log": []}
    write(backend, "ada", 5)
    assert read(backend, "ada") == {"count": 5, "log": [5]}


@pytest.mark.parametrize("store", [HEAP, ROCKS])
def test_the_sweep_removes_what_nobody_asks_for(bench: Workbench, store: str) -> None:
    """Records of one key remove the entries of all others, stamps included."""
    backend = bench.make(store, states(StateTtl(10, cleanup=TtlCleanup(incremental=2)), "count", "log"))
    for number in range(30):
        write(backend, f"cold{number}", number + 1)
    bench.clock.now = 10
    for _ in range(40):
        write(backend, "hot", 1)
    for name in ("count", "count#ttl", "log", "log#ttl"):
        assert {key for key, _ in backend.scan(name)} == {"hot"}
    assert {name: found.removed for name, found in backend.statistics().items()} == {"count": 30, "log": 30}


def test_without_incremental_cleanup_nothing_is_swept(bench: Workbench) -> None:
    """Entries that nobody reads stay stored, and are invisible."""
    backend = bench.make(HEAP, states(StateTtl(10, cleanup=UNSWEPT), "count"))
    write(backend, "cold", 1)
    bench.clock.now = 10
    for _ in range(40):
        write(backend, "hot", 1)
    assert len(list(backend.scan("count"))) == 2
    assert list(backend.keys("count")) == ["hot"]


def test_the_sweep_prunes_lists_and_maps(bench: Workbench) -> None:
    """Of a key that is over in part, the part is removed."""
    backend = bench.make(HEAP, states(StateTtl(10), "log", "totals"))
    for bench.clock.now in (0, 5):
        write(backend, "ada", bench.clock.now)
    bench.clock.now = 10
    for _ in range(5):
        write(backend, "bob", 1)
    assert dict(backend.scan("log"))["ada"] == [5]
    assert dict(backend.scan("log#ttl"))["ada"] == [5]
    assert dict(backend.scan("totals"))["ada"] == {"n5": 5}


def test_a_sweep_rests_until_something_can_be_over(bench: Workbench) -> None:
    """After a pass nothing is looked at before the oldest stamp's end."""
    backend = bench.make(HEAP, states(StateTtl(80, cleanup=TtlCleanup(incremental=10)), "count"))
    for bench.clock.now in (1, 2, 3):
        write(backend, bench.clock.now, 5)
    bench.clock.now = 20
    write(backend, 1, 5)
    write(backend, 1, 5)
    seen = backend.statistics()["count"].seen
    for bench.clock.now in range(21, 81):
        write(backend, 4, 5)
    assert backend.statistics()["count"].seen == seen
    bench.clock.now = 82
    write(backend, 4, 5)
    assert backend.statistics()["count"].removed == 1


def test_a_clock_that_is_set_back_wakes_the_sweep(bench: Workbench) -> None:
    """A wrong time of yesterday does not stop the cleaning for long."""
    bench.clock.now = 1_000_000
    backend = bench.make(HEAP, states(StateTtl(10), "count"))
    write(backend, "ada", 1)
    write(backend, "ada", 1)
    bench.clock.now = 0
    write(backend, "bob", 1)
    bench.clock.now = 10
    for _ in range(3):
        write(backend, "eve", 1)
    assert {key for key, _ in backend.scan("count")} == {"ada", "eve"}


def test_statistics_count_entries_found_over(bench: Workbench) -> None:
    """The sweep, reads and snapshots each say what they found."""
    backend = bench.make(HEAP, states(StateTtl(10, cleanup=TtlCleanup(incremental=100)), "log"))
    for _ in range(3):
        write(backend, "ada", 1)
    bench.clock.now = 10
    write(backend, "bob", 1)
    found = backend.statistics()["log"]
    assert (found.expired_stored, found.removed) == (3, 3)
    assert found.seen >= 3


def test_statistics_of_a_snapshot_are_exact(bench: Workbench) -> None:
    """A snapshot that is written whole looks at every entry, and knows the bytes it left out."""
    backend = bench.make(HEAP, states(StateTtl(10, cleanup=UNSWEPT), "count"))
    write(backend, "ada", 300)
    bench.clock.now = 5
    write(backend, "bob", 300)
    bench.clock.now = 10
    blob_of(backend)
    found = backend.statistics()["count"]
    assert found == TtlStatistics(0, 0, 0, 2, 1, found.snapshot_expired_bytes)
    assert 0 < found.snapshot_expired_bytes < 20


def test_states_without_a_time_to_live_are_the_backends_own(bench: Workbench) -> None:
    """Beside one with a time to live, the others keep their handles and their speed."""
    both = states(StateTtl(10), "log") | states(None, "count", "sum")
    backend = bench.make(HEAP, both)
    assert [name for name, handle in backend.handles.items() if handle.immutable] == ["count", "sum"]
    assert set(backend.handles) == {"log", "count", "sum"}
