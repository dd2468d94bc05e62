"""What is sent in a thread of its own: nobody waits, nothing grows, and one warning says what fails."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

from headgate.common.masking import Mask
from headgate.common.process.outward_queue import OutwardQueue, close_together

PATIENCE_S = 10


def waited(event: threading.Event) -> None:
    """Stand still until the event."""
    assert event.wait(PATIENCE_S)


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


def test_parts_of_which_one_is_taken_are_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    """Every part is tried, and the next items, too; the first error is in the warning."""
    tried: list[int] = []

    def send(items: list[int]) -> None:
        def part(item: int) -> None:
            tried.append(item)
            if item % 2:
                raise OSError(f"no {item}")

        queue.try_each([partial(part, item) for item in items])

    queue = OutwardQueue("test", "numbers", send, 10)
    for n in (1, 2, 3):
        queue.put(n)
    queue._deliver()
    assert (tried, queue.failing) == ([1, 2, 3], False)
    assert [each.message.rpartition(": ")[2] for each in caplog.records] == ["no 1"]
    queue.put(5)
    queue._deliver()
    assert queue.failing


def test_no_secret_is_in_the_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Neither a login in a URL, nor what the owner of the queue masks, nor in what is said at the end."""
    stands = threading.Event()
    for mask, why in ((Mask(), "http://ada:pw@db did not"), (Mask(["opensesame"]), "not opensesame")):

        def send(items: list[str]) -> None:
            raise OSError(items[0])

        queue = OutwardQueue("test", "what goes to http://ada:pw@db", send, 10, masked=mask.text)
        queue.put(why)
        queue._deliver()
    slow = OutwardQueue("test", "http://ada:pw@slow", lambda _: waited(stands), 10)
    slow.begin()
    slow.put("a")
    close_together([slow], 0.01)
    stands.set()
    assert len(caplog.records) == 3
    assert "did not" in caplog.text
    assert "slow" in caplog.text
    assert "ada" not in caplog.text
    assert "opensesame" not in caplog.text


def test_queues_that_end_together_send_at_the_same_time(caplog: pytest.LogCaptureFixture) -> None:
    """All are told of the end before the first is waited for, which here needs what the second does."""
    done = threading.Event()
    first = OutwardQueue[int]("test", "numbers", lambda _: waited(done), 10, 3_600.0)
    second = OutwardQueue[int]("test", "numbers", lambda _: done.set(), 10, 3_600.0)
    for queue in (first, second):
        queue.begin()
    close_together([first, second], PATIENCE_S / 2)
    assert not first._thread.is_alive()
    assert caplog.records == []


def test_queues_that_end_together_wait_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one has waited is taken off what the next may."""
    now, waits = [100.0], list[float]()

    class Slow(OutwardQueue[int]):
        def close(self, wait_s: float) -> bool:
            waits.append(wait_s)
            now[0] += 2
            return True

    monkeypatch.setattr("headgate.common.process.outward_queue.clock.monotonic", lambda: now[0])
    close_together([Slow("test", "numbers", lambda _: None, 10) for _ in range(3)], 3.0)
    assert waits == [3.0, 1.0, 0.0]
