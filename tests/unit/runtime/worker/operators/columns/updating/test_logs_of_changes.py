"""The logs of state without windows: what was kept at first, and all logs since, make what is kept now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.relational.changes import CHANGE, Change
from headgate.runtime.worker.operators.columns.updating.kept_for_good import KeptForGood
from headgate.runtime.worker.operators.columns.updating.recomputed_rows import RecomputedRows
from headgate.runtime.worker.operators.columns.updating.seen_keys import SeenKeys

KEYS = pa.schema([("k", pa.int64())])
CAME = pa.schema([*KEYS, ("v", pa.int64()), (CHANGE, pa.int8())])
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=4)
STEPS = st.lists(ROWS | st.just("log") | st.just("compacted"), max_size=10)
Rows = list[tuple[int, int]]


class Recomputed:
    """All rows of a key; a row whose number has been there goes away again."""

    def __init__(self) -> None:
        self._there: set[tuple[int, int]] = set()

    @staticmethod
    def made() -> KeptForGood:
        return RecomputedRows(CAME, 1, lambda rows: rows)

    def give(self, kept: KeptForGood, rows: Rows) -> None:
        changes = []
        for row in rows:
            changes.append((*row, Change.DELETE if row in self._there else Change.INSERT))
            self._there ^= {row}
        columns = list(zip(*changes, strict=True)) or [(), (), ()]
        kept.gather(pa.table(list(map(pa.array, columns, CAME.types)), schema=CAME))
        assert isinstance(kept, RecomputedRows)
        kept.at_mark()


class Seen:
    """Keys that are duplicates for two milliseconds."""

    @staticmethod
    def made() -> KeptForGood:
        return SeenKeys(KEYS, 2)

    def give(self, kept: KeptForGood, rows: Rows) -> None:
        assert isinstance(kept, SeenKeys)
        keys, times = [key for key, _ in rows], [time for _, time in rows]
        kept.first(pa.table([pa.array(keys, pa.int64())], schema=KEYS), np.array(times, np.int64))


def content(kept: KeptForGood) -> Counter[str]:
    """How often each row is settled; 0 times is as good as not at all."""
    found: Counter[str] = Counter()
    for row in (row for table in kept.settled()() for row in table.to_pylist()):
        adds = Change(row.pop(CHANGE, Change.INSERT)).adds
        found[repr(row)] += 1 if adds else -1
    return found


@pytest.mark.parametrize("kind", [Recomputed, Seen])
@given(before=st.lists(ROWS, max_size=3), steps=STEPS)
def test_what_was_kept_and_the_log_make_what_is_kept(
    kind: Callable[[], Any], before: list[Rows], steps: list[Any]
) -> None:
    """With a log for each part, or one of several that were put together."""
    given_to = kind()
    kept = given_to.made()
    for rows in before:
        given_to.give(kept, rows)
    kept.begin_log()
    stored, parts = list(kept.settled()()), []
    for step in [*steps, "log"]:
        match step:
            case "log":
                parts += kept.take_log()
            case "compacted":
                parts += kept.take_log()
                parts = [kept.compacted(pa.concat_tables(parts))] if parts else []
            case rows:
                given_to.give(kept, rows)
    again = given_to.made()
    for table in [*stored, *parts]:
        again.restore(table)
    assert content(again) == content(kept)
