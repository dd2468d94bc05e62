"""The simulator's doors keep the promises of the real ones."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.checkpoint.storage.storage_contract import RandomAccess, UnsureWriteError
from headgate.common.errors import InternalError, StorageError
from headgate.common.ids import AttemptId, Fence, Generation, JobId
from headgate.runtime.protocol import messages as m
from headgate.runtime.protocol.frames import Frame, FrameKind
from headgate.testing.simulation.clock import SimClock, SimRandom, Timeline
from headgate.testing.simulation.links import make_link
from headgate.testing.simulation.network import Network, SimDataPlane
from headgate.testing.simulation.trace import Trace
from headgate.testing.simulation.virtual_disk import SimDisk, SimFiles


def fence(attempt: int) -> Fence:
    """The fence of an attempt."""
    return Fence(JobId("j"), Generation(1), AttemptId(attempt))


def network() -> Network:
    """A network without delays."""
    return Network(
        SimpleNamespace(now=lambda: 0, latency=lambda: 0, saw_frame=lambda lane, attempt, frame: None)
    )


def pair(attempt: int = 1) -> tuple[Network, SimDataPlane, SimDataPlane]:
    """Two connected data planes."""
    net = network()
    planes = net.plane(0, lambda: None), net.plane(1, lambda: None)
    peers = {0: planes[0].address, 1: planes[1].address}
    for plane in planes:
        plane.open(fence(attempt), peers)
    return net, *planes


def deliver_all(net: Network) -> None:
    """Everything that can arrive arrives."""
    for lane in net.lanes:
        while lane.due is not None:
            lane.deliver()


def rows(text: bytes) -> Frame:
    """A frame of records."""
    return Frame(FrameKind.ROWS, 1, 0, 1, [text])


def test_frames_arrive_once_and_in_order() -> None:
    """What is sent arrives as sent, with the sender's slot."""
    net, left, right = pair()
    for text in (b"a", b"", b"c"):
        left.send(1, rows(text))
    deliver_all(net)
    assert [(slot, bytes(frame.payload())) for slot, frame in right.receive()] == [
        (0, b"a"),
        (0, b""),
        (0, b"c"),
    ]
    assert right.receive() == left.lost() == []


def test_frames_wait_for_the_receivers_attempt() -> None:
    """A frame that is early waits until its attempt is opened; one that is late is dropped."""
    net, left, right = pair()
    left.close_attempt()
    left.open(fence(2), {0: left.address, 1: right.address})
    left.send(1, rows(b"early"))
    deliver_all(net)
    assert right.lost() == [(0, "the peer closed the attempt")]
    right.close_attempt()
    right.open(fence(2), {0: left.address, 1: right.address})
    deliver_all(net)
    assert [bytes(frame.payload()) for _, frame in right.receive()] == [b"early"]
    left.send(1, rows(b"late"))
    right.close_attempt()
    deliver_all(net)
    assert right.receive() == []
    assert [slot for slot, _ in left.lost()] == [1]


def test_a_dead_peer_is_reported_once() -> None:
    """What a killed process sent may arrive; then its peers hear of it, once."""
    net, left, right = pair()
    left.send(1, rows(b"last"))
    left.die()
    deliver_all(net)
    assert [bytes(frame.payload()) for _, frame in right.receive()] == [b"last"]
    assert right.lost() == [(0, "connection reset by a killed peer")]
    right.send(0, rows(b"x"))
    deliver_all(net)
    assert right.lost() == []


def test_a_cut_reaches_both_ends() -> None:
    """A broken connection loses what was on its way and is reported at both ends."""
    net, left, right = pair()
    left.send(1, rows(b"kept"))
    left.send(1, rows(b"lost"))
    net.cut(left, right, keep=1)
    deliver_all(net)
    assert [bytes(frame.payload()) for _, frame in right.receive()] == [b"kept"]
    assert (left.lost(), right.lost()) == ([(1, "connection reset")], [(0, "connection reset")])


def test_a_data_plane_refuses_wrong_use() -> None:
    """An attempt is opened once, and only peers are sent to."""
    _, left, right = pair()
    with pytest.raises(InternalError, match="attempt 1 was opened"):
        left.open(fence(1), {1: right.address})
    with pytest.raises(InternalError, match="no peer of slot 7"):
        left.send(7, rows(b"x"))


def test_links_carry_messages_until_one_end_closes() -> None:
    """Messages arrive decoded and in order; then the other end is told that the link is gone."""
    worker, master = make_link("w", lambda: 0, lambda: 0, lambda: False)
    heard: list[Any] = []
    worker.back.on_message = worker.back.on_lost = heard.append
    master.send(m.Stop(1))
    master.close()
    master.send(m.Stop(2))
    while worker.back.due is not None:
        worker.back.deliver()
    assert heard == [m.Stop(1), "closed by the other side"]
    worker.send(m.Deployed(1))
    assert worker.out.due is None


def test_a_paused_worker_hears_nothing() -> None:
    """Messages to a process that stands still wait for it."""
    paused = [True]
    worker, master = make_link("w", lambda: 0, lambda: 0, lambda: paused[0])
    master.send(m.Stop(1))
    assert worker.back.due is None
    paused[0] = False
    assert worker.back.due == 0


def test_the_disk_fails_as_told() -> None:
    """A failed write leaves nothing, an unsure one leaves the file and says so."""
    files, verdicts = SimFiles(), iter(["fails", "unsure", "works"])
    disk = SimDisk(files, lambda operation, name: next(verdicts, "works"))  # type: ignore[arg-type,return-value]
    with pytest.raises(StorageError):
        disk.create("a/1", [b"x"])
    assert files.files == {}
    with pytest.raises(UnsureWriteError):
        disk.create("a/1", [b"x", memoryview(b"y")])
    assert disk.create_if_absent("a/1", b"z") is False
    assert isinstance(disk, RandomAccess)
    assert (disk.read("a/1"), disk.size("a/1"), disk.read_range("a/1", 1, 9)) == (b"xy", 2, b"y")


def test_the_disk_lists_and_deletes() -> None:
    """A folder's listing is sorted and complete; to delete what is not there is no error."""
    disk = SimDisk(SimFiles())
    for name in ("a/2", "a/1", "ab/1"):
        disk.create(name, [b""])
    assert (disk.list("a"), disk.list("")) == (["a/1", "a/2"], ["a/1", "a/2", "ab/1"])
    disk.delete("a/1")
    disk.delete("a/1")
    with pytest.raises(FileNotFoundError):
        disk.read("a/1")


def test_plans_come_in_order_of_time() -> None:
    """The time line hands out plans by time, equal times in the order they were made."""
    line, done = Timeline(), []
    for when, name in ((5, "c"), (3, "a"), (3, "b")):
        line.at(when, name, lambda name=name: done.append(name))  # type: ignore[misc]
    assert (line.next_time(), line.due()) == (3, None)
    line.advance(5)
    while line.due() is not None:
        line.take()()
    assert done == ["a", "b", "c"]


def test_clocks_share_the_time_line() -> None:
    """Wall clocks differ by their skew; the precise clock never goes back."""
    line = Timeline()
    clock = SimClock(line, random.Random(1), skew_ms=7)
    other = SimClock(line, random.Random(1))
    line.advance(10)
    assert (clock.monotonic_ms(), clock.now_ms() - other.now_ms()) == (10, 7)
    looks = [clock.precise_ms() for _ in range(20)]
    assert looks == sorted(looks)


def test_chance_comes_from_the_seed() -> None:
    """Equal seeds, equal chances."""
    one, two = SimRandom(random.Random(3)), SimRandom(random.Random(3))
    assert (one.token(8), one.uniform(0, 1)) == (two.token(8), two.uniform(0, 1))


def test_the_trace_tells_order_and_time() -> None:
    """Another order or another time is another digest."""
    traces = [Trace(None) for _ in range(3)]
    for trace, events in zip(
        traces, [[(1, "a"), (1, "b")], [(1, "b"), (1, "a")], [(1, "a"), (2, "b")]], strict=True
    ):
        for now_ms, text in events:
            trace.add(now_ms, text)
    assert len({trace.digest for trace in traces}) == 3
    assert traces[0].story() == ["      1 a", "      1 b"]
