"""Windows that take the records of a key together give what they give one record after the other."""

from __future__ import annotations

import copy
import datetime as dt
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_samples import columns, context, finished, opened, rows
from stored_tables import SubtaskTables, restored_tables, table_of, write_tables

import headgate as hg
from headgate.api.windows.window_states import records_of_runs
from headgate.common.errors import UserFunctionError
from headgate.graph.logical import WindowNode
from headgate.records.packed_rows import times_of
from headgate.records.row import Row
from headgate.runtime.worker.operators.keyed_run import KeyedRun
from headgate.runtime.worker.operators.windows_of_rows import records_together
from headgate.runtime.worker.operators.windows_of_rows.groups_of_rows_ahead import RescaledRowWindows
from headgate.state.backends import RocksBackends
from headgate.state.snapshots import Inline

LATE = hg.OutputTag("late")
END = 2**63 - 1
NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
Results = Callable[[Any], Any]

SHAPES: dict[str, Callable[[], Any]] = {
    "tumbling": lambda: hg.tumbling(50),
    "tumbling, moved": lambda: hg.tumbling(50, offset=15),
    "sliding": lambda: hg.sliding(60, 20),
    "sliding, not divided": lambda: hg.sliding(50, 30, offset=7),
    "cumulative": lambda: hg.cumulative(60, 20),
    "sessions": lambda: hg.session(20),
    "counts": lambda: hg.count_window(3),
    "sliding counts": lambda: hg.count_window(3, 2),
    "processing time": lambda: hg.tumbling(50, time="processing"),
}
RULES: dict[str, Callable[[Any], Any]] = {
    "usual": lambda windows: windows,
    "patient": lambda windows: windows.lateness(40).late_to(LATE),
    "late rows": lambda windows: windows.late_to(LATE),
    "early": lambda windows: windows.trigger(hg.every_count(2)),
    "evicting": lambda windows: windows.evict(hg.last_records(2)),
}


@pytest.fixture(autouse=True, scope="module")
def all_wait() -> Iterator[None]:
    """Records wait also where a window has few of them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(records_together, "LEAST_IN_WINDOW", 1)
        yield


class Longest(hg.Aggregate):
    """An aggregate of a program: it depends on the order."""

    name = "texts"
    keeps = (("text", str),)
    start = ("",)

    def add(self, kept: Any, at: int, value: Any) -> None:
        kept[at] = f"{kept[at]}{value},"

    def merge(self, kept: Any, at: int, other: Any) -> None:
        kept[at] += other[at]


def whole(key: Any, window: hg.Window, records: Sequence[Any], ctx: hg.WindowContext) -> Any:
    """All that a function can see."""
    ctx.state["n"] = ctx.state.get("n", 0) + 1 if window.end else 0
    if len(records) > 2:
        ctx.side_output(LATE, {"k": key, "n": ctx.state["n"], "of": window.start})
    yield key, window, [plain(record) for record in records], ctx.watermark


def whole_of_sessions(key: Any, window: hg.Window, records: Sequence[Any], ctx: hg.WindowContext) -> Any:
    """Sessions have no state."""
    yield key, window, [plain(record) for record in records], ctx.watermark


def joined(left: Any, right: Any) -> Any:
    """Depends on the order, so that a wrong one shows."""
    return {**plain(left), "v": f"{plain(left)['v']}+{plain(right)['v']}"}


def plain(record: Any) -> dict[str, Any]:
    """A record as a dict, whatever it came as."""
    return record.as_dict() if isinstance(record, Row) else dict(record)


def processed(windows: Any) -> Any:
    """By a function of whole windows."""
    merges = windows._rules.assigner.merges
    return windows.process(whole_of_sessions if merges else whole, uid="op")


FUNCTIONS: dict[str, Results] = {
    "process": processed,
    "reduce": lambda windows: windows.reduce(joined, uid="op"),
    "aggregate": lambda windows: windows.aggregate(
        uid="op",
        texts=Longest("v"),
        n=hg.count(),
        least=hg.min(lambda each: str(each["v"])),
        all=hg.collect_list("t"),
    ),
}


def operator(shape: str, rule: str, function: str, **changes: Any) -> RescaledRowWindows:
    """The operator of the windows of a program."""
    env = hg.Environment(parallelism=1)
    stream = env.from_collection([{"k": 0}]).with_event_time(lambda record: 0)
    windows = RULES[rule](stream.key_by("k").window(SHAPES[shape]()))
    FUNCTIONS[function](windows).collect_later()
    node = next(node for node in env.program.nodes() if isinstance(node, WindowNode))
    return RescaledRowWindows(context(**changes), copy.copy(node.function), node.key, node.keys)


class Side:
    """One of the two operators, over restarts."""

    def __init__(self, together: bool, *asked: str, **changes: Any) -> None:
        self.together, self.asked, self.changes, self.notes_ends = together, asked, changes, False
        self.log: list[Any] = []
        self.dropped = self.slices = 0
        self.open()

    def open(self, **changes: Any) -> None:
        """Build it anew."""
        self.operator = operator(*self.asked, **self.changes, **changes)
        if self.notes_ends:
            self.operator._function.ends_at_once = False  # type: ignore[union-attr]
        self.out, sides = opened(self.operator, "late")
        self.late = sides["late"]
        if not self.together:
            self.operator._usual, self.operator._ends, self.operator.recent = KeyedRun, None, None

    def watermark(self, timestamp: int) -> None:
        """Fire timers, slice after slice."""
        self.operator.watermark(timestamp)
        while self.operator.busy:
            self.slices += 1
            self.operator.go_on()

    def restart(self) -> None:
        """Go on from a snapshot."""
        self.take()
        self.open(restored=[finished(self.operator.snapshot(1))])

    def take(self) -> list[Any]:
        """Everything that came out."""
        self.log += [(str(record), *times) for record, *times in self.out.timed()]
        self.log += [("late", plain(record), *times) for record, *times in self.late.timed()]
        self.dropped += self.operator._function.dropped  # type: ignore[union-attr]
        return self.log

    def measured(self) -> dict[str, int]:
        """Metrics, without that of timers: windows of records that wait have none yet."""
        found = self.operator.measured()
        return {name: value for name, value in found.items() if "timers_pending" not in name}

    def state(self) -> Any:
        """What is stored, timers in their order; of kept records alike however they came."""
        if self.operator.recent is not None:
            self.operator.recent.flush()
        tables = {name: dict(handle.table.entries) for name, handle in self.operator._backend.handles.items()}
        runs, records = tables.pop("runs", {}), tables.pop("records", {})
        kept: dict[Any, Any] = {}
        for key in [*records, *(key for key in runs if key not in records)]:
            places = {at: (stored.timestamp, stored.record) for at, stored in records.get(key, {}).items()}
            for (start, end, first), run in runs.get(key, {}).items():
                singles = zip(times_of(run), records_of_runs([run]), strict=True)
                for place, (time, record) in enumerate(singles, start=first):
                    places[start, end, place] = (time, plain(record))
            kept[key] = sorted(places.items())
        timers = self.operator._backend.event_timers
        ordered = [(time, list(keys)) for time, keys in sorted(timers._buckets.items()) if keys]
        # The order of keys in a table decides nothing: windows that never were in state are not in it.
        by_key = {name: sorted(table.items(), key=repr) for name, table in tables.items()}
        return by_key, kept, ordered


RECORDS = st.lists(st.tuples(st.integers(0, 3), st.integers(-60, 200), st.integers(0, 9)), max_size=30)
BATCHES = st.lists(st.tuples(RECORDS, st.sampled_from(["rows", "columns"]), st.booleans()), max_size=5)


def feed(side: Side, batches: Sequence[Any], disorder: int, keys: Callable[[int], Any]) -> None:
    """Send all batches, with watermarks as `with_event_time` gives them."""
    latest = -(2**63)
    for place, (records, form, restarts) in enumerate(batches):
        if restarts:
            side.restart()
        found, times, marks = [], [], []
        for key, at, value in records:
            marks.append(latest)
            times.append(at)
            found.append({"k": keys(key), "v": value, "t": NOON + dt.timedelta(milliseconds=at)})
            latest = max(latest, at - disorder - 1)
        if found:
            side.operator.process((columns if form == "columns" else rows)(found, times, marks))
        if place % 2:
            side.watermark(max(latest, side.operator._mark))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("shape", SHAPES)
@given(
    batches=BATCHES,
    disorder=st.sampled_from([0, 25, 400]),
    keys=st.sampled_from([lambda key: key, lambda key: f"k{key}", lambda key: key / 2]),
    slice_ms=st.sampled_from([None, 0]),
)
@settings(max_examples=12, deadline=None)
def test_together_is_as_one_after_the_other(
    shape: str,
    rule: str,
    function: str,
    batches: Any,
    disorder: int,
    keys: Callable[[int], Any],
    slice_ms: int | None,
) -> None:
    """Results with their order and times, late records, state and timers with their order, metrics."""
    if rule in ("patient", "late rows") and shape in ("counts", "sliding counts", "processing time"):
        return
    sides = [Side(together, shape, rule, function, step_target_ms=slice_ms) for together in (True, False)]
    for side in sides:
        feed(side, batches, disorder, keys)
    assert sides[0].state() == sides[1].state()
    for side in sides:
        side.watermark(END)
    assert sides[0].take() == sides[1].take()
    assert sides[0].dropped == sides[1].dropped
    assert sides[0].slices == sides[1].slices
    assert sides[0].state() == sides[1].state()
    assert sides[0].measured() == sides[1].measured()


ENDING = [shape for shape in SHAPES if shape.startswith(("tumbling", "sliding", "cumul"))][:5]
"""Windows whose end follows from a time."""


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("shape", ENDING)
@given(batches=BATCHES, more=BATCHES)
@settings(max_examples=10, deadline=None)
def test_what_noted_ends_before_is_restored(shape: str, function: str, batches: Any, more: Any) -> None:
    """Earlier versions noted each end in the state `due`; such windows end as all others."""
    sides = [Side(together, shape, "usual", function) for together in (True, False, True)]
    sides[2].notes_ends = True
    for side in sides:
        side.open()
        feed(side, batches, 25, str)
        side.notes_ends = False
        side.restart()
        feed(side, more, 400, str)
        side.watermark(END)
    assert sides[0].take() == sides[1].take()
    assert sorted(map(str, sides[0].log)) == sorted(map(str, sides[2].take()))
    assert [side.state() for side in sides[1:]] == [sides[0].state()] * 2


@pytest.mark.parametrize("rule", ["patient", "early", "evicting"])
@pytest.mark.parametrize("shape", ENDING)
def test_windows_whose_end_was_not_noted_end_under_other_rules(shape: str, rule: str) -> None:
    """A later program has another trigger, evictor or lateness: no window is left without an end."""
    side = Side(True, shape, "usual", "process")
    feed(side, [([(n % 2, n, n) for n in range(20)], "columns", False)], 400, str)
    assert not side.operator._backend.handles["due"].table.entries
    side.asked = (shape, rule, "process")
    side.restart()
    side.watermark(END)
    assert bool(side.out.timed()) == (rule != "early")
    assert side.state() == ({name: [] for name in ("windows", "due", "remembered")}, {}, [])


@pytest.mark.parametrize("slice_ms", [None, 0])
@pytest.mark.parametrize("together", [True, False])
def test_a_snapshot_between_two_ends(together: bool, slice_ms: int | None) -> None:
    """After a slice of ends the others are in the snapshot, and only they."""
    side = Side(together, "tumbling", "usual", "process", step_target_ms=slice_ms)
    feed(side, [([(n % 5, n % 50, n) for n in range(40)], "columns", False)], 400, str)
    side.operator.watermark(49)
    assert side.operator.busy == (slice_ms == 0)
    side.restart()
    while side.operator.busy:
        side.operator.go_on()
    assert [entry[0][:5] for entry in side.take() if entry[0] != "late"] == [f"('{n}'," for n in range(5)]


def test_an_error_at_an_end_names_key_and_time() -> None:
    """Of all windows that end together, that of which the function was called."""

    def picky(key: Any, window: hg.Window, records: Sequence[Any], ctx: hg.WindowContext) -> Any:
        if key == "3":
            raise ValueError("three")
        yield key

    FUNCTIONS["picky"] = lambda windows: windows.process(picky, uid="op")
    told = []
    try:
        for together in (True, False):
            side = Side(together, "tumbling", "usual", "picky")
            feed(side, [([(n % 5, n % 50, n) for n in range(40)], "columns", False)], 400, str)
            with pytest.raises(UserFunctionError, match="timer of key '3' at 49") as caught:
                side.watermark(END)
            told.append((caught.value.args[1], caught.value.args[-1], side.operator._ctx.key))
    finally:
        del FUNCTIONS["picky"]
    assert told[0] == told[1]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("form", ["columns", "rows"])
def test_a_function_that_changes_records_changes_no_snapshot(form: str, together: bool) -> None:
    """A snapshot is written while windows end: what their functions get is not what is written."""

    def spoiling(key: Any, window: hg.Window, records: Sequence[Any], ctx: hg.WindowContext) -> Any:
        yield key, str([plain(record) for record in records])
        for record in records:
            record["v"].append("spoilt")
            if isinstance(record, dict):
                record["t"] = "spoilt"

    FUNCTIONS["spoiling"] = lambda windows: windows.process(spoiling, uid="op")
    try:
        side = Side(together, "tumbling", "usual", "spoiling")
        feed(side, [([(n % 2, n % 50, [n]) for n in range(40)], form, False)], 400, str)
        pending = side.operator.snapshot(1)
        side.watermark(END)
        before, side.log = str(side.take()), []
        side.open(restored=[finished(pending)])
        side.watermark(END)
    finally:
        del FUNCTIONS["spoiling"]
    assert str(side.take()) == before
    assert "spoilt" not in before


@pytest.mark.parametrize("shape", ["tumbling", "sliding"])
def test_records_are_kept_in_runs(shape: str) -> None:
    """The way of many records is taken at all: a key's rows of a window are one entry."""
    side = Side(True, shape, "usual", "process")
    feed(side, [([(n % 2, 100 + n // 2, n) for n in range(20)], "columns", False)], 400, str)
    side.state()
    runs = side.operator._backend.handles["runs"].table.entries
    assert {key: sorted({run.size for run in found.values()}) for key, found in runs.items()} == {
        "0": [10],
        "1": [10],
    }


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rule", ["usual", "patient", "evicting"])
def test_which_windows_end_together(shape: str, rule: str) -> None:
    """Those whose end follows from a time, and at which nothing else happens."""
    if rule == "patient" and shape in ("counts", "sliding counts", "processing time"):
        return
    for function in FUNCTIONS:
        side = Side(True, shape, rule, function)
        assert (side.operator._ends is not None) == (rule == "usual" and shape in ENDING)


def test_windows_in_rocksdb_end_one_by_one(tmp_path: Path) -> None:
    """Its maps are not read for many keys at once; only what is not in state yet ends together."""
    for function in FUNCTIONS:
        side = Side(True, "tumbling", "usual", function, backends=RocksBackends(1 << 24, str(tmp_path), True))
        ends = side.operator._ends
        assert (ends is not None and not ends._in_memory) if function == "process" else ends is None
        side.operator.close()


def test_windows_restore_runs_under_another_trigger_and_an_evictor() -> None:
    """Records that came together are read one by one where a later program needs that."""
    side = Side(True, "tumbling", "usual", "process")
    records = [(0, n, n) for n in range(20)]
    feed(side, [(records, "columns", False)], 400, str)
    side.asked = ("tumbling", "evicting", "process")
    side.restart()
    side.watermark(END)
    ((found, *_),) = side.out.timed()
    assert [record["v"] for record in found[2]] == [18, 19]
    assert side.state() == ({name: [] for name in ("windows", "due", "remembered")}, {}, [])


def runs_of_both_forms() -> list[Any]:
    """Batches of columns and of dicts, whose runs are rows and records as they are."""
    records = [(n % 2, 100 + n // 2, n) for n in range(20)]
    return [(records, "columns", False), (records, "rows", False)]


def test_runs_are_in_rocksdb_and_in_its_snapshots(tmp_path: Path) -> None:
    """Written, evicted, stored and read again, they give what the heap gives."""
    found = []
    for backends in (None, RocksBackends(1 << 24, str(tmp_path), True)):
        side = Side(True, "sliding", "usual", "process", backends=backends)
        feed(side, runs_of_both_forms(), 400, str)
        side.watermark(END)
        found.append(side.take())
        side.operator.close()
    assert found[0] == found[1]
    assert len(found[0]) > 4


def test_runs_are_in_tables_of_a_savepoint() -> None:
    """A canonical savepoint holds them, and a restore reads them."""
    side = Side(True, "tumbling", "usual", "process")
    feed(side, runs_of_both_forms(), 400, str)
    keyed = finished(side.operator.snapshot(1)).keyed
    assert keyed is not None
    assert isinstance(keyed.handle, Inline)
    files: dict[str, io.BytesIO] = {}

    def create(name: str) -> io.BytesIO:
        return files.setdefault(name, io.BytesIO())

    targets = side.operator._backend.targets
    write_tables(keyed.handle.data, create, targets)
    tables = [table_of(name, stream.getvalue()) for name, stream in files.items()]
    stored = SubtaskTables((0, 127), tables)
    read = {
        name: dict(zip(keys, values))
        for name, keys, values in restored_tables([stored], targets, (0, 127), 128)
    }
    live = side.operator._backend.handles["runs"].table.entries
    assert read["runs"] == dict(live)
    assert {run.shape != "" for found in live.values() for run in found.values()} == {True, False}


def test_an_error_names_the_record() -> None:
    """Of all that are added together, that which the function had."""

    def picky(left: Any, right: Any) -> Any:
        if right["v"] == 7:
            raise ValueError("seven")
        return right

    FUNCTIONS["picky"] = lambda windows: windows.reduce(picky, uid="op")
    try:
        side = Side(True, "tumbling", "usual", "picky")
    finally:
        del FUNCTIONS["picky"]
    with pytest.raises(UserFunctionError, match=r"'v': 7|v=7"):
        feed(side, [([(0, n, n) for n in range(20)], "columns", False)], 400, str)


def test_far_times_are_not_added_in_numpy() -> None:
    """Where 64 bits would overflow, records go one after the other."""
    side = Side(True, "tumbling", "usual", "reduce")
    far = 2**62
    side.operator.process(rows([{"k": 0, "v": n, "t": None} for n in range(10)], [far] * 10, np.zeros(10)))
    side.watermark(END)
    assert len(side.out.timed()) == 1
