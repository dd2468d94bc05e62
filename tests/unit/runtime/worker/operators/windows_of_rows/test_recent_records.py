"""Records of windows that wait before they are in state: which do, for how long, and what stores them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_samples import finished
from test_records_together import END, Side, feed

from headgate.runtime.worker.operators.windows_of_rows import recent_records, records_together
from headgate.state.backends import RocksBackends
from headgate.testing import ManualClock

SOME = [(n % 3, n, n) for n in range(40)]
"""Records of three keys at the times 0 to 39 ms."""


@pytest.fixture(autouse=True, scope="module")
def all_wait() -> Iterator[None]:
    """Records wait also where a window has few of them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(records_together, "LEAST_IN_WINDOW", 1)
        yield


def one(*shape: str, records: Any = SOME, form: str = "columns", **changes: Any) -> Side:
    """Windows that have got some records, none of which ends a window."""
    side = Side(True, *(shape or ("tumbling", "usual", "process")), **changes)
    feed(side, [(records, form, False)], 400, str)
    return side


def stored(side: Side) -> int:
    """How many keys have windows in state."""
    return len(side.operator._backend.handles["windows"].table.entries)


def results(side: Side) -> list[str]:
    """The beginnings of the results, which tell their keys."""
    return [entry[0][:5] for entry in side.take() if entry[0] != "late"]


def test_windows_that_end_soon_were_never_in_state() -> None:
    """Their results come in the order of the keys' first records, and nothing is left."""
    side = one()
    assert stored(side) == 0
    assert len(side.operator._timers.event) == 0
    side.watermark(49)
    assert results(side) == ["('0',", "('1',", "('2',"]
    assert stored(side) == 0
    assert side.operator.recent is not None
    assert side.operator.recent.next_end is None


@pytest.mark.parametrize("form", ["columns", "rows"])
def test_rows_of_objects_go_to_state_at_once(form: str) -> None:
    """So do functions other than those of whole windows, and windows with other rules."""
    assert stored(one(form=form)) == (0 if form == "columns" else 3)
    assert stored(one("tumbling", "patient", "process")) == 3
    assert stored(one("tumbling", "usual", "reduce")) == 3


def test_a_snapshot_has_what_waits() -> None:
    """Also in the middle of windows that end: those keys that have given their results are not in it."""
    side = one(step_target_ms=0)
    side.operator.watermark(49)
    assert side.operator.busy
    taken = finished(side.operator.snapshot(1))
    assert stored(side) == 2
    side.take()
    side.log = []
    side.open(restored=[taken])
    while side.operator.busy:
        side.operator.go_on()
    assert results(side) == ["('1',", "('2',"]


def test_a_query_sees_what_waits() -> None:
    """The state of a key is asked for between two records."""
    side = one()
    found = side.operator.peek("windows", "0")
    assert found is not None
    assert stored(side) == 3


def test_a_batch_waits_for_a_while_only() -> None:
    """Longer where windows end meanwhile, less where none does."""
    clock = ManualClock()
    side = one(clock=clock)
    recent = side.operator.recent
    assert recent is not None
    longest = recent._wait_ms
    assert longest == recent_records.WAIT_MS[1]
    clock.advance(longest - 1)
    recent.flush_old()
    assert stored(side) == 0
    clock.advance(1)
    feed(side, [([(7, 10, 10)] * 10, "columns", False)], 400, str)
    assert stored(side) == 3
    assert recent._wait_ms == longest // 2
    for _ in range(9):
        clock.advance(longest)
        feed(side, [([(7, 10, 10)] * 10, "columns", False)], 400, str)
    assert stored(side) == 4
    assert recent._wait_ms == recent_records.WAIT_MS[0]
    feed(side, [([(8, 1_000, 10)] * 10, "columns", False)], 2_000, str)
    side.watermark(END)
    assert recent._wait_ms == 2 * recent_records.WAIT_MS[0]
    assert (stored(side), recent._count, recent._bytes) == (0, 0, 0)


@pytest.mark.parametrize(("name", "value"), [("MOST", 39), ("MOST_BYTES", 1)])
def test_the_oldest_of_too_many_go_to_state(name: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in records, and in bytes of their batches."""
    monkeypatch.setattr(recent_records, name, value)
    side = one()
    assert stored(side) == 0
    feed(side, [([(7, 10, 10)] * 10, "columns", False)], 400, str)
    assert stored(side) == 3
    side.watermark(END)
    assert len(results(side)) == 4


def test_keys_of_another_kind_do_not_wait_with_those_before() -> None:
    """For a dict 1 and True are one key, for state they need not be."""
    side = Side(True, "tumbling", "usual", "process")
    feed(side, [(SOME, "columns", False)], 400, lambda key: key)
    feed(side, [(SOME, "columns", False)], 400, bool)
    assert stored(side) == 3


@pytest.mark.parametrize("shape", ["tumbling", "sliding", "cumulative"])
def test_windows_in_rocksdb_end_from_what_waits(shape: str, tmp_path: Path) -> None:
    """With the results of the heap, whatever was in state before, and what a function remembers."""
    found = []
    for backends in (None, RocksBackends(1 << 24, str(tmp_path), True)):
        side = one(shape, "usual", "process", backends=backends)
        side.watermark(45)
        side.operator.snapshot(1)
        feed(side, [([(n % 5, 50 + n, n) for n in range(60)], "columns", False)], 400, str)
        side.watermark(80)
        side.watermark(END)
        found.append(side.take())
        side.operator.close()
    assert found[0] == found[1]


@given(st.lists(st.integers(0, 50), min_size=1), st.sampled_from([1, 100, 2**30]))
def test_codes_are_told_apart(codes: list[int], factor: int) -> None:
    """By a table where they are small, and by their order where they are far apart."""
    given_codes = np.array(codes) * factor
    firsts, numbers = recent_records._alike(given_codes)
    distinct = sorted(set(codes))
    assert [codes[at] for at in firsts] == distinct
    assert firsts.tolist() == [codes.index(code) for code in distinct]
    assert [distinct[at] for at in numbers] == codes
