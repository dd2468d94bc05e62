"""What user code prints on the standard streams: whole lines, by who printed them, and never too many."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.common.process.logs import TaskContext, remove_logging, set_up_logging, use_task_context
from headgate.display.printed import CellLines
from headgate.runtime.job.black_box import PREFIX, BlackBox, remains_of
from headgate.runtime.worker.printing import LINES_MAX, LogOutlet, SendingOutlet, printing_to
from headgate.testing import MiniCluster


class Told:
    """Keeps what is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.left_out = 0

    def __call__(self, lines: list[str], left_out: int) -> None:
        self.lines += lines
        self.left_out += left_out


@contextlib.contextmanager
def worker(told: Told, slot: int = 0, uid: str = "in", *, alone: bool = False) -> Iterator[None]:
    """This thread works for a subtask."""
    with printing_to(SendingOutlet(told), "job", slot, alone=alone):
        use_task_context(TaskContext("job", uid, slot, 1))
        try:
            yield
        finally:
            use_task_context(TaskContext())


def doubled(number: int) -> int:
    """A user's function."""
    print("saw", number)
    return 2 * number


def talks(number: int) -> bool:
    """One that prints through another."""
    logging_like()
    return number > 0


def logging_like() -> None:
    """What that one calls."""
    print("from elsewhere")


class Shout(hg.ProcessFunction[int, int]):
    """Another, with methods."""

    def process(self, record: int, ctx: Any) -> Iterator[int]:
        self.helper(record)
        yield record

    def helper(self, record: int) -> None:
        print("HEARD", record)


def test_lines_name_operator_and_subtask(capsys: pytest.CaptureFixture[str]) -> None:
    """Each operator has its own lines: also functions run as one loop, and one function in two places."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    numbers = env.from_collection([1], uid="in").rebalance().map(doubled, uid="double")
    numbers = numbers.map(functools.partial(doubled), uid="again").filter(talks, uid="talks")
    numbers.process(Shout(), uid="shout").map(doubled, uid="last").print(uid="seen")
    env.execute("told")
    assert capsys.readouterr().out.splitlines() == [
        "double[0]: saw 1", "again[0]: saw 2", "talks[0]: from elsewhere", "shout[0]: HEARD 4",
        "last[0]: saw 4", "seen[0]: 8",
    ]  # fmt: skip


def complains(number: int) -> int:
    """A user's function that prints where errors go."""
    print("odd:", end=" ", file=sys.stderr)
    print(number, file=sys.stderr)
    return number


def test_lines_on_the_standard_error_name_operator_and_subtask(capsys: pytest.CaptureFixture[str]) -> None:
    """They stay on the standard error of a mini cluster's process."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    env.from_collection([1], uid="in").rebalance().map(complains, uid="check").map(doubled).collect()
    output = capsys.readouterr()
    assert output.err.splitlines() == ["check[0]: odd: 1"]
    assert output.out.splitlines() == ["map-3[0]: saw 1"]


def test_both_streams_go_the_same_bounded_way() -> None:
    """A flood on the standard error is the last lines and a count, and a bar of progress is one line."""
    printed = threading.Event()

    class SlowlyTold(Told):
        def __call__(self, lines: list[str], left_out: int) -> None:
            printed.wait(30)
            super().__call__(lines, left_out)

    told = SlowlyTold()
    with worker(told):
        for number in range(5 * LINES_MAX):
            print(number, file=sys.stderr)
        for percent in range(101):
            sys.stderr.write(f"\r{percent} %")
        sys.stderr.write("\n")
        assert sys.stderr.buffer.write(b"bytes\n") == 6
        print("usual")
        printed.set()
    assert told.left_out + len(told.lines) == 5 * LINES_MAX + 3
    assert told.left_out > 0
    assert told.lines[-3:] == ["in[0]: 100 %", "in[0]: bytes", "in[0]: usual"]


def test_entries_of_logs_pass_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    """Headgate's own handler, a handler of the program's, and Python's last resort."""
    told = Told()
    try:
        with worker(told):
            set_up_logging()
            logging.getLogger("headgate.some").warning("ours")
            remove_logging()
            handler = logging.StreamHandler()
            logger = logging.getLogger("program")
            logger.addHandler(handler)
            logger.warning("of the program")
            logger.removeHandler(handler)
    finally:
        remove_logging()
    assert told.lines == []
    assert re.fullmatch(
        r".* WARNING job=job uid=in .* headgate.some: ours\nof the program\n", capsys.readouterr().err
    )


def test_where_nobody_looks_the_standard_error_goes_into_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """An entry is one line on the standard error, with its fields, and is not taken for a print itself."""

    class Prints(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            print("a handler that prints:", record.getMessage(), file=sys.stderr)

    handler = Prints()
    logging.getLogger("headgate.print").addHandler(handler)
    try:
        set_up_logging()
        with printing_to(LogOutlet(), "job", 0, alone=True):
            print("seen", file=sys.stderr)
    finally:
        remove_logging()
        logging.getLogger("headgate.print").removeHandler(handler)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "a handler that prints: worker: seen"
    assert second.endswith("INFO headgate.print: worker: seen")


def test_the_last_lines_on_the_standard_error_are_kept_for_who_asks_why_it_ended() -> None:
    """Lines that went to the driver are in the box as they were printed."""
    descriptor, name = tempfile.mkstemp(prefix=f"{PREFIX}{os.getpid()}-")
    os.close(descriptor)
    box = BlackBox(Path(name))
    with printing_to(SendingOutlet(Told()), "job", 0, alone=True, box=box):
        print("no more room", file=sys.stderr)
        print("not an error")
    remains = remains_of(name)
    box.close()
    assert remains is not None
    assert remains.errors == "no more room"


def test_lines_outside_every_operator_name_the_chain() -> None:
    """What runs for a subtask beside its operators."""
    told = Told()
    with worker(told, 3):
        print("from elsewhere")
    assert told.lines == ["in[3]: from elsewhere"]


def test_a_line_is_what_would_be_seen_of_it() -> None:
    """A bar of progress goes back to the beginning of its line: it may not write over whose line it is."""
    told = Told()
    with worker(told):
        for percent in range(2_001):
            print(f"{percent} %", end="\r")
        print()
        print("of Windows\r")
        print("50 %\r100 %", end="")
    assert told.lines == ["in[0]: 2000 %", "in[0]: of Windows", "worker: 100 %"]


def test_bytes_are_lines_too() -> None:
    """Libraries that write bytes to the standard output are no exception."""
    told = Told()
    with worker(told):
        print("text and ", end="")
        assert sys.stdout.buffer.write("bytes, é\n".encode()) == 10
        sys.stdout.buffer.flush()
    assert told.lines == ["in[0]: text and bytes, é"]


def test_lines_of_several_workers_are_never_torn() -> None:
    """Each comes whole, however it was written, with the number of its own subtask."""
    told = Told()

    def work(slot: int) -> None:
        with worker(told, slot):
            for number in range(200):
                for piece in ("a", f"{slot}", " ", f"{number}"):
                    print(piece, end="")
                    if number % 50 == 0:
                        time.sleep(0)
                sys.stdout.write("\n")

    threads = [threading.Thread(target=work, args=(slot,)) for slot in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told.lines) == sorted(f"in[{slot}]: a{slot} {n}" for slot in range(4) for n in range(200))


def test_too_many_lines_are_the_last_ones_and_a_count() -> None:
    """The driver is told a bounded number at a time, each of a bounded length."""
    printed = threading.Event()

    class SlowlyTold(Told):
        def __call__(self, lines: list[str], left_out: int) -> None:
            printed.wait(30)
            super().__call__(lines, left_out)

    told = SlowlyTold()
    with worker(told):
        for number in range(10 * LINES_MAX):
            print(number, "x" * 10_000)
        printed.set()
    assert told.left_out + len(told.lines) == 10 * LINES_MAX
    assert told.left_out > 0
    assert told.lines[-1].startswith(f"in[0]: {10 * LINES_MAX - 1} x")
    assert max(map(len, told.lines)) < 5_000


def test_an_unfinished_line_comes_at_the_end_and_other_threads_are_left_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a process of its own, threads that user code has made print for the worker, too."""
    told = Told()
    with worker(told):
        other = threading.Thread(target=print, args=("not a worker's",))
        other.start()
        other.join()
        print("no end", end="")
    assert capsys.readouterr().out == "not a worker's\n"
    assert told.lines == ["worker: no end"]
    told = Told()
    with worker(told, alone=True):
        other = threading.Thread(target=print, args=("a user's thread",))
        other.start()
        other.join()
    assert told.lines == ["worker: a user's thread"]
    print("as before")
    assert capsys.readouterr().out == "as before\n"


def test_a_forked_child_prints_by_itself(capfd: pytest.CaptureFixture[str]) -> None:
    """It has no thread that would tell its lines."""
    told = Told()
    with worker(told):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer interpreters warn of threads
            child = os.fork()
        if child == 0:
            print("of the child")
            sys.stdout.flush()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    assert told.lines == []


class Output:
    """One output of a cell."""

    def __init__(self) -> None:
        self.drawn: list[dict[str, str]] = []

    def __call__(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Output:
        return self.update(data, raw=raw)

    def update(self, data: dict[str, str], *, raw: bool) -> Output:
        assert raw
        self.drawn.append(data)
        return self


def test_a_cell_shows_the_last_lines_and_how_many_there_were() -> None:
    """One output, drawn anew now and then, and at the end in any case."""
    output = Output()
    cell = CellLines(output)
    for number in range(5_000):
        cell.show([f"map[0]: <b>{number}"], left_out=1)
    cell.close()
    assert len(output.drawn) < 10
    last = output.drawn[-1]
    assert last["text/plain"].splitlines()[0] == "10,000 lines printed; the last 20:"
    assert last["text/plain"].splitlines()[1:] == [f"map[0]: <b>{n}" for n in range(4_980, 5_000)]
    assert "<b>" not in last["text/html"]
