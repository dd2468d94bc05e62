"""Control links over real sockets: messages both ways, strangers outside, and an orderly end."""

from __future__ import annotations

import dataclasses
import gc
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from headgate.common.errors import FencedError, InternalError, OperatingError, ProtocolError
from headgate.common.plain_data import Description
from headgate.common.ports import Link
from headgate.runtime.protocol import messages
from headgate.runtime.protocol.frames import Frame, FrameKind, encode_header
from headgate.runtime.protocol.message_codec import decode_from_worker, decode_to_worker, encode_message
from headgate.runtime.transport.acceptor import PENDING_MAX
from headgate.runtime.transport.connection import dial
from headgate.runtime.transport.control_link import SocketLink, connect_control
from headgate.runtime.transport.control_server import ControlServer, WorkerKey
from headgate.runtime.transport.handshake import Hello
from headgate.runtime.transport.sockets import connect, send_parts
from headgate.state.snapshots import Inline, KeyedStateHandle, OperatorSubtaskState

SECRET = b"the secret of this job, 32 bytes"
MASTER = Hello("job", 2, 0, 0, 0, "control")
WAIT_S = 20.0


def worker_hello(slot: int, gang: int = 1, generation: int = 2) -> Hello:
    """What a worker says of itself."""
    return Hello("job", generation, 0, slot, gang, "control")


class Master:
    """A control server and everything it reported, in order, as (event, worker, detail)."""

    def __init__(self, **options: int) -> None:
        self.events: queue.Queue[tuple[str, WorkerKey, Any]] = queue.Queue()
        self.links: dict[WorkerKey, SocketLink] = {}
        self.server = ControlServer(
            SECRET,
            "127.0.0.1",
            MASTER,
            lambda worker, message: self.events.put(("message", worker, message)),
            self.connected,
            lambda worker, reason: self.events.put(("lost", worker, reason)),
            **options,
        )

    def connected(self, worker: WorkerKey, hello: Hello, link: SocketLink) -> None:
        """Remember the link."""
        self.links[worker] = link
        self.events.put(("connected", worker, hello))

    def next(self) -> tuple[str, WorkerKey, Any]:
        """The next thing that happened."""
        return self.events.get(timeout=WAIT_S)


class Worker:
    """A worker's link and everything it heard."""

    def __init__(self, master: Master, slot: int, **fields: int) -> None:
        self.messages: queue.Queue[Any] = queue.Queue()
        self.lost: queue.Queue[str] = queue.Queue()
        hello = worker_hello(slot, **fields)
        self.link = connect_control(master.server.address, SECRET, hello, self.messages.put, self.lost.put)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """After every test no thread and no socket of ours is left."""
    gc.collect()
    threads, sockets = set(threading.enumerate()), open_sockets()
    yield
    pause = threading.Event()
    for _ in range(4000):
        left = [t.name for t in set(threading.enumerate()) - threads if t.name.startswith("headgate")]
        if not left and open_sockets() == sockets:
            return
        pause.wait(0.005)
    raise AssertionError(f"left behind: {left}, {open_sockets() - sockets} sockets")


def open_sockets() -> int:
    """How many file handles of this process are sockets."""
    count = 0
    for handle in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            count += os.readlink(f"/proc/self/fd/{handle}").startswith("socket:")
    return count


@pytest.fixture
def started() -> Iterator[Callable[..., Master]]:
    """Makes masters and closes them after the test."""
    with ExitStack() as stack:

        def make(**options: int) -> Master:
            master = Master(**options)
            stack.callback(master.server.close)
            return master

        yield make


STATE = OperatorSubtaskState(
    "uid",
    KeyedStateHandle(0, 63, Inline(b"\x00\xffstate"), 7),
    {"splits": [{"file": "a", "offset": 12}, b"\xff\x00"]},
    [{"pending": "p"}],
    -5,
)


def sample(hint: Any, which: int = 0) -> Any:
    """A value of a message's field or of a whole message; `which` picks among alternatives and lengths."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is OperatorSubtaskState:
        return STATE
    if origin in (Union, UnionType):
        return sample(arguments[which % len(arguments)], which)
    if origin is list:
        return [sample(arguments[0], which)] * (1 - which % 2)
    if origin is dict:
        return {sample(arguments[0], which): sample(arguments[1], which)}
    if origin is tuple:
        return tuple(sample(argument, which) for argument in arguments)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = get_type_hints(hint)
        return hint(**{name: sample(hints[name], which) for name in hint.__struct_fields__})
    if isinstance(hint, type) and issubclass(hint, tuple):  # one with names
        return hint(*(sample(each, which) for each in get_type_hints(hint).values()))
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{field.name: sample(hints[field.name], which) for field in dataclasses.fields(hint)})  # type: ignore[operator]
    plain = {int: 2**40, str: "tëxt", bytes: b"\x80\xff", float: 0.5, bool: True, type(None): None}
    return {"offset": 5, "raw": b"\xff"} if hint in (Any, Description) else plain[hint]


FROM_WORKER = [sample(kind, which) for kind in get_args(messages.FromWorker) for which in (0, 1)]
TO_WORKER = [sample(kind, which) for kind in get_args(messages.ToWorker) for which in (0, 1)]


def numbered(vertex: int, subtask: int) -> messages.RequestSplits:
    """A worker's message that can be told from others."""
    return msgspec.structs.replace(sample(messages.RequestSplits), vertex=vertex, subtask=subtask)


def deploy(program: bytes) -> messages.Deploy:
    """A deployment with this program."""
    return msgspec.structs.replace(sample(messages.Deploy), program=program)


@pytest.mark.parametrize("message", FROM_WORKER, ids=lambda m: type(m).__name__)
def test_worker_messages_read_back(message: Any) -> None:
    """Every message of a worker survives the wire, bytes staying bytes."""
    assert decode_from_worker(encode_message(message)) == message


@pytest.mark.parametrize("message", TO_WORKER, ids=lambda m: type(m).__name__)
def test_job_master_messages_read_back(message: Any) -> None:
    """Every message of the job master survives the wire, bytes staying bytes."""
    assert decode_to_worker(encode_message(message)) == message


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x80", b"\x91" * 100_000, encode_message(messages.Finish(1))]
)
def test_what_is_no_worker_message_is_refused(data: bytes) -> None:
    """Bytes of another kind, also a message of the other direction, are refused in one sentence."""
    with pytest.raises(ProtocolError, match=r"from a worker of .* does not decode"):
        decode_from_worker(data)


def test_a_value_that_cannot_travel_is_our_own_fault() -> None:
    """A message that cannot be encoded fails where it is sent."""
    with pytest.raises(InternalError, match="AssignSplits message holds a value that cannot travel"):
        encode_message(messages.AssignSplits(1, 0, 0, [("a", object())]))
    with pytest.raises(InternalError, match="cannot travel"):
        encode_message(messages.AssignSplits(1, 0, 0, [("a", 2**70)]))


def test_messages_travel_both_ways_in_order(started: Callable[..., Master]) -> None:
    """Connected comes first, then every message in order, per worker and in both directions."""
    master = started()
    workers = [Worker(master, slot) for slot in range(3)]
    for number in range(100):
        for slot, worker in enumerate(workers):
            worker.link.send(numbered(slot, number))
    heard: dict[WorkerKey, list[Any]] = {}
    for _ in range(3 * 101):
        event, key, detail = master.next()
        heard.setdefault(key, []).append((event, detail))
    for slot in range(3):
        expected = [("connected", worker_hello(slot))]
        expected += [("message", numbered(slot, number)) for number in range(100)]
        assert heard[WorkerKey(1, slot)] == expected
        for number in range(100):
            master.links[WorkerKey(1, slot)].send(messages.CheckpointComplete(1, number))
        for number in range(100):
            assert workers[slot].messages.get(timeout=WAIT_S) == messages.CheckpointComplete(1, number)
    assert len(master.server._links) == 3


def test_a_link_is_used_from_several_threads(started: Callable[..., Master]) -> None:
    """Messages of several threads arrive whole, each thread's in its order."""
    master = started()
    worker = Worker(master, 0)
    link: Link = worker.link

    def talk(vertex: int) -> None:
        for number in range(200):
            link.send(numbered(vertex, number))

    threads = [threading.Thread(target=talk, args=(vertex,)) for vertex in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert master.next()[0] == "connected"
    heard = [master.next()[2] for _ in range(800)]
    for vertex in range(4):
        assert [m.subtask for m in heard if m.vertex == vertex] == list(range(200))


def test_a_large_deploy_passes(started: Callable[..., Master]) -> None:
    """A program far larger than a data frame's limit passes; what stands before and behind it as well."""
    master = started()
    worker = Worker(master, 0)
    assert master.next()[0] == "connected"
    program = os.urandom(1 << 20) * 80
    link = master.links[WorkerKey(1, 0)]
    link.send(messages.Stop(1))
    link.send(deploy(program))
    link.send(messages.Stop(1))
    assert worker.messages.get(timeout=WAIT_S) == messages.Stop(1)
    deployed = worker.messages.get(timeout=WAIT_S)
    assert type(deployed.program) is bytes
    assert deployed.program == program
    assert worker.messages.get(timeout=WAIT_S) == messages.Stop(1)


def test_a_message_beyond_the_limit_is_refused_where_it_is_sent(
    started: Callable[..., Master], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message too large to receive is not sent; the link stays."""
    monkeypatch.setattr("headgate.runtime.protocol.message_codec.MESSAGE_SIZE_MAX", 1000)
    master = started()
    worker = Worker(master, 0)
    with pytest.raises(InternalError, match=r"Decline message has .* the limit is 1000"):
        worker.link.send(messages.Decline(1, 1, 0, 0, "reason", "d" * 1000))
    worker.link.send(messages.Deployed(1))
    assert [master.next()[0] for _ in range(2)] == ["connected", "message"]


def test_what_was_sent_before_closing_arrives(started: Callable[..., Master]) -> None:
    """Closing sends what is queued first; the other side hears of it as a loss, this side does not."""
    master = started()
    worker = Worker(master, 0)
    for number in range(50):
        worker.link.send(numbered(0, number))
    worker.link.close()
    worker.link.close()
    worker.link.send(messages.Deployed(1))
    assert worker.link.wait_closed(WAIT_S)
    heard = [master.next() for _ in range(52)]
    assert [m.subtask for event, _, m in heard if event == "message"] == list(range(50))
    assert heard[-1] == ("lost", WorkerKey(1, 0), "the peer closed the connection")
    assert worker.lost.empty()


def test_closing_from_a_callback_works(started: Callable[..., Master]) -> None:
    """A worker may answer and close from inside the callback of a message; the answer arrives."""
    master = started()
    closed = threading.Event()

    def answer(_message: Any) -> None:
        link.send(messages.Deployed(1))
        link.close()
        closed.set()

    ready = queue.Queue[str]()
    link = connect_control(master.server.address, SECRET, worker_hello(0), answer, ready.put)
    assert master.next()[0] == "connected"
    master.links[WorkerKey(1, 0)].send(messages.Finish(1))
    assert closed.wait(WAIT_S)
    assert master.next() == ("message", WorkerKey(1, 0), messages.Deployed(1))
    assert master.next()[0] == "lost"
    assert ready.empty()


def test_closing_the_server_delivers_last_words(started: Callable[..., Master]) -> None:
    """Every worker gets what was queued, then hears that the master is gone, which reports no loss."""
    master = started()
    workers = [Worker(master, slot) for slot in range(3)]
    for _ in range(3):
        assert master.next()[0] == "connected"
    for link in master.links.values():
        link.send(messages.Finish(1))
    master.server.close()
    for worker in workers:
        assert worker.messages.get(timeout=WAIT_S) == messages.Finish(1)
        assert "closed the connection" in worker.lost.get(timeout=WAIT_S)
    assert master.events.empty()
    with pytest.raises(OperatingError, match="no connection to"):
        Worker(master, 9)


def test_a_worker_may_come_back_after_a_loss(started: Callable[..., Master]) -> None:
    """Once its link was reported lost, the same slot may connect again."""
    master = started()
    for _ in range(3):
        worker = Worker(master, 0)
        assert master.next()[0] == "connected"
        worker.link.close()
        assert master.next()[0] == "lost"
    assert len(master.server._links) == 0


def test_a_second_copy_of_a_worker_is_refused(started: Callable[..., Master]) -> None:
    """While a worker is connected, another process with its gang and slot is turned away."""
    master = started()
    first = Worker(master, 0)
    with pytest.raises(ProtocolError, match="slot 0 of gang 1 is connected already"):
        Worker(master, 0)
    Worker(master, 0, gang=2)
    first.link.send(messages.Deployed(1))
    assert {master.next()[0] for _ in range(3)} == {"connected", "message"}


def test_an_older_generation_is_fenced(started: Callable[..., Master]) -> None:
    """A worker of a job master that was replaced learns that it must stop; a newer one is refused."""
    master = started()
    with pytest.raises(FencedError, match="was replaced and must stop"):
        Worker(master, 0, generation=1)
    with pytest.raises(ProtocolError, match="this side is behind"):
        Worker(master, 0, generation=3)
    assert master.server.counts["refused"] == 2
    assert master.events.empty()


def test_a_crowd_of_silent_peers_neither_keeps_workers_out_nor_stays(started: Callable[..., Master]) -> None:
    """Who is connected goes on, who comes is let in, and the file handles are bounded."""
    master = started(handshake_timeout_ms=60_000)
    first = Worker(master, 0)
    assert master.next()[0] == "connected"
    before = len(os.listdir("/proc/self/fd"))
    with ExitStack() as crowd:
        for _ in range(300):
            crowd.enter_context(connect(master.server.address, 5000))
        second = Worker(master, 1)
        assert master.next()[:2] == ("connected", WorkerKey(1, 1))
        until = time.monotonic() + WAIT_S
        while master.server.counts["timed out"] < 300 - PENDING_MAX:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert len(os.listdir("/proc/self/fd")) - before <= 300 + PENDING_MAX + 10
        first.link.send(messages.Deployed(1))
        assert master.next()[0] == "message"
    for worker in (first, second):
        worker.link.close()


def test_strangers_disturb_nobody(started: Callable[..., Master]) -> None:
    """Garbage, a wrong secret and a silent peer are counted; a worker connected meanwhile notices nothing."""
    master = started(handshake_timeout_ms=100)
    worker = Worker(master, 0)
    silent = connect(master.server.address, 5000)
    garbage = connect(master.server.address, 5000)
    garbage.sendall(b"POST /jobs HTTP/1.1\r\n" + bytes(100))
    with pytest.raises(ProtocolError, match="did not prove"):
        connect_control(master.server.address, b"x" * 32, worker_hello(1), print, print)
    silent.settimeout(WAIT_S)
    assert silent.recv(1) == b""
    worker.link.send(messages.Deployed(1))
    assert [master.next()[0] for _ in range(2)] == ["connected", "message"]
    outcomes = ("admitted", "unauthenticated", "timed out", "disconnected")
    assert [master.server.counts[outcome] for outcome in outcomes] == [1, 1, 1, 1]
    silent.close()
    garbage.close()


@pytest.mark.parametrize(
    ("frame", "generation", "text"),
    [
        (Frame(FrameKind.CONTROL, 0, 0, 0, [b"\xc1"]), 2, "does not decode"),
        (Frame(FrameKind.CONTROL, 0, 0, 0, [encode_message(messages.Deployed(1))]), 1, "generation 1"),
        (Frame(FrameKind.ROWS, 0, 0, 0, [b"rows"]), 2, "kind ROWS"),
    ],
)
def test_an_authenticated_peer_that_talks_nonsense_is_lost(
    started: Callable[..., Master], frame: Frame, generation: int, text: str
) -> None:
    """Unsound or outdated messages end their own link with the reason; the other worker stays."""
    master = started()
    other = Worker(master, 1)
    assert master.next()[0] == "connected"
    peer, _ = dial(master.server.address, SECRET, worker_hello(0))
    assert master.next()[0] == "connected"
    send_parts(peer.sock, [encode_header(frame, generation, 0), *frame.parts])
    event, key, reason = master.next()
    assert (event, key) == ("lost", WorkerKey(1, 0))
    assert text in reason
    peer.close()
    other.link.send(messages.Deployed(1))
    assert master.next() == ("message", WorkerKey(1, 1), messages.Deployed(1))
    assert list(master.server._links) == [WorkerKey(1, 1)]


def test_an_oversize_length_after_the_handshake_ends_the_link(started: Callable[..., Master]) -> None:
    """A signed header that announces terabytes ends its link without an allocation."""
    import struct
    import zlib

    master = started()
    peer, _ = dial(master.server.address, SECRET, worker_hello(0))
    assert master.next()[0] == "connected"
    fields = bytearray(encode_header(Frame(FrameKind.CONTROL, 0, 0, 0, []), 2, 0)[:-4])
    fields[28:36] = struct.pack("!Q", 1 << 42)
    peer.sock.sendall(bytes(fields) + struct.pack("!I", zlib.crc32(fields)))
    event, _, reason = master.next()
    assert event == "lost"
    assert f"announces {1 << 42} bytes" in reason
    peer.close()


def test_a_failing_callback_ends_its_link_with_the_reason(started: Callable[..., Master]) -> None:
    """A callback that raises is never swallowed: the link is lost and says why."""
    master = started()
    lost = queue.Queue[str]()

    def fail(_message: Any) -> None:
        raise ValueError("the handler broke")

    connect_control(master.server.address, SECRET, worker_hello(0), fail, lost.put)
    assert master.next()[0] == "connected"
    master.links[WorkerKey(1, 0)].send(messages.Stop(1))
    assert lost.get(timeout=WAIT_S) == "ValueError: the handler broke"
    assert master.next()[0] == "lost"


def test_a_peer_that_does_not_read_cannot_hold_up_closing(
    started: Callable[..., Master], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing waits a bounded time for a stopped peer, then cuts the link."""
    monkeypatch.setattr("headgate.runtime.transport.control_link.LINGER_S", 0.05)
    monkeypatch.setattr("headgate.runtime.transport.control_server.LINGER_S", 0.05)
    master = started()
    peer, _ = dial(master.server.address, SECRET, worker_hello(0))
    assert master.next()[0] == "connected"
    link = master.links[WorkerKey(1, 0)]
    for _ in range(3):
        link.send(deploy(bytes(8_000_000)))
    master.server.close()
    assert master.events.empty()
    assert len(master.server._links) == 0
    peer.close()


def test_a_peer_that_lets_messages_pile_up_is_lost(
    started: Callable[..., Master], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue of a link is bounded: beyond the bound the peer counts as broken."""
    monkeypatch.setattr("headgate.runtime.transport.control_link._QUEUED_BYTES_MAX", 20_000_000)
    master = started()
    peer, _ = dial(master.server.address, SECRET, worker_hello(0))
    assert master.next()[0] == "connected"
    link = master.links[WorkerKey(1, 0)]
    for _ in range(6):
        link.send(deploy(bytes(8_000_000)))
    event, _, reason = master.next()
    assert event == "lost"
    assert "left more than 20000000 bytes unread" in reason
    peer.close()
