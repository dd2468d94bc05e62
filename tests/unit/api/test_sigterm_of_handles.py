"""Which background jobs are told of a SIGTERM, and for how long the signal is handled."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Iterator

import pytest

from headgate.api.jobs.sigterm_of_handles import forget, tell_of_sigterm


@pytest.fixture(autouse=True)
def _default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


class Job:
    """Notes what is done to it."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[str] = queue.SimpleQueue()

    def terminate(self) -> None:
        self._asked.put("terminate")

    def cancel(self, timeout_s: float | None) -> None:
        self._asked.put("cancel")

    def asked(self) -> str:
        return self._asked.get(timeout=10)

    def was_let_be(self) -> bool:
        return self._asked.empty()


def survived() -> None:
    """A SIGTERM to this process."""
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


def test_each_job_has_a_first_and_a_second_signal() -> None:
    """Whatever signals came before it began; one that has ended hears of none."""
    old, new, ended = Job(), Job(), Job()
    tell_of_sigterm(old)
    survived()
    assert old.asked() == "terminate"
    tell_of_sigterm(ended)
    forget(ended)
    tell_of_sigterm(new)
    survived()
    assert (new.asked(), old.asked()) == ("terminate", "cancel")
    survived()
    assert (new.asked(), old.asked()) == ("cancel", "cancel")
    assert ended.was_let_be()
    forget(old)
    forget(new)


def test_the_signal_is_what_it_was_once_no_job_is_left() -> None:
    """As soon as the main thread looks; other threads cannot change what signals do."""
    first, second = Job(), Job()
    tell_of_sigterm(first)
    tell_of_sigterm(second)
    forget(first)
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    thread = threading.Thread(target=forget, args=[second])
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    forget(second)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_handler_of_the_program_stays() -> None:
    """Also one that it has put in the place of ours."""
    job, seen = Job(), []
    tell_of_sigterm(job)
    signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    forget(job)
    signal.raise_signal(signal.SIGTERM)
    assert seen == [signal.SIGTERM]
    tell_of_sigterm(job)
    signal.raise_signal(signal.SIGTERM)
    assert (len(seen), job.was_let_be()) == (2, True)
