"""What a checkpoint with a changelog holds, what it refers to, and who reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from changelog_bench import GROUPS, INTERVAL_MS, ChangelogBench, put

import headgate as hg
from headgate.api.declared.keyed_states import ListState, ValueState, declared_state, list_state, value_state
from headgate.common.errors import DamagedFileError, InternalError, StorageError, UsageError
from headgate.records.row_batch import RowBatch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.runtime.worker.operators.keyed_state import open_backend
from headgate.state.backends import ChangelogBackends, HeapBackends
from headgate.state.changelog import backend
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.snapshots import (
    FileRange,
    Inline,
    KeyedStateHandle,
    OperatorSubtaskState,
    StateHandle,
    size_of,
)
from headgate.testing.suites.value_checks import snapshot_blob


@pytest.fixture
def bench(tmp_path: Path) -> ChangelogBench:
    """A job with one subtask."""
    made = ChangelogBench(tmp_path)
    made.start()
    return made


def many(count: int, mark: int = 1) -> dict[Any, int]:
    """So many keys that their segment is a file."""
    return dict.fromkeys((f"key {n:04d} of a name that takes some room" for n in range(count)), mark)


def test_a21_a_checkpoint_holds_what_changed_since_the_last_complete_one(bench: ChangelogBench) -> None:
    """The base stays where it is; the new bytes are those of the changed entries."""
    put(bench, many(1_000))
    one = bench.checkpoint(1)
    put(bench, many(20, 2))
    two = bench.checkpoint(2)
    assert (one.log, two.handle, len(two.log)) == ([], one.handle, 1)
    assert size_of(two.log[0]) < one.size / 15
    assert two.size == one.size + size_of(two.log[0])
    assert bench.stored()["count"] == many(1_000) | many(20, 2)
    bench.check_storage()


def test_nothing_changed_nothing_is_written(bench: ChangelogBench) -> None:
    """Reading is no change, and neither is a write that is taken back before it is stored."""
    put(bench, many(50))
    one = bench.checkpoint(1)
    subtask = bench.of(next(iter(many(1))))
    assert subtask.handles["count"].value == 1
    assert subtask.handles["log"].get() == []
    assert subtask.handles["most"].get() is None
    subtask.store()
    drawn = bench.draw(2)
    assert bench.complete(drawn)[0].handles() == one.handles()
    assert drawn.finished[0].bytes_written == 0


def test_what_is_removed_stays_removed(bench: ChangelogBench) -> None:
    """In each kind of state, and of timers."""
    for number in range(3):
        subtask = bench.of(number)
        subtask.handles["count"].value = 1
        subtask.handles["bag"].value.append(1)
        subtask.handles["log"].add([1])
        subtask.handles["totals"].put("x", [1])
        subtask.handles["most"].add(1)
        subtask.event_timers.register(number, number)
        subtask.store()
    bench.checkpoint(1)
    subtask = bench.of(1)
    for handle in subtask.handles.values():
        handle.clear()
    subtask.store()
    subtask.event_timers.delete(1, 1)
    assert list(subtask.event_timers.pop_due(0)) == [(0, 0)]
    handle = bench.checkpoint(2)
    assert len(handle.log) == 1
    found = bench.stored()
    assert found == bench.contents()
    assert found["event"] == {(2, 2)}
    assert [sorted(found[name]) for name in ("count", "bag", "log", "totals", "most")] == [[0, 2]] * 5


def test_what_changes_after_the_cut_is_not_in_the_segment(bench: ChangelogBench) -> None:
    """A list is taken as it was when the barrier came, however late it is written."""
    subtask = bench.of("a")
    subtask.handles["bag"].value.append(1)
    bench.checkpoint(1)
    subtask.settle()
    bench.of("a").handles["bag"].value.append(2)
    drawn = bench.draw(2)
    bench.of("a").handles["bag"].value.append(3)
    put(bench, {"a": 9})
    bench.complete(drawn)
    assert bench.stored() == drawn.expected


def test_an_aborted_checkpoint_is_followed_by_nobody(bench: ChangelogBench) -> None:
    """Its changes come with the next one, and its file goes."""
    put(bench, many(30))
    bench.checkpoint(1)
    put(bench, many(20, 2))
    bench.abort(bench.draw(2))
    put(bench, many(10, 3))
    three = bench.checkpoint(3)
    assert len(three.log) == 1
    assert bench.stored()["count"] == many(30) | many(20, 2) | many(10, 3)
    bench.check_storage()


def test_a_small_segment_is_replaced_and_a_large_one_followed(bench: ChangelogBench) -> None:
    """What travels in the metadata would do so in every checkpoint to come."""
    put(bench, many(30))
    bench.checkpoint(1)
    kinds: list[list[type[StateHandle]]] = []
    for number in range(2, 6):
        put(bench, {f"k{number}": number})
        kinds.append([type(each) for each in bench.checkpoint(number).log])
    assert kinds == [[Inline]] * 4
    put(bench, many(30, 2))
    assert [type(each) for each in bench.checkpoint(6).log] == [FileRange]
    put(bench, {"k6": 6})
    assert [type(each) for each in bench.checkpoint(7).log] == [FileRange, Inline]
    assert bench.stored()["count"] == many(30, 2) | {f"k{number}": number for number in range(2, 7)}


def test_the_log_begins_anew_when_its_time_has_come(bench: ChangelogBench) -> None:
    """An aborted materialisation changes nothing but that the next checkpoint is one too."""
    put(bench, many(30))
    one = bench.checkpoint(1)
    put(bench, many(20, 2))
    assert bench.checkpoint(2).handle == one.handle
    bench.clock.advance(INTERVAL_MS)
    bench.abort(bench.draw(3))
    put(bench, many(10, 3))
    four = bench.checkpoint(4)
    assert (four.log, "chk-4" in four.handle.file) == ([], True)  # type: ignore[union-attr]
    assert bench.stored()["count"] == many(30) | many(20, 2) | many(10, 3)
    put(bench, many(20, 5))
    assert len(bench.checkpoint(5).log) == 1
    bench.check_storage()


@pytest.mark.parametrize(
    ("limit", "value", "state"),
    [("SEGMENTS_MAX", 1, "count"), ("LOG_BYTES_MIN", 1, "count"), ("CHANGES_MAX", 19, "bag")],
)
def test_a_log_that_is_too_long_begins_anew(
    bench: ChangelogBench, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, state: str
) -> None:
    """By segments, by bytes beside those of the base, or by entries that would be copied in the pause."""
    put(bench, many(20))
    bench.checkpoint(1)
    for number in (2, 3):
        put(
            bench, {key: [n] for n, key in enumerate(many(20))} if state == "bag" else many(20, number), state
        )
        logged = len(bench.checkpoint(number).log)
    assert logged == 2
    monkeypatch.setattr(backend, limit, value)
    put(bench, {key: [9] for key in many(20)} if state == "bag" else many(20, 9), state)
    assert bench.checkpoint(4).log == []
    assert bench.stored() == bench.contents()


def test_two_at_a_time_never_refer_to_what_the_other_s_completion_deletes(bench: ChangelogBench) -> None:
    """4 is drawn when 2 is complete and 3 is not: 3 does not refer to 2's segment, so 4 may not either."""
    put(bench, many(30))
    bench.checkpoint(1)
    put(bench, many(20, 2))
    two = bench.draw(2)
    put(bench, many(20, 3))
    three = bench.draw(3)
    bench.complete(two)
    put(bench, many(20, 4))
    four = bench.draw(4)
    bench.complete(three)
    assert bench.complete(four)[0].log == []
    assert bench.stored()["count"] == many(30) | many(20, 4)
    put(bench, many(20, 5))
    assert len(bench.checkpoint(5).log) == 1
    bench.check_storage()


def test_a_restart_goes_on_with_the_log(bench: ChangelogBench) -> None:
    """With the same key groups; at another parallelism the first checkpoint is whole."""
    put(bench, many(200))
    one = bench.checkpoint(1)
    put(bench, many(20, 2))
    two = bench.checkpoint(2)
    bench.restart()
    put(bench, many(10, 3))
    three = bench.checkpoint(3)
    assert (three.handle, three.log[:1]) == (one.handle, two.log)
    assert bench.stored()["count"] == many(200) | many(20, 2) | many(10, 3)
    bench.restart(2)
    put(bench, many(5, 4))
    assert [handle.log for handle in bench.complete(bench.draw(4))] == [[], []]
    assert bench.stored(3)["count"] == many(200) | many(20, 2) | many(10, 3) | many(5, 4)
    bench.check_storage()


def test_files_of_another_job_are_never_referred_to(bench: ChangelogBench) -> None:
    """Also when its checkpoint has the number that this job's newest one has: the whole state is written."""
    put(bench, many(200))
    bench.checkpoint(1)
    put(bench, many(20, 2))
    handle = bench.checkpoint(2)
    bench.restart()
    bench.job = "later"
    put(bench, many(10, 3))
    (snapshot,) = bench.finish(bench.draw(3, completed=2))
    written = snapshot.operators[0].keyed
    assert written is not None
    assert (written.log, snapshot.files_shared, written.handle == handle.handle) == ([], 0, False)


def flipped(handle: StateHandle, bench: ChangelogBench, place: int) -> StateHandle:
    """The same bytes but for one bit, as metadata would have them."""
    if isinstance(handle, FileRange):
        data = bytearray(bench.disk.read_range(handle.file, handle.offset, handle.length))
    else:
        data = bytearray(handle.data)
    data[place % len(data)] ^= 1 << place % 8
    return Inline(bytes(data))


def test_a_flipped_bit_in_a_segment_is_refused_by_name(bench: ChangelogBench) -> None:
    """Wherever it is, also where the checksum of the file does not help."""
    put(bench, many(30))
    bench.checkpoint(1)
    put(bench, many(20, 2))
    bench.of("x").event_timers.register(7, "x")
    handle = bench.checkpoint(2)
    size = size_of(handle.log[0])
    for place in range(0, size, 13):
        damaged = msgspec.structs.replace(handle, log=[flipped(handle.log[0], bench, place)])
        with pytest.raises(StorageError, match=r"segment 1 of 1 of the changelog: "):
            restored(bench, damaged)
    cut = msgspec.structs.replace(handle, log=[Inline(flipped(handle.log[0], bench, 0).data[: size // 2])])  # type: ignore[union-attr]
    with pytest.raises(StorageError, match="segment 1 of 1"):
        restored(bench, cut)


def test_a_damaged_file_of_a_segment_is_named(bench: ChangelogBench) -> None:
    """Before anything of it is decoded, and as damage, for which the driver names an older checkpoint."""
    put(bench, many(30))
    bench.checkpoint(1)
    put(bench, many(20, 2))
    handle = bench.checkpoint(2)
    wrong = msgspec.structs.replace(handle.log[0], crc32=1)
    with pytest.raises(DamagedFileError, match=r"segment 1 of 1 .*chk-2/.* is damaged"):
        restored(bench, msgspec.structs.replace(handle, log=[wrong]))


def restored(bench: ChangelogBench, handle: KeyedStateHandle, states: Any = None) -> Any:
    """A subtask without a changelog that begins with a handle."""
    context = OperatorContext("op", "op", 0, 1, 1, bench.job, GROUPS, bench.clock, [], bench.disk)
    context.restored = [OperatorSubtaskState("op", handle)]
    return open_backend(context, declared_state((states or bench.states)()), (0, GROUPS - 1), lambda: 0)


class Ending:
    seen: ListState[int] = list_state(ttl=hg.StateTtl("10ms"))
    last: ValueState[list[int]] = value_state(default_factory=list, ttl=hg.StateTtl("10ms"))


def test_what_has_outlived_its_time_does_not_come_back_with_a_segment(tmp_path: Path) -> None:
    """Values and the times they were written at stay together, in bases and in segments."""
    bench = ChangelogBench(tmp_path, states=Ending)
    bench.start()
    for key in range(5):
        subtask = bench.of(key)
        subtask.handles["seen"].add(1)
        subtask.handles["last"].value = [1]
        subtask.store()
    bench.clock.advance(20)
    bench.checkpoint(1)
    assert list(bench.subtasks[0].keys("last")) == []  # it looks at all of them
    subtask = bench.of(1)
    subtask.handles["seen"].add(2)
    subtask.store()
    assert len(bench.checkpoint(2).log) == 1
    bench.restart()
    subtask = bench.of(0)
    assert (subtask.handles["seen"].get(), subtask.handles["last"].value) == ([], [])
    assert bench.of(1).handles["seen"].get() == [2]
    assert bench.of(2).handles["last"].value == []


class OfInts:
    v: ValueState[int] = value_state(default=0)
    more: ListState[int] = list_state()


class OfFloats:
    v: ValueState[float] = value_state(default=0.0)
    more: ListState[float] = list_state()


class OfNames:
    v: ValueState[str] = value_state(default="")
    more: ListState[int] = list_state()


def test_base_and_segments_each_follow_the_declared_type(tmp_path: Path) -> None:
    """Int in the base and the first segment, float in the second; all are read as float."""
    bench = ChangelogBench(tmp_path, states=OfInts)
    bench.start()
    put(bench, dict.fromkeys(range(40), 1), "v")
    bench.checkpoint(1)
    put(bench, dict.fromkeys(range(30), 2), "v")
    bench.of(5).handles["more"].add(7)
    bench.checkpoint(2)
    bench.states = OfFloats
    bench.restart()
    put(bench, dict.fromkeys(range(20), 3.5), "v")
    handle = bench.checkpoint(3)
    assert len(handle.log) == 2
    expected = dict.fromkeys(range(40), 1.0) | dict.fromkeys(range(30), 2.0) | dict.fromkeys(range(20), 3.5)
    found = bench.stored()
    assert (found["v"], found["more"]) == (expected, {5: [7.0]})
    assert {type(value) for value in found["v"].values()} == {float}
    with pytest.raises(UsageError, match=r"state 'v' of the checkpoint cannot be read as the program"):
        restored(bench, handle, OfNames)


def test_a_state_that_came_and_went_within_the_log_need_not_be_declared(tmp_path: Path) -> None:
    """Its removals name it, and nothing else does."""

    class Before:
        v: ValueState[int] = value_state(default=0)
        gone: ValueState[int] = value_state(default=0)

    class After:
        v: ValueState[int] = value_state(default=0)

    bench = ChangelogBench(tmp_path, states=Before)
    bench.start()
    put(bench, {1: 1}, "v")
    bench.checkpoint(1)
    put(bench, {1: 5}, "gone")
    put(bench, {1: 0}, "gone")
    bench.checkpoint(2)
    bench.states = After
    assert bench.stored()["v"] == {1: 1}


def test_a_snapshot_of_changes_is_never_taken_for_a_whole_one(bench: ChangelogBench) -> None:
    """Who asks for all state at once is told."""
    put(bench, many(3))
    bench.checkpoint(1)
    with pytest.raises(InternalError, match="holds changes only"):
        snapshot_blob(bench.subtasks[0].snapshot_sync(2, 1))
    blob = snapshot_blob(bench.subtasks[0].snapshot_sync())
    plain = HeapKeyedBackend(declared_state(bench.states()), 0, GROUPS - 1, GROUPS)
    plain.restore([_Bytes(blob)])
    assert dict(plain.scan("count")) == many(3)


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data, self.size = data, len(data)

    def read(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]


class Busy(hg.KeyedProcessFunction[int, int, Any]):
    """State that is read, set, cleared and changed in place, and timers that do the same."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    last: hg.ValueState[list[int]] = hg.value_state(default_factory=list)

    def process(self, record: int, ctx: hg.Context[int]) -> None:
        if record % 3:
            self.count.value += 1
        elif record % 2:
            self.count.clear()
        if record % 5 == 0:
            self.last.value.append(record)
            ctx.timers.register_processing_time(record)

    def on_timer(self, timestamp: int, ctx: hg.OnTimerContext[int]) -> None:
        self.count.value += 100
        self.last.clear()


def test_the_generated_loop_and_timers_leave_nothing_out(tmp_path: Path) -> None:
    """Through the operator, after each batch: what a restore would give is what is in the state."""
    bench = ChangelogBench(tmp_path, states=Busy)
    context = OperatorContext("op", "op", 0, 1, 1, "job", GROUPS, bench.clock, [], bench.disk)
    context.backends = ChangelogBackends(HeapBackends(), 10 * INTERVAL_MS, bench.clock, 0)
    operator = KeyedProcessOperator(context, Busy(), lambda record: record % 7)
    operator.next = _Nobody()
    operator.open()
    bench.subtasks = [operator._backend]
    logged = 0
    for number in range(1, 9):
        operator.process(RowBatch(list(range(number * 11, number * 11 + 9))))
        if number % 3 == 0:
            operator.fire_processing_time(number * 11)
        logged = max(logged, len(bench.checkpoint(number).log))
        assert bench.stored() == bench.contents()
    assert logged


class _Nobody:
    """Follows the operator."""

    def process(self, batch: Any) -> None: ...
    def watermark(self, timestamp: int) -> None: ...
    def idle(self) -> None: ...
    def end_of_data(self) -> None: ...
