"""Signals to the driver: Ctrl-C and SIGTERM end what runs and leave the program's own handlers alone."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from headgate.common.process.signal_handlers import deferring_interrupts, ending_cleanly, signal_behind


@pytest.fixture(autouse=True)
def _default_handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number: signal.Signals) -> None:
    """To this process; the handler has run when this returns."""
    os.kill(os.getpid(), number)


def test_sigterm_unwinds_and_exits_with_143() -> None:
    """The body's own clean-up runs, then the program's, and the exit code is that of the signal."""
    steps = []
    with pytest.raises(SystemExit) as ending, ending_cleanly():
        try:
            send(signal.SIGTERM)
        except KeyboardInterrupt:  # what the job's driver cancels on
            steps.append("cancelled")
            raise
    assert (ending.value.code, steps) == (143, ["cancelled"])
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    behind = signal_behind(ending.value)
    assert behind is not None
    assert behind.by_sigterm
    assert signal_behind(behind) is behind
    assert signal_behind(SystemExit(143)) is signal_behind(KeyboardInterrupt()) is None


def test_ctrl_c_is_a_keyboard_interrupt() -> None:
    """It stays what it is everywhere in Python."""
    with pytest.raises(KeyboardInterrupt), ending_cleanly():
        send(signal.SIGINT)


def test_handlers_of_the_program_are_left_alone() -> None:
    """A program that handles signals itself goes on doing so."""
    seen: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    with ending_cleanly():
        send(signal.SIGTERM)
        send(signal.SIGINT)
    assert seen == [signal.SIGTERM, signal.SIGINT]


def test_an_interrupt_waits_until_spark_is_open() -> None:
    """The first one comes through at the end, so that what was opened has an owner who closes it."""
    opened = []
    with pytest.raises(KeyboardInterrupt), deferring_interrupts():
        send(signal.SIGINT)
        opened.append(True)
    assert opened == [True]
    with pytest.raises(SystemExit), deferring_interrupts():
        send(signal.SIGTERM)
    with pytest.raises(SystemExit), deferring_interrupts():
        send(signal.SIGTERM)
        raise OSError("Spark did not start")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_second_interrupt_does_not_wait() -> None:
    """Who insists is heard at once."""
    reached = []
    with pytest.raises(KeyboardInterrupt), deferring_interrupts():
        send(signal.SIGINT)
        reached.append(1)
        send(signal.SIGINT)
        reached.append(2)
    assert reached == [1]


def test_other_threads_have_no_say() -> None:
    """A job executed in a thread runs, though only the main thread may set handlers."""
    ran = []

    def body() -> None:
        with ending_cleanly(), deferring_interrupts():
            ran.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert ran == [signal.SIG_DFL]
