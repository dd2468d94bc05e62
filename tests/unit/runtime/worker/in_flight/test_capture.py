"""Capturing records in flight: order, spilling, bounds, failures and giving up, with real files."""

from __future__ import annotations

import dataclasses
import errno
import gc
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.checkpoint.data_files import read_handle
from headgate.checkpoint.storage import local
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import InternalError, StorageError
from headgate.common.ids import AttemptId, Fence, Generation, JobId, SubtaskId, SubtaskIndex, VertexId
from headgate.common.process.system import BackgroundThread
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.protocol.elements import Barrier, Idle, Watermark
from headgate.runtime.worker.in_flight.gathering import (
    CaptureLimits,
    InFlightCapture,
    StreamKey,
    TooMuchInFlightError,
)
from headgate.runtime.worker.in_flight.stored_parts import NotStorableError, decode_elements
from headgate.runtime.worker.snapshot.snapshot_writer import SnapshotWriter
from headgate.state.snapshots import FileRange, InFlightStream, Inline, StateHandle

TASK = SubtaskId(VertexId(2), SubtaskIndex(1))
FOLDER = "job/chk-7"


@dataclasses.dataclass
class Point:
    x: int


class Plain:
    """Only pickle could carry it."""


class ManualBackground:
    """Runs a job when a test says so."""

    def __init__(self) -> None:
        self.jobs: deque[Any] = deque()

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self.jobs.append((work, done))

    def run(self) -> bool:
        """One job; False when there is none."""
        if not self.jobs:
            return False
        work, done = self.jobs.popleft()
        try:
            result, failure = work(), None
        except Exception as error:
            result, failure = None, error
        done(result, failure)
        return True

    def run_all(self) -> None:
        while self.run():
            pass


class Setup:
    """A capture on a real folder, and what it has reported."""

    def __init__(
        self,
        root: Path,
        part_bytes: int = 1_000,
        total_bytes: int = 1 << 30,
        inline_max: int = 0,
        keyed: bool = False,
        background: Any = None,
        record_type: Any = None,
    ) -> None:
        self.disk = LocalDisk(root)
        self.writer = SnapshotWriter(self.disk, inline_max, Fence(JobId("job"), Generation(3), AttemptId(4)))
        self.background = ManualBackground() if background is None else background
        self.reports: list[tuple[list[InFlightStream] | None, BaseException | None]] = []
        self.reported = threading.Event()
        self.codec = ElementCodec(record_type)
        self.number = 0
        self.capture = InFlightCapture(
            lambda key: self.codec,
            lambda key: (lambda batch: np.arange(len(batch))) if keyed else None,
            self.store,
            self.writer.delete,
            self.background,
            CaptureLimits(part_bytes, total_bytes),
            self.finished,
        )

    def store(self, sections: Sequence[Any]) -> list[StateHandle]:
        self.number += 1
        return self.writer.store_sections(TASK, 7, self.number, sections)

    def finished(self, streams: list[InFlightStream] | None, error: BaseException | None) -> None:
        self.reports.append((streams, error))
        self.reported.set()

    def files(self) -> list[str]:
        """All of the folder."""
        return list(self.disk.list("")) + list(self.disk.temporaries(""))

    def streams(self) -> list[InFlightStream]:
        """What was reported, through bytes as the acknowledgement does."""
        ((streams, error),) = self.reports
        assert error is None
        assert streams is not None
        return msgspec.msgpack.decode(msgspec.msgpack.encode(streams), type=list[InFlightStream])

    def error(self) -> BaseException:
        """The failure that was reported."""
        ((streams, error),) = self.reports
        assert streams is None
        assert error is not None
        return error

    def contents(self) -> dict[tuple[Any, ...], list[Any]]:
        """Elements per stream as stored."""
        found = {}
        for stream in self.streams():
            elements = []
            for part in stream.parts:
                data = read_handle(self.disk, part.handle)
                assert len(data) == part.size
                decoded = [element for element, _ in decode_elements(data, self.codec)]
                assert part.records == sum(len(e) for e in decoded if isinstance(e, RowBatch))
                elements += decoded
            found[stream.sender, stream.level, stream.from_output] = plain(elements)
        return found


def key(sender: str = "a", level: int = 0, from_output: bool = False) -> StreamKey:
    """A stream of one receiver."""
    return StreamKey("sum", sender, None, 0, 1, level, from_output)


def rows(*records: Any) -> RowBatch:
    """A batch without event times."""
    return RowBatch(list(records))


def plain(elements: Sequence[Any]) -> list[Any]:
    """Comparable elements."""
    return [e.records if isinstance(e, RowBatch) else e for e in elements]


def test_streams_are_reported_with_all_they_hold(tmp_path: Path) -> None:
    """Order within a stream, where its event time begins, empty streams, keys and descriptions."""
    setup = Setup(tmp_path, keyed=True, record_type=Point)
    capture = setup.capture
    capture.begin(key("a"), 5, False)
    capture.begin(key("b"), None, True)
    capture.add(key("a"), rows(1, "x"))
    capture.add(key("a"), Watermark(9))
    capture.add(key("c", 2, True), rows(Point(3)))
    capture.add(key("a"), Idle())
    capture.seal()
    assert setup.reports == []
    setup.background.run_all()
    a, b, c = setup.streams()
    assert (a.receiver, a.sender, a.tag, a.sender_subtask, a.receiver_subtask) == ("sum", "a", None, 0, 1)
    assert (a.watermark, a.idle, a.keyed, a.level, a.from_output) == (5, False, True, 0, False)
    assert (b.watermark, b.idle, b.parts, b.record_type) == (None, True, [], None)
    assert (c.watermark, c.idle, c.level, c.from_output) == (None, False, 2, True)
    assert c.record_type["kind"] == "dataclass"
    assert setup.contents() == {
        ("a", 0, False): [[1, "x"], Watermark(9), Idle()],
        ("b", 0, False): [],
        ("c", 2, True): [[Point(3)]],
    }
    ((_, groups), *_) = decode_elements(read_handle(setup.disk, a.parts[0].handle), setup.codec)
    assert groups is not None
    assert groups.tolist() == [0, 1]
    assert capture.bytes_persisted == sum(part.size for s in (a, b, c) for part in s.parts)
    # Small streams share a file.
    assert setup.files() == [f"{FOLDER}/g3-a4-v2-s1-f1"]


def test_nothing_in_flight_writes_nothing(tmp_path: Path) -> None:
    """Sealed at once, or with empty streams only."""
    for streams in ([], [key()]):
        setup = Setup(tmp_path)
        for each in streams:
            setup.capture.begin(each, 1, False)
        setup.capture.seal()
        setup.background.run_all()
        assert [s.parts for s in setup.streams()] == [[] for _ in streams]
        assert setup.files() == []
        assert setup.capture.bytes_persisted == 0


def test_what_exceeds_a_part_is_spilled_at_once(tmp_path: Path) -> None:
    """Memory holds a part or two, not the whole; the order over parts is kept."""
    setup = Setup(tmp_path, part_bytes=1_000)
    for number in range(40):
        setup.capture.add(key("ab"[number % 2]), rows("x" * 100, number))
        setup.background.run_all()
        assert setup.capture.bytes_waiting <= 1_000
    spilled = setup.capture.bytes_persisted
    assert 3_000 < spilled < 6_000
    assert len(setup.files()) == setup.number > 3
    setup.capture.seal()
    setup.background.run_all()
    assert setup.capture.bytes_waiting == 0
    for which, sender in enumerate("ab"):
        expected = [["x" * 100, number] for number in range(which, 40, 2)]
        assert setup.contents()[sender, 0, False] == expected


def test_many_watermarks_are_bounded_too(tmp_path: Path) -> None:
    """Events count, small as they are."""
    setup = Setup(tmp_path, part_bytes=1_000)
    for number in range(100):
        setup.capture.add(key(), Watermark(number))
    assert len(setup.background.jobs) >= 2


def test_batches_are_let_go_once_encoded(tmp_path: Path) -> None:
    """Neither the capture nor a finished job keeps a record alive."""
    setup = Setup(tmp_path, part_bytes=10, record_type=Point)
    records = [Point(1), Point(2)]
    seen = [weakref.ref(record) for record in records]
    setup.capture.add(key(), rows(*records))
    del records
    gc.collect()
    assert all(ref() is not None for ref in seen)
    setup.background.run_all()
    gc.collect()
    assert [ref() for ref in seen] == [None, None]


def test_each_stream_is_let_go_before_the_next_is_encoded(tmp_path: Path) -> None:
    """A spill of many streams is not twice in memory, as records and as bytes."""
    alive: list[int] = []
    seen: list[Any] = []

    def groups(batch: Any) -> Any:
        gc.collect()
        alive.append(sum(ref() is not None for ref in seen))
        return np.zeros(len(batch))

    setup = Setup(tmp_path, record_type=Point)
    setup.capture._groups_of = lambda stream: groups
    for sender in "abc":
        record = Point(1)
        seen.append(weakref.ref(record))
        setup.capture.add(key(sender), rows(record))
        del record
    setup.capture.seal()
    setup.background.run_all()
    assert alive == [3, 2, 1]


@pytest.mark.parametrize("end", ["cancel", "too much"])
def test_batches_are_let_go_when_given_up(tmp_path: Path, end: str) -> None:
    """Also those that wait for a background that is busy elsewhere."""
    setup = Setup(tmp_path, part_bytes=10, total_bytes=10_000)
    record = Point(1)
    seen = weakref.ref(record)
    setup.capture.add(key(), rows(record))
    del record
    setup.capture.cancel() if end == "cancel" else setup.capture.add(key(), rows("x" * 10_000))
    gc.collect()
    assert seen() is None
    assert setup.capture.bytes_waiting == 0
    assert len(setup.background.jobs) == 2


def test_a_batch_is_unstored_from_its_capture_to_its_encoding(tmp_path: Path) -> None:
    """By identity: an equal batch is another one; a batch of two streams until both are encoded."""
    setup = Setup(tmp_path, part_bytes=150)
    twice, once, other = rows("x" * 100), rows(2), rows(2)
    assert not setup.capture.unstored(twice)
    setup.capture.add(key("a"), twice)
    setup.capture.add(key("b"), once)
    assert [setup.capture.unstored(batch) for batch in (twice, once, other)] == [True, True, False]
    setup.capture.add(key("b"), rows("y" * 100))
    assert len(setup.background.jobs) == 1
    setup.capture.add(key("c", from_output=True), twice)
    setup.background.run()
    assert [setup.capture.unstored(batch) for batch in (twice, once)] == [True, False]
    setup.capture.seal()
    setup.background.run()
    assert not setup.capture.unstored(twice)


def test_small_totals_stay_in_the_acknowledgement(tmp_path: Path) -> None:
    """No file for a few bytes, and none without a disk."""
    setup = Setup(tmp_path, inline_max=20_000)
    setup.capture.add(key(), rows(1, 2))
    setup.capture.seal()
    setup.background.run_all()
    assert isinstance(setup.streams()[0].parts[0].handle, Inline)
    assert setup.contents() == {("a", 0, False): [[1, 2]]}
    assert setup.files() == []
    without = SnapshotWriter(None, 0, Fence(JobId("job"), Generation(3), AttemptId(4)))
    handles = without.store_sections(TASK, 7, 0, [[b"ab", memoryview(b"c")], []])
    assert handles == [Inline(b"abc"), Inline(b"")]
    for handle in handles:
        without.delete(handle)


def test_sections_of_one_file_verify_by_themselves(tmp_path: Path) -> None:
    """Each part has its place and checksum; the size of all decides about the file."""
    writer = SnapshotWriter(LocalDisk(tmp_path), 5, Fence(JobId("job"), Generation(3), AttemptId(4)))
    assert writer.store_sections(TASK, 7, 1, [[b"ab"], [b"c", b"de"]]) == [Inline(b"ab"), Inline(b"cde")]
    handles = writer.store_sections(TASK, 7, 2, [[b"ab"], [b"c", b"def"], []])
    assert [read_handle(LocalDisk(tmp_path), handle) for handle in handles] == [b"ab", b"cdef", b""]
    names = {handle.file for handle in handles if isinstance(handle, FileRange)}
    assert names == {f"{FOLDER}/g3-a4-v2-s1-f2"}
    writer.delete(handles[1])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("measured", ["in memory", "on disk"])
def test_beyond_the_total_the_checkpoint_fails(tmp_path: Path, measured: str) -> None:
    """Once, naming the bound and the option; nothing is left, and later elements are ignored."""
    setup = Setup(tmp_path, part_bytes=1_000, total_bytes=5_000)
    for _ in range(10):
        # Sizes in memory are guessed from a few records; what the guess misses is found on disk.
        records = ["x" * 900] if measured == "in memory" else ["x"] * 21 + ["y" * 1_000] + ["x"] * 19
        setup.capture.add(key(), RowBatch(records))
        setup.background.run_all()
    assert isinstance(setup.error(), TooMuchInFlightError)
    assert "exceeds 5000 bytes; raise execution.checkpointing.unaligned.max-in-flight-size" in str(
        setup.error()
    )
    assert setup.capture.bytes_persisted <= 5_000
    assert setup.number > 0
    assert setup.files() == []
    setup.capture.seal()
    setup.capture.cancel()
    setup.background.run_all()
    assert len(setup.reports) == 1
    assert not setup.capture.unstored(None)


@pytest.mark.parametrize("room", [0, 1, 500, 1_500, 4_000])
def test_a_full_disk_fails_the_checkpoint_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Full after some bytes, in the middle of a write or between two: one report, no file is left."""
    setup = Setup(tmp_path / "root", part_bytes=1_000)
    real_write, left = os.write, room

    def write(descriptor: int, data: Any) -> int:
        nonlocal left
        if left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real_write(descriptor, bytes(data[:left]))
        left -= written
        return written

    monkeypatch.setattr(local.system, "write", write)
    for number in range(60):
        setup.capture.add(key(), rows("x" * 100, number))
        if number % 7 == 0:
            setup.background.run()
    setup.capture.seal()
    setup.background.run_all()
    monkeypatch.undo()
    assert isinstance(setup.error(), StorageError)
    assert "No space left on device; free space there" in str(setup.error())
    assert setup.capture.bytes_persisted <= room
    assert setup.files() == []
    assert setup.capture.bytes_waiting == 0
    assert not setup.background.jobs


@pytest.mark.parametrize(
    ("element", "kind"), [(rows(Plain()), NotStorableError), (Barrier(1, 2), InternalError)], ids=repr
)
def test_what_cannot_be_encoded_fails_the_checkpoint(tmp_path: Path, element: Any, kind: type) -> None:
    """Its error says between whom the element was under way; the parts before it go."""
    setup = Setup(tmp_path, part_bytes=1)
    setup.capture.add(key(), rows("stored"))
    setup.background.run()
    assert len(setup.files()) == 1
    setup.capture.add(key("b"), element)
    setup.capture.add(key(), rows("never"))
    setup.background.run_all()
    assert isinstance(setup.error(), kind)
    assert "from b[0] to sum[1]" in str(setup.error())
    assert setup.files() == []


def test_giving_up_reports_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    """Before, between and after the spills; twice is as good as once."""
    for ran in range(4):
        setup = Setup(tmp_path, part_bytes=1)
        for number in range(3):
            setup.capture.add(key(), rows(number))
        setup.capture.seal()
        for _ in range(ran):
            setup.background.run()
        assert len(setup.files()) == ran
        setup.capture.cancel()
        setup.capture.cancel()
        setup.capture.add(key(), rows("ignored"))
        setup.capture.begin(key("ignored"), 0, False)
        setup.background.run_all()
        assert setup.reports == []
        assert setup.number == ran
        assert setup.files() == []


@pytest.mark.parametrize("part_bytes", [1, 1_000], ids=["a spill", "the last one"])
def test_giving_up_while_a_part_is_written_deletes_it_too(tmp_path: Path, part_bytes: int) -> None:
    """The deletion waits behind the write, so it finds what the write has left."""
    setup = Setup(tmp_path, part_bytes, background=BackgroundThread("headgate-test"))
    writing, go_on = threading.Event(), threading.Event()
    store = setup.store

    def slow(sections: Sequence[Any]) -> list[StateHandle]:
        handles = store(sections)
        writing.set()
        assert go_on.wait(10)
        return handles

    setup.capture._store = slow
    setup.capture.add(key(), rows("x"))
    setup.capture.seal()
    assert writing.wait(10)
    setup.capture.cancel()
    assert len(setup.files()) == 1
    go_on.set()
    setup.background.close()
    assert setup.files() == []
    assert setup.reports == []


@pytest.mark.parametrize("meanwhile", ["cancel", "too much"])
def test_a_write_that_fails_when_all_is_over_says_nothing_more(tmp_path: Path, meanwhile: str) -> None:
    """Given up while a write is under way that then fails: no report; beyond the bound meanwhile: one."""
    setup = Setup(tmp_path, part_bytes=1, total_bytes=5_000)

    def failing(sections: Sequence[Any]) -> list[StateHandle]:
        # What the loop does while the background writes.
        setup.capture.cancel() if meanwhile == "cancel" else setup.capture.add(key(), rows("x" * 9_000))
        raise StorageError("the disk is full")

    setup.capture._store = failing
    setup.capture.add(key(), rows(1))
    setup.background.run_all()
    assert [str(error) for _, error in setup.reports] == (
        ["the disk is full"] if meanwhile != "cancel" else []
    )


def test_after_the_report_the_files_are_the_receivers(tmp_path: Path) -> None:
    """Giving up too late deletes nothing: the streams may be part of a checkpoint by now."""
    setup = Setup(tmp_path)
    setup.capture.add(key(), rows(1))
    setup.capture.seal()
    setup.background.run_all()
    setup.capture.cancel()
    setup.background.run_all()
    assert setup.contents() == {("a", 0, False): [[1]]}


def test_a_file_that_cannot_be_deleted_is_left_to_the_sweep(tmp_path: Path) -> None:
    """The others still go, and nobody is bothered."""
    setup = Setup(tmp_path, part_bytes=1)
    for number in range(3):
        setup.capture.add(key(), rows(number))
    setup.background.run_all()
    delete = setup.capture._delete

    def failing(handle: StateHandle) -> None:
        if isinstance(handle, FileRange) and handle.file.endswith("f2"):
            raise StorageError("cannot delete")
        delete(handle)

    setup.capture._delete = failing
    setup.capture.cancel()
    setup.background.run_all()
    assert setup.files() == [f"{FOLDER}/g3-a4-v2-s1-f2"]


def test_misuse_is_a_bug(tmp_path: Path) -> None:
    """A stream begins once and before its elements; nothing follows the seal."""
    capture = Setup(tmp_path).capture
    capture.add(key(), rows(1))
    with pytest.raises(InternalError, match="has begun already"):
        capture.begin(key(), 1, False)
    capture.seal()
    for act in (capture.seal, lambda: capture.add(key(), rows(1)), lambda: capture.begin(key("b"), 0, False)):
        with pytest.raises(InternalError, match="sealed"):
            act()


def test_a_real_thread_stores_while_the_loop_adds(tmp_path: Path) -> None:
    """Spills and reports from another thread lose nothing and keep the order."""
    setup = Setup(tmp_path, part_bytes=5_000, background=BackgroundThread("headgate-test"))
    shared = rows("shared")
    for number in range(2_000):
        setup.capture.add(key("ab"[number % 2]), rows(number))
        setup.capture.add(key("c"), shared)
    setup.capture.seal()
    assert setup.reported.wait(30)
    setup.background.close()
    assert not setup.capture.unstored(shared)
    assert setup.capture.bytes_waiting == 0
    found = setup.contents()
    assert found["a", 0, False] == [[n] for n in range(0, 2_000, 2)]
    assert found["b", 0, False] == [[n] for n in range(1, 2_000, 2)]
    assert found["c", 0, False] == [["shared"]] * 2_000


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abc"), st.integers(0, 300)),
        st.tuples(st.just("begin"), st.sampled_from("abcd"), st.none() | st.integers(-9, 9)),
        st.tuples(st.just("mark"), st.sampled_from("abc"), st.integers(-9, 9)),
        st.tuples(st.just("run")),
    ),
    max_size=40,
)


@settings(max_examples=150)
@given(
    acts=ACTS,
    end=st.sampled_from(["seal", "cancel", "seal, cancel", "seal, run, cancel"]),
    total=st.sampled_from([2_000, 1 << 20]),
    fails_at=st.none() | st.integers(1, 6),
)
def test_any_order_of_events(
    tmp_path_factory: pytest.TempPathFactory, acts: list[Any], end: str, total: int, fails_at: int | None
) -> None:
    """At most one report; either everything in order and on disk, or a reason, and then no file is left."""
    setup = Setup(tmp_path_factory.mktemp("capture"), part_bytes=300, total_bytes=total)
    store = setup.store

    def failing(sections: Sequence[Any]) -> list[StateHandle]:
        if setup.number + 1 == fails_at:
            raise StorageError("the disk is full")
        return store(sections)

    setup.capture._store = failing
    model: dict[tuple[Any, ...], list[Any]] = {}
    held: list[RowBatch] = []
    for number, (act, *arguments) in enumerate(acts):
        if act == "run":
            setup.background.run()
            continue
        sender, value = arguments
        place = (sender, 0, False)
        if act == "begin":
            if place not in model:
                setup.capture.begin(key(sender), value, value == 0)
                model[place] = []
            continue
        element: Any = Watermark(value) if act == "mark" else rows(number, "x" * value)
        setup.capture.add(key(sender), element)
        model.setdefault(place, []).extend(plain([element]))
        held += [element] if act == "add" else []
    for act in end.split(", "):
        {"seal": setup.capture.seal, "run": setup.background.run, "cancel": setup.capture.cancel}[act]()
    reported_before_end = len(setup.reports)
    setup.background.run_all()
    assert len(setup.reports) <= 1
    assert not any(map(setup.capture.unstored, held))
    assert setup.capture.bytes_waiting == 0
    if not setup.reports or setup.reports[0][0] is None:
        assert setup.files() == []
    if setup.reports and setup.reports[0][0] is not None:
        assert setup.contents() == model
        assert setup.capture.bytes_persisted == sum(p.size for s in setup.streams() for p in s.parts)
        files = {p.handle.file for s in setup.streams() for p in s.parts if isinstance(p.handle, FileRange)}
        assert set(setup.files()) == files
    if end == "seal":
        assert len(setup.reports) == 1
    if end in ("cancel", "seal, cancel"):
        assert len(setup.reports) == reported_before_end
