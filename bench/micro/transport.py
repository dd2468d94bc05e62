"""Frames between two processes: our sockets against ZeroMQ, and what a busy loop does to a receiver.

Run ``python -m bench.micro.transport`` (``--smoke`` for seconds instead of minutes). ZeroMQ rows appear only
where pyzmq is installed; it is no dependency of Headgate. One line of JSON per measurement goes to stdout.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import multiprocessing
import os
import resource
import socket
import statistics
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

from headgate.runtime.protocol.frames import Frame, FrameKind, FrameReader
from headgate.runtime.transport.connection import Connection, FrameSender
from headgate.runtime.transport.sockets import (
    FrameReceiver,
    Listener,
    connect,
    listen,
    parse_address,
    send_parts,
    tune,
)

FRAME_SIZE_MAX = 64 << 20
SIZES = (64 << 10, 1 << 20, 3 << 20)
STEP_S = 0.010


def cpu_s() -> float:
    """CPU seconds of this process, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def send_plain(address: str, size: int, count: int, report: Any) -> None:
    """Child: send `count` frames through a FrameSender (every one checksummed), a few in flight."""
    done = threading.Event()
    sock = connect(address, 10_000)
    connection = Connection(sock)
    sender = FrameSender(lambda _attach: connection, 1, 1, "sender", lambda _reason: done.set())
    payload = os.urandom(size)
    sender.start()
    begin = cpu_s()
    for _ in range(count):
        sender.send(Frame(FrameKind.COLUMNS, 0, 0, 0, [payload]))
    sender.finish()
    done.wait()
    report.put(cpu_s() - begin)
    connection.close()


def send_bare(address: str, size: int, count: int, report: Any) -> None:
    """Child: send as many bytes in the same pieces, without checksum or thread."""
    sock = connect(address, 10_000)
    payload, header = os.urandom(size), bytes(44)
    begin = cpu_s()
    for _ in range(count):
        send_parts(sock, [header, payload])
    sock.close()
    report.put(cpu_s() - begin)


def send_zmq(address: str, size: int, count: int, checksum: bool, report: Any) -> None:
    """Child: push `count` two-part messages without copying, with or without a checksum."""
    import zmq

    context = zmq.Context()
    push = context.socket(zmq.PUSH)
    push.setsockopt(zmq.SNDHWM, 8)
    push.connect(address)
    payload, header = os.urandom(size), bytes(44)
    begin = cpu_s()
    for _ in range(count):
        if checksum:
            zlib.crc32(payload)
        push.send_multipart([header, payload], copy=False)
    push.close(linger=-1)
    context.term()
    report.put(cpu_s() - begin)


def plain_run(family: str, size: int, count: int) -> tuple[float, float]:
    """Seconds and CPU seconds of both processes for `count` frames over our sockets."""
    listener = listen("127.0.0.1")
    sock, child, report = accept_child(listener, family, send_plain, size, count)
    receiver = FrameReceiver(sock, FRAME_SIZE_MAX)
    received = len(receiver.receive())
    begin, cpu = time.perf_counter(), cpu_s()
    while received < count:
        received += len(receiver.receive())
    elapsed, used = time.perf_counter() - begin, cpu_s() - cpu
    used += report.get()
    child.join()
    sock.close()
    listener.close()
    return elapsed, used


def bare_run(family: str, size: int, count: int) -> tuple[float, float]:
    """The floor: the same bytes over the same sockets, neither checked nor parsed."""
    listener = listen("127.0.0.1")
    sock, child, report = accept_child(listener, family, send_bare, size, count)
    header = bytearray(44)
    sock.recv_into(header, 0, socket.MSG_WAITALL)
    begin, cpu = time.perf_counter(), cpu_s()
    for _ in range(count):
        sock.recv_into(bytearray(size), 0, socket.MSG_WAITALL)
        sock.recv_into(header, 0, socket.MSG_WAITALL)
    elapsed, used = time.perf_counter() - begin, cpu_s() - cpu + report.get()
    child.join()
    sock.close()
    listener.close()
    return elapsed, used


def accept_child(
    listener: Listener, family: str, target: Callable[..., None], *arguments: Any
) -> tuple[socket.socket, Any, Any]:
    """A child that sends to one door of the listener: its socket, process and report."""
    (door,) = [e.text for e in parse_address(listener.address) if e.family == family]
    child, report = start(target, door, *arguments)
    (listening,) = [s for s in listener.sockets if (s.family == socket.AF_UNIX) == (family == "unix")]
    sock, _ = listening.accept()
    tune(sock)
    return sock, child, report


def zmq_run(checksum: bool, family: str, size: int, count: int) -> tuple[float, float]:
    """The same over ZeroMQ PUSH/PULL."""
    import zmq

    with tempfile.TemporaryDirectory() as folder, zmq.Context() as context, context.socket(zmq.PULL) as pull:
        pull.setsockopt(zmq.RCVHWM, 8)
        pull.bind(f"ipc://{folder}/socket" if family == "unix" else "tcp://127.0.0.1:*")
        address = pull.getsockopt_string(zmq.LAST_ENDPOINT)
        child, report = start(send_zmq, address, size, count, checksum)
        pull.recv_multipart(copy=False)
        begin, cpu = time.perf_counter(), cpu_s()
        for _ in range(count - 1):
            parts = pull.recv_multipart(copy=False)
            if checksum:
                zlib.crc32(parts[1].buffer)
        elapsed, used = time.perf_counter() - begin, cpu_s() - cpu
        used += report.get()
        child.join()
    return elapsed, used


def start(target: Callable[..., None], *arguments: Any) -> tuple[Any, Any]:
    """A child process running `target`, and the queue for what it reports."""
    context = multiprocessing.get_context("spawn")
    report = context.SimpleQueue()
    child = context.Process(target=target, args=(*arguments, report))
    child.start()
    return child, report


def measure_transports(total: int, runs: int) -> None:
    """GB/s and CPU seconds per GB of every transport, family and size; runs interleaved, medians printed."""
    transports: dict[str, Callable[[str, int, int], tuple[float, float]]] = {
        "sockets, crc32 (ours)": plain_run,
        "sockets, no checksum": bare_run,
    }
    if importlib.util.find_spec("zmq") is not None:
        transports["zmq, crc32"] = functools.partial(zmq_run, True)
        transports["zmq, no checksum"] = functools.partial(zmq_run, False)
    for family in ("unix", "tcp"):
        for size in SIZES:
            count = max(8, total // size)
            results: dict[str, list[tuple[float, float]]] = {name: [] for name in transports}
            for _ in range(runs):
                for name, run in transports.items():
                    results[name].append(run(family, size, count))
            gigabytes = size * count / 1e9
            for name, each in results.items():
                rates = sorted(gigabytes / elapsed for elapsed, _ in each)
                emit(
                    what="transport",
                    transport=name,
                    family=family,
                    frame_kib=size >> 10,
                    gb_per_s=round(statistics.median(rates), 2),
                    gb_per_s_range=[round(rates[0], 2), round(rates[-1], 2)],
                    cpu_s_per_gb=round(statistics.median(used / gigabytes for _, used in each), 2),
                )


def work_until(end: float, state: dict[int, int]) -> int:
    """The kind of work a loop does: counting keys in a dict, in batches of 1000; gives the batches."""
    batches = 0
    while time.perf_counter() < end:
        for key in range(1000):
            state[key] = state.get(key, 0) + 1
        batches += 1
    return batches


def beside_thread(sock: socket.socket, seconds: float) -> tuple[int, int]:
    """Bytes that a receiving thread got, and batches that the loop did meanwhile."""
    receiver, received, ended = FrameReceiver(sock, FRAME_SIZE_MAX), [0], threading.Event()

    def receive() -> None:
        while not ended.is_set():
            received[0] += sum(frame.size for _, frame in receiver.receive())

    thread = threading.Thread(target=receive, daemon=True)
    thread.start()
    batches = work_until(time.perf_counter() + seconds, {})
    result = received[0]
    ended.set()
    thread.join()
    return result, batches


def in_loop(sock: socket.socket, seconds: float) -> tuple[int, int]:
    """The same when the loop reads a non-blocking socket itself between steps of 10 ms."""
    sock.setblocking(False)
    reader, buffer = FrameReader(FRAME_SIZE_MAX), memoryview(bytearray(256 << 10))
    state: dict[int, int] = {}
    received = batches = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        batches += work_until(time.perf_counter() + STEP_S, state)
        try:
            while True:
                space = reader.space()
                if space is None:
                    frames = reader.feed(buffer[: sock.recv_into(buffer)])
                else:
                    frames = reader.filled(sock.recv_into(space))
                received += sum(frame.size for _, frame in frames)
                if received and time.perf_counter() > end:
                    break
        except BlockingIOError:
            pass
    sock.setblocking(True)
    return received, batches


def send_forever(address: str, size: int, pause_s: float, report: Any) -> None:
    """Child: send checksummed frames until the peer is gone, at most one per pause."""
    from headgate.runtime.protocol.frames import encode_header
    from headgate.runtime.transport.sockets import send_parts

    sock = connect(address, 10_000)
    payload = os.urandom(size)
    frame = Frame(FrameKind.COLUMNS, 0, 0, 0, [payload])
    header = encode_header(frame, 1, 1)
    try:
        while True:
            send_parts(sock, [header, *frame.parts])
            time.sleep(pause_s)
    except OSError:
        report.put(0)
    sock.close()


def measure_busy_loop(seconds: float, runs: int) -> None:
    """What a receiver gets beside a CPU-bound loop, and what it costs the loop, by way of receiving."""
    alone = work_until(time.perf_counter() + seconds, {}) / seconds
    ways: list[tuple[str, float, Callable[[socket.socket, float], tuple[int, int]]]] = [
        ("thread, switch interval 5 ms", 0.005, beside_thread),
        ("thread, switch interval 1 ms", 0.001, beside_thread),
        ("thread, switch interval 0.2 ms", 0.0002, beside_thread),
        ("non-blocking in the loop, steps of 10 ms", 0.005, in_loop),
    ]
    for size in (64 << 10, 1 << 20):
        for rate_mb_s in (50, 400):
            for name, interval_s, way in ways:
                samples = [busy_run(way, size, rate_mb_s, interval_s, seconds) for _ in range(runs)]
                emit(
                    what="beside a busy loop",
                    way=name,
                    frame_kib=size >> 10,
                    offered_mb_per_s=rate_mb_s,
                    received_mb_per_s=round(statistics.median(r / seconds / 1e6 for r, _ in samples)),
                    loop_speed=round(statistics.median(b / seconds / alone for _, b in samples), 2),
                )


def busy_run(
    way: Callable[[socket.socket, float], tuple[int, int]],
    size: int,
    rate_mb_s: int,
    interval_s: float,
    seconds: float,
) -> tuple[int, int]:
    """One run of one way to receive."""
    listener = listen("127.0.0.1")
    sock, child, _ = accept_child(listener, "unix", send_forever, size, size / (rate_mb_s * 1e6))
    before = sys.getswitchinterval()
    sys.setswitchinterval(interval_s)
    try:
        return way(sock, seconds)
    finally:
        sys.setswitchinterval(before)
        sock.close()
        listener.close()
        child.join()


def emit(**fields: Any) -> None:
    """One result, for a person and a machine."""
    print(json.dumps(fields), flush=True)


def main() -> None:
    """Run the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a few seconds, to see that it runs")
    smoke = parser.parse_args().smoke
    measure_transports(total=(32 << 20) if smoke else (1 << 30), runs=1 if smoke else 3)
    measure_busy_loop(seconds=0.2 if smoke else 1.0, runs=1 if smoke else 3)


if __name__ == "__main__":
    main()
