"""The data plane over real sockets: order, fences, strangers, lost peers, and nothing left behind."""

from __future__ import annotations

import gc
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from headgate.common.errors import ConfigError, InternalError, OperatingError, ProtocolError
from headgate.common.ids import AttemptId, Fence, Generation, JobId
from headgate.runtime.protocol.frames import Frame, FrameKind, encode_header
from headgate.runtime.transport.connection import Connection, dial
from headgate.runtime.transport.data_plane_contract import DataPlane
from headgate.runtime.transport.dataplane import SocketDataPlane
from headgate.runtime.transport.handshake import Hello
from headgate.runtime.transport.sockets import Endpoint, connect, host_id, listen, parse_address, send_parts

SECRET = b"the secret of this job, 32 bytes"
WAIT_S = 20.0


def fence(attempt: int = 1, generation: int = 1, job: str = "job") -> Fence:
    """The fence of an attempt."""
    return Fence(JobId(job), Generation(generation), AttemptId(attempt))


def rows(data: bytes, edge: int = 0) -> Frame:
    """A frame of records."""
    return Frame(FrameKind.ROWS, edge, 0, 0, [data])


class Worker:
    """A data plane and what came out of it, with waiting instead of sleeping."""

    def __init__(self, slot: int, secret: bytes = SECRET, **options: int) -> None:
        self.woken = threading.Event()
        self.plane = SocketDataPlane(secret, "127.0.0.1", slot, self.woken.set, **options)
        self.received: list[tuple[int, bytes]] = []
        self.lost: list[tuple[int, str]] = []

    def wait(self, condition: Callable[[], bool]) -> None:
        """Collect until the condition holds."""
        while True:
            self.woken.clear()
            self.received += [(slot, bytes(frame.payload())) for slot, frame in self.plane.receive()]
            self.lost += self.plane.lost()
            if condition():
                return
            assert self.woken.wait(WAIT_S), f"nothing came in: {self.plane.counts}, lost {self.lost}"


def until(condition: Callable[[], bool]) -> None:
    """Wait for a counter that a network thread raises and for which there is no signal."""
    pause = threading.Event()
    for _ in range(int(WAIT_S * 200)):
        if condition():
            return
        pause.wait(0.005)
    raise AssertionError("the condition never held")


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """After every test no thread and no socket of ours is left."""
    gc.collect()
    threads, sockets = set(threading.enumerate()), open_sockets()
    yield
    until(lambda: not [t for t in set(threading.enumerate()) - threads if t.name.startswith("headgate")])
    until(lambda: open_sockets() == sockets)


def open_sockets() -> int:
    """How many file handles of this process are sockets."""
    count = 0
    for handle in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            count += os.readlink(f"/proc/self/fd/{handle}").startswith("socket:")
    return count


@pytest.fixture
def workers() -> Iterator[Callable[..., Worker]]:
    """Makes workers and closes them after the test."""
    with ExitStack() as stack:

        def make(slot: int, **options: int) -> Worker:
            worker = Worker(slot, **options)
            stack.callback(worker.plane.close)
            return worker

        yield make


def addresses(*members: Worker) -> dict[int, str]:
    """Addresses by slot of a gang, slots counted from 0."""
    return {slot: worker.plane.address for slot, worker in enumerate(members)}


def stranger(address: str, hello: Hello, secret: bytes = SECRET) -> Connection:
    """A hand-made authenticated peer."""
    return dial(address, secret, hello)[0]


def test_frames_arrive_in_order_from_every_peer(workers: Callable[..., Worker]) -> None:
    """Between three workers everything arrives, and in order per peer."""
    gang = [workers(slot) for slot in range(3)]
    planes: list[DataPlane] = [worker.plane for worker in gang]
    for plane in planes:
        plane.open(fence(), addresses(*gang))
    for sender, plane in enumerate(planes):
        for number in range(200):
            for receiver in range(3):
                if receiver != sender:
                    plane.send(receiver, rows(b"%d:%d" % (sender, number)))
    for slot, worker in enumerate(gang):
        worker.wait(lambda worker=worker: len(worker.received) == 400)
        for peer in {0, 1, 2} - {slot}:
            got = [data for sender, data in worker.received if sender == peer]
            assert got == [b"%d:%d" % (peer, number) for number in range(200)]
        assert worker.lost == []


@pytest.mark.parametrize("family", ["unix", "tcp"])
def test_large_and_small_frames_on_both_kinds_of_socket(workers: Callable[..., Worker], family: str) -> None:
    """Frames of many sizes and parts arrive intact over Unix sockets and over TCP."""
    one, two = workers(0), workers(1)
    (door,) = [e.text for e in parse_address(two.plane.address) if e.family == family]
    one.plane.open(fence(), {0: one.plane.address, 1: door})
    two.plane.open(fence(), addresses(one, two))
    sizes = [0, 1, 100, 256 * 1024 - 44, 256 * 1024, 3_000_000, 5, 70_000, 9_000_000]
    for size in sizes:
        data = os.urandom(size % 1000) + bytes(size - size % 1000)
        parts = [data[: size // 3], memoryview(data)[size // 3 :]]
        one.plane.send(1, Frame(FrameKind.COLUMNS, 1, 2, 3, parts))
    many = [bytes([number % 256]) for number in range(3000)]
    one.plane.send(1, Frame(FrameKind.COLUMNS, 1, 2, 3, many))
    two.wait(lambda: len(two.received) == len(sizes) + 1)
    assert [len(data) for _, data in two.received] == [*sizes, 3000]
    assert two.received[-1][1] == b"".join(many)


def test_frames_sent_before_the_peer_opens_are_kept(workers: Callable[..., Worker]) -> None:
    """A peer that is ahead connects and sends; it is read once this side opens the same attempt."""
    one, two = workers(0), workers(1)
    one.plane.open(fence(), addresses(one, two))
    one.plane.send(1, rows(b"early"))
    until(lambda: two.plane._held() == 1)
    assert two.plane.receive() == []
    two.plane.open(fence(), addresses(one, two))
    two.wait(lambda: two.received == [(0, b"early")])
    assert two.plane._held() == 0


def test_a_held_connection_times_out(workers: Callable[..., Worker]) -> None:
    """A peer whose attempt is never opened here is not held for ever."""
    one, two = workers(0), workers(1, hold_timeout_ms=30)
    one.plane.open(fence(), addresses(one, two))
    until(lambda: two.plane.counts["admitted"] == 1)
    until(lambda: two.plane._held() == 0)


def test_a_new_attempt_starts_clean(workers: Callable[..., Worker]) -> None:
    """What an old attempt sent or queued is not delivered to the next, which works as the first did."""
    one, two = workers(0), workers(1)
    for attempt in range(1, 6):
        one.plane.open(fence(attempt), addresses(one, two))
        two.plane.open(fence(attempt), addresses(one, two))
        one.plane.send(1, rows(b"%d" % attempt))
        two.wait(lambda attempt=attempt: two.received == [(0, b"%d" % attempt)])
        one.plane.send(1, rows(b"left over"))
        one.plane.close_attempt()
        two.plane.close_attempt()
        assert two.plane.receive() == two.plane.lost() == []
        two.received.clear()
    names = [t.name for t in threading.enumerate() if t.name.startswith("headgate-data-")]
    assert sorted(names) == ["headgate-data-accept"] * 2


def test_an_outdated_peer_is_fenced(workers: Callable[..., Worker]) -> None:
    """A worker that opens an older attempt loses its peers with the reason that it was replaced."""
    old, new = workers(0), workers(1)
    new.plane.open(fence(3), {1: new.plane.address})
    old.plane.open(fence(2), addresses(old, new))
    old.wait(lambda: bool(old.lost))
    ((slot, reason),) = old.lost
    assert slot == 1
    assert "was replaced and must stop" in reason
    assert new.plane.lost() == []
    assert new.plane.counts["refused"] == 1


def test_a_peer_of_a_closed_attempt_is_fenced(workers: Callable[..., Worker]) -> None:
    """Who comes for an attempt that has ended here is not held but told so."""
    late, done = workers(0), workers(1)
    done.plane.open(fence(1), {1: done.plane.address})
    done.plane.close_attempt()
    late.plane.open(fence(1), addresses(late, done))
    late.wait(lambda: bool(late.lost))
    assert "attempt 1 is over on slot 1" in late.lost[0][1]


def test_frames_of_another_attempt_are_dropped_and_counted(workers: Callable[..., Worker]) -> None:
    """On a valid connection a frame with another generation or attempt changes nothing."""
    worker = workers(1)
    worker.plane.open(fence(2), addresses(workers(0), worker))
    peer = stranger(worker.plane.address, Hello("job", 1, 2, 0, 0, "data"))
    for generation, attempt in ((1, 1), (1, 3), (2, 2), (0, 2)):
        frame = rows(b"zombie")
        send_parts(peer.sock, [encode_header(frame, generation, attempt), *frame.parts])
    good = rows(b"good")
    send_parts(peer.sock, [encode_header(good, 1, 2), *good.parts])
    worker.wait(lambda: bool(worker.received))
    assert worker.received == [(0, b"good")]
    assert worker.plane.counts["frames dropped"] == 4
    peer.close()


def test_a_second_copy_of_a_peer_is_refused(workers: Callable[..., Worker]) -> None:
    """One slot connects once per attempt; a copy of the task is turned away and the first one stays."""
    one, two = workers(0), workers(1)
    for worker in (one, two):
        worker.plane.open(fence(), addresses(one, two))
    until(lambda: two.plane.counts["admitted"] == 1)
    with pytest.raises(ProtocolError, match="connected already"):
        stranger(two.plane.address, Hello("job", 1, 1, 0, 0, "data"))
    one.plane.send(1, rows(b"still here"))
    two.wait(lambda: two.received == [(0, b"still here")])


def test_a_peer_of_another_job_is_refused(workers: Callable[..., Worker]) -> None:
    """The secret alone is not enough: the job must be the same."""
    worker = workers(1)
    worker.plane.open(fence(), {0: worker.plane.address})
    with pytest.raises(ProtocolError, match="belongs to job 'other'"):
        stranger(worker.plane.address, Hello("other", 1, 1, 0, 0, "data"))
    with pytest.raises(ProtocolError, match="no peer of slot 1"):
        stranger(worker.plane.address, Hello("job", 1, 1, 7, 0, "data"))


def test_a_dead_peer_is_reported_once(workers: Callable[..., Worker]) -> None:
    """When both connections to a peer break, it is lost once, with a reason, and sending does nothing."""
    one, two = workers(0), workers(1)
    for worker in (one, two):
        worker.plane.open(fence(), addresses(one, two))
    one.plane.send(1, rows(b"x"))
    two.plane.send(0, rows(b"x"))
    one.wait(lambda: len(one.received) == 1)
    two.wait(lambda: len(two.received) == 1)
    two.plane.close()
    one.wait(lambda: bool(one.lost))
    for _ in range(100):
        one.plane.send(1, rows(bytes(100_000)))
    one.plane.close_attempt()
    assert [slot for slot, _ in one.lost] == [1]
    assert "slot 1" in one.lost[0][1]


def test_an_unreachable_peer_is_lost(workers: Callable[..., Worker]) -> None:
    """A peer whose address leads nowhere is reported like one that died later."""
    one, gone = workers(0), workers(1)
    address = gone.plane.address
    gone.plane.close()
    one.plane.open(fence(), {1: address})
    one.wait(lambda: bool(one.lost))
    assert one.lost[0][0] == 1
    assert "no connection to unix:@" in one.lost[0][1]


def test_an_address_that_leads_to_somebody_else_is_noticed(workers: Callable[..., Worker]) -> None:
    """A reused address does not connect a worker to the wrong slot."""
    one, two = workers(0), workers(1)
    two.plane.open(fence(), addresses(one, two))
    one.plane.open(fence(), {2: two.plane.address})
    one.wait(lambda: bool(one.lost))
    assert one.lost[0][0] == 2
    assert "is slot 1, expected 2" in one.lost[0][1]


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n" * 10, bytes(200), b"\xff" * 200])
def test_a_garbage_peer_disturbs_nobody(workers: Callable[..., Worker], garbage: bytes) -> None:
    """Bytes that are no handshake end their own connection only, and are counted."""
    one, two = workers(0), workers(1)
    with connect(two.plane.address, 5000) as sock:
        sock.sendall(garbage)
        sock.settimeout(WAIT_S)
        with pytest.raises(ConnectionError):
            # The listener closes with bytes unread, so the end may come as a reset or as a plain one.
            if sock.recv(1) == b"":
                raise ConnectionError
    assert two.plane.counts["unauthenticated"] == 1
    for worker in (one, two):
        worker.plane.open(fence(), addresses(one, two))
    one.plane.send(1, rows(b"fine"))
    two.wait(lambda: two.received == [(0, b"fine")])


def test_a_peer_with_another_secret_is_turned_away(workers: Callable[..., Worker]) -> None:
    """Both sides notice a wrong secret; the listener counts it."""
    worker = workers(1)
    with pytest.raises(ProtocolError, match="did not prove"):
        stranger(worker.plane.address, Hello("job", 1, 1, 0, 0, "data"), b"another secret of 32 bytes......")
    until(lambda: worker.plane.counts["disconnected"] == 1)
    assert worker.plane.counts["admitted"] == 0


def test_a_silent_peer_is_closed_in_time(workers: Callable[..., Worker]) -> None:
    """A peer that says nothing, or trickles, is cut off at the deadline of the whole handshake."""
    worker = workers(1, handshake_timeout_ms=50)
    silent, trickling = (connect(worker.plane.address, 5000) for _ in range(2))
    with silent, trickling:
        trickling.sendall(b"HGHS")
        for sock in (silent, trickling):
            sock.settimeout(WAIT_S)
            assert sock.recv(1) == b""
    assert worker.plane.counts["timed out"] == 2


def test_many_silent_peers_do_not_shut_out_a_good_one(workers: Callable[..., Worker]) -> None:
    """When more than 256 handshakes are pending, the oldest gives way and a good peer still gets in."""
    one, two = workers(0), workers(1, handshake_timeout_ms=60_000)
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(connect(two.plane.address, 5000))
        for worker in (one, two):
            worker.plane.open(fence(), addresses(one, two))
        one.plane.send(1, rows(b"in"))
        two.wait(lambda: two.received == [(0, b"in")])
        until(lambda: two.plane.counts["timed out"] >= 44)


def test_damaged_bytes_lose_the_peer_and_change_nothing(workers: Callable[..., Worker]) -> None:
    """A frame that fails its checksum is never delivered; its connection ends with the reason."""
    worker = workers(1)
    worker.plane.open(fence(), addresses(workers(0), worker))
    peer = stranger(worker.plane.address, Hello("job", 1, 1, 0, 0, "data"))
    send_parts(peer.sock, [encode_header(rows(b"records"), 1, 1), b"recOrds"])
    worker.wait(lambda: any("damaged" in reason for _, reason in worker.lost))
    assert worker.received == []
    assert worker.plane.counts["unsound"] == 1
    peer.close()


def test_an_oversize_frame_loses_the_peer(workers: Callable[..., Worker]) -> None:
    """A payload beyond the limit ends the connection before its bytes are read."""
    worker = workers(1, frame_size_max=1000)
    worker.plane.open(fence(), addresses(workers(0), worker))
    peer = stranger(worker.plane.address, Hello("job", 1, 1, 0, 0, "data"))
    peer.sock.sendall(encode_header(rows(bytes(1001)), 1, 1))
    worker.wait(lambda: any("the limit is 1000" in reason for _, reason in worker.lost))
    peer.close()


def test_a_connection_that_ends_inside_a_frame_is_lost(workers: Callable[..., Worker]) -> None:
    """Half a frame is nothing."""
    worker = workers(1)
    worker.plane.open(fence(), addresses(workers(0), worker))
    peer = stranger(worker.plane.address, Hello("job", 1, 1, 0, 0, "data"))
    peer.sock.sendall(encode_header(rows(bytes(1000)), 1, 1) + bytes(500))
    peer.close()
    worker.wait(lambda: any("ended inside a frame" in reason for _, reason in worker.lost))
    assert worker.received == []


def test_sending_never_blocks_and_closing_ends_a_blocked_sender(workers: Callable[..., Worker]) -> None:
    """A peer that does not read blocks only its sending thread, which close_attempt ends."""
    one, two = workers(0), workers(1)
    one.plane.open(fence(), addresses(one, two))
    payload = bytes(8_000_000)
    for _ in range(10):
        one.plane.send(1, rows(payload))
    until(lambda: two.plane._held() == 1)
    one.plane.close_attempt()
    assert [t for t in threading.enumerate() if t.name.startswith("headgate-data-send")] == []


def test_misuse_is_our_own_fault(workers: Callable[..., Worker]) -> None:
    """Opening twice, backwards or after the end, and sending to a stranger are internal errors."""
    worker = workers(0)
    with pytest.raises(InternalError, match="no open peer"):
        worker.plane.send(1, rows(b""))
    worker.plane.open(fence(2), {0: worker.plane.address})
    with pytest.raises(InternalError, match="while the data plane was open"):
        worker.plane.open(fence(3), {})
    worker.plane.close_attempt()
    with pytest.raises(InternalError, match="was opened after"):
        worker.plane.open(fence(2), {})
    worker.plane.close()
    worker.plane.close()
    with pytest.raises(InternalError, match="while the data plane was closed"):
        worker.plane.open(fence(3), {})


def test_addresses_read_back() -> None:
    """The text of an address and its endpoints are the same thing."""
    text = f"unix:@headgate-1-ab#{host_id()},tcp:127.0.0.1:4711,unix:/run/x#h,tcp:[::1]:1"
    endpoints = parse_address(text)
    assert ",".join(endpoint.text for endpoint in endpoints) == text
    assert endpoints[0].target == "\0headgate-1-ab"
    assert endpoints[3] == Endpoint("tcp", ("::1", 1))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "unix:@x",
        "unix:#h",
        "tcp:host",
        "tcp:host:",
        "tcp::1",
        "tcp:h:0",
        "tcp:h:65536",
        "udp:h:1",
        "tcp:h:²",
    ],
)
def test_bad_addresses_are_refused(text: str) -> None:
    """What is no address is refused with what was expected."""
    with pytest.raises(ProtocolError, match="expected unix:@name#host"):
        parse_address(text)


def test_a_unix_address_of_another_machine_is_not_tried() -> None:
    """A name in another machine's namespace means nothing here: only TCP is tried, or nothing."""
    with pytest.raises(ProtocolError, match="no endpoint for this machine"):
        connect("unix:@name#elsewhere/boot", 1000)


def test_the_next_door_is_tried() -> None:
    """Where the Unix socket does not answer, as between containers, TCP is used."""
    listener = listen("127.0.0.1")
    tcp = parse_address(listener.address)[1]
    with connect(f"unix:@nobody#{host_id()},{tcp.text}", 5000) as sock:
        assert sock.family == socket.AF_INET
    with connect(listener.address, 5000) as sock:
        assert sock.family == socket.AF_UNIX
    listener.close()


def test_an_address_of_another_machine_cannot_be_bound() -> None:
    """A bind host that is not ours is refused with the option to set."""
    with pytest.raises(ConfigError, match=r"headgate\.network\.bind-host"):
        listen("192.0.2.1")


def test_a_peer_that_never_answers_is_given_up() -> None:
    """Who accepts but never answers the handshake costs the dialler its timeout and no more."""
    listener = listen("127.0.0.1")
    with pytest.raises(OperatingError, match="no handshake with"):
        dial(listener.address, SECRET, Hello("job", 1, 1, 0, 0, "data"), timeout_ms=30)
    listener.close()
