"""What is sent in a thread of its own: nobody waits, nothing grows, and one warning says what fails."""

from __future__ import annotations

import threading
import time

import pytest

from headgate.common.process.outward_queue import OutwardQueue

PATIENCE_S = 10


def test_items_are_sent_in_their_order() -> None:
    """As soon as there are some, also those that were put before the begin and right before the end."""
    sent: list[int] = []
    queue = OutwardQueue("test", "numbers", sent.extend, 100)
    queue.put(1)
    queue.begin()
    for n in range(2, 50):
        queue.put(n)
    assert queue.close(PATIENCE_S)
    assert (sent, queue.dropped) == (list(range(1, 50)), 0)


def test_a_receiver_that_stands_still_holds_nobody_up() -> None:
    """Whoever puts does not wait; the oldest items are dropped, and counted; the end waits as asked."""
    stands, entered = threading.Event(), threading.Event()
    sent: list[int] = []

    def send(items: list[int]) -> None:
        entered.set()
        stands.wait(PATIENCE_S)
        sent.extend(items)

    queue = OutwardQueue("test", "numbers", send, 10)
    queue.begin()
    queue.put(-1)
    assert entered.wait(PATIENCE_S)
    for n in range(1_000):
        queue.put(n)
    assert queue.dropped == 990
    began = time.monotonic()
    assert not queue.close(0.05)
    assert time.monotonic() - began < PATIENCE_S / 2
    stands.set()
    assert queue.close(PATIENCE_S)
    assert sent == [-1, *range(990, 1_000)]


def test_a_receiver_that_fails_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """Its items are lost; the end does not wait for one that fails."""
    tried = threading.Semaphore(0)

    def send(items: list[int]) -> None:
        tried.release()
        raise OSError("no such host")

    queue = OutwardQueue("test", "numbers", send, 10, every_s=0.01)
    queue.begin()
    for n in range(3):
        queue.put(n)
        assert tried.acquire(timeout=PATIENCE_S)
        assert tried.acquire(timeout=PATIENCE_S)
    queue.close(0)
    warned = [record.message for record in caplog.records]
    assert warned == ["numbers could not be sent; the job goes on, and this is said once: no such host"]
    assert queue.dropped == 3
