"""What a watched job looks like: as events, as plain lines, as JSON lines, on a terminal."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import subprocess
import sys
from contextlib import suppress
from typing import Any

import counted_metrics
import pytest
from rich.cells import cell_len
from rich.console import Console

import headgate as hg
from headgate.api.source import InputLeft
from headgate.common.errors import OperatingError, UserFunctionError
from headgate.common.settings.config import Config
from headgate.display import progress, progress_json
from headgate.display.event_texts import phrases
from headgate.display.progress import Narrator, PlainDisplay, WarningsDisplay, listener_for
from headgate.display.progress_json import LineWriter, reserve_stdout
from headgate.display.progress_live import LiveDisplay
from headgate.display.progress_status import RATE_WINDOW_MS, JobProgress, error_facts
from headgate.runtime.protocol.messages import Counters


class HandClock:
    """Stands still until told."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def precise_ms(self) -> float:
        return float(self.ms)


def counted(
    vertex: int, records_in: int, subtask: int = 0, skipped: int = 0, step_ms: float = 0.0
) -> Counters:
    """Running totals in which only what is counted matters."""
    step_us = round(step_ms * 1000)
    return counted_metrics.counted(
        vertex, subtask, RECORDS_IN=records_in, BAD_RECORDS=skipped, LONGEST_STEP=step_us
    )


def raised() -> UserFunctionError:
    """A failure of user code."""
    text = "Traceback (most recent call last):\n  File 'job.py'\nValueError: odd\n"
    return UserFunctionError("operator 'Count' (uid 'c')", "{'a': 1}", text, 1)


class Recording:
    """Keeps the events that it is shown."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def show(self, event: str, facts: Any) -> None:
        self.events.append({"event": event, **facts})

    def names(self) -> list[str]:
        return [event["event"] for event in self.events]


@pytest.fixture
def clock() -> HandClock:
    """A clock at zero."""
    return HandClock()


@pytest.fixture
def status() -> JobProgress:
    """A job whose vertices 0 and 2 read."""
    return JobProgress("streaks", {0, 2}, 0)


def play(narrator: Narrator, clock: HandClock) -> None:
    """A job with one restart, from submission to end."""
    narrator.gang_submitted(1, 2)
    narrator.deploying(1, None)
    narrator.running(1)
    clock.ms = 1000
    narrator.progress([counted(0, 100), counted(1, 100, step_ms=12.34), counted(2, 20, skipped=3)])
    narrator.checkpoint_completed(1, 35)
    clock.ms = 1500
    narrator.failed(1, raised(), 700)
    clock.ms = 2200
    narrator.deploying(2, 1)
    narrator.running(2)
    clock.ms = 3200
    narrator.progress([counted(0, 50), counted(2, 10)])
    narrator.checkpoint_completed(2, 20)
    narrator.ended("finished")


def test_what_is_read_of_the_input_is_told_with_the_progress(clock: HandClock, status: JobProgress) -> None:
    """As numbers for scripts and as a phrase for people; of an input without an end neither."""
    display = Recording()
    narrator = Narrator(status, display, clock)
    narrator.deploying(1, None)
    narrator.running(1)
    for left in (80, 60, 40):
        clock.ms += 1000
        narrator.unread({"in": InputLeft(records=left)})
        narrator.progress([counted(0, 100 - left)])
    shown = [(event["read_share"], event["to_go_ms"]) for event in display.events if "read_share" in event]
    assert shown == [(0.0, None), (0.25, None), (0.5, 2000)]
    assert "50% read, 2 s to go" in phrases(status, clock.ms)
    assert "50% read, 2 s to go" not in phrases(status, clock.ms, width=30)
    clock.ms += 1000
    narrator.unread({"in": None})
    narrator.progress([counted(0, 100)])
    assert display.events[-1]["read_share"] is None
    assert not any("read" in phrase for phrase in phrases(status, clock.ms))


def test_a_job_is_told_as_events(clock: HandClock, status: JobProgress) -> None:
    """Each call becomes one event with its facts; the last one holds the totals."""
    display = Recording()
    play(Narrator(status, display, clock), clock)
    assert display.names() == [
        "submitted", "deploying", "running", "progress", "checkpoint", "restarting",
        "deploying", "running", "progress", "checkpoint", "finished",
    ]  # fmt: skip
    assert all(event["job"] == "streaks" for event in display.events)
    assert display.events[0] == {
        "event": "submitted", "time_ms": 1_700_000_000_000, "job": "streaks", "gang": 1, "slots": 2,
    }  # fmt: skip
    assert display.events[6]["checkpoint"] == 1
    assert display.events[-1] == {
        "event": "finished", "time_ms": 1_700_000_003_200, "job": "streaks", "attempt": 2,
        "records_in": 180, "records_skipped": 3, "checkpoints": 2, "restarts": 1,
        "longest_step_ms": 12.3, "duration_ms": 3200,
    }  # fmt: skip


def test_records_are_those_of_the_sources_over_all_attempts(clock: HandClock, status: JobProgress) -> None:
    """Only source vertices count; what earlier attempts read is added."""
    display = Recording()
    play(Narrator(status, display, clock), clock)
    first, second = [event for event in display.events if event["event"] == "progress"]
    assert (first["records_in"], first["records_in_attempt"], first["records_skipped"]) == (120, 120, 3)
    assert (second["records_in"], second["records_in_attempt"], second["records_skipped"]) == (180, 60, 3)
    assert (first["records_per_second"], second["records_per_second"]) == (120.0, 60.0)


def test_progress_is_told_once_per_second(clock: HandClock, status: JobProgress) -> None:
    """Every worker's heartbeat brings totals; events do not multiply with workers."""
    display = Recording()
    narrator = Narrator(status, display, clock)
    narrator.deploying(1, None)
    narrator.running(1)
    for clock.ms in range(0, 3001, 100):
        narrator.progress([counted(0, clock.ms)])
    assert display.names().count("progress") == 3


def test_a_failure_for_good_is_told_by_the_last_event_only(clock: HandClock, status: JobProgress) -> None:
    """Between giving up and the end nothing claims that the job has ended; then the error is there."""
    display = Recording()
    narrator = Narrator(status, display, clock)
    narrator.failed(1, raised(), None)
    assert display.names() == []
    assert status.state == "failing"
    narrator.ended("failed")
    (event,) = display.events
    assert event["error"]["operator"] == "operator 'Count' (uid 'c')"
    assert event["error"]["message"] == "ValueError: odd"
    assert event["error"]["attempt"] == 1


def test_a_display_that_cannot_write_never_disturbs_the_job(clock: HandClock, status: JobProgress) -> None:
    """A terminal that is gone is tried once."""

    class Gone(Recording):
        def show(self, event: str, facts: Any) -> None:
            super().show(event, facts)
            raise OSError("gone")

    display = Gone()
    play(Narrator(status, display, clock), clock)
    assert display.names() == ["submitted"]
    assert status.checkpoints == 2


# --- numbers


def test_the_rate_covers_the_last_seconds_only(status: JobProgress) -> None:
    """A fast start does not hide that the job is slow now."""
    status.deploying(1)
    status.running(0)
    total = 0
    for second in range(1, 21):
        total += 1000 if second <= 10 else 10
        status.progress([counted(0, total)], second * 1000)
    assert status.rate(20_000) == pytest.approx(10)


def test_the_rate_counts_workers_that_report_close_together(status: JobProgress) -> None:
    """Totals of two heartbeats a few milliseconds apart count as one sample, the later one."""
    status.deploying(1)
    status.running(0)
    for now in (1000, 2000, 3000):
        status.progress([counted(0, now), counted(0, now - 1000, subtask=1)], now)
        status.progress([counted(0, now), counted(0, now, subtask=1)], now + 5)
    assert status.rate(3005) == pytest.approx(2000, rel=0.01)


def test_no_rate_is_claimed_when_nothing_was_heard(status: JobProgress) -> None:
    """Before the first heartbeat, after a silence, and in a new attempt the rate is not known."""
    assert status.rate(0) is None
    status.deploying(1)
    status.running(0)
    status.progress([counted(0, 10)], 1000)
    assert status.rate(1000 + RATE_WINDOW_MS) == 10
    assert status.rate(1001 + RATE_WINDOW_MS) is None
    status.deploying(2)
    assert status.rate(1001) is None


def test_without_a_plan_no_record_counts_are_claimed(clock: HandClock) -> None:
    """Who does not know the sources says null, not zero."""
    display = Recording()
    play(Narrator(JobProgress("x", None, 0), display, clock), clock)
    assert display.events[-1]["records_in"] is None
    assert "records" not in "".join(progress.phrases(JobProgress("x", None, 0), 0))


def test_long_texts_are_cut(status: JobProgress) -> None:
    """A line stays a line whatever record failed; of a traceback the end is kept."""
    long = UserFunctionError("op", "r" * 9000, "x" * 9000 + "\nValueError: odd", 1)
    facts = error_facts(long)
    assert len(facts["record"]) == len(facts["traceback"]) == 2000
    assert facts["traceback"].endswith("ValueError: odd")
    assert facts["record"].endswith("...")


# --- displays


def test_plain_lines(clock: HandClock, status: JobProgress, capsys: pytest.CaptureFixture[str]) -> None:
    """One line per event that matters, on the standard error, with nothing on the standard output."""
    play(Narrator(status, PlainDisplay(status, clock), clock), clock)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "streaks: asked for 2 workers",
        "streaks: running, attempt 1",
        "streaks: running  120 records/s  120 records in  restarts 0  attempt 1  3 bad records skipped",
        (
            "streaks: attempt 1 failed, restarting in 0.7 s: "
            "operator 'Count' (uid 'c') raised ValueError: odd for record {'a': 1}"
        ),
        "streaks: restoring checkpoint 1, attempt 2",
        "streaks: running, attempt 2",
        "streaks: finished after 3.2 s: 180 records in, checkpoints 2, restarts 1, 3 bad records skipped",
    ]


def test_plain_progress_comes_every_few_seconds(
    clock: HandClock, status: JobProgress, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log file does not fill with progress."""
    narrator = Narrator(status, PlainDisplay(status, clock), clock)
    narrator.deploying(1, None)
    narrator.running(1)
    for clock.ms in range(0, 20_001, 500):
        narrator.progress([counted(0, clock.ms)])
    assert capsys.readouterr().err.count("records/s") == 4


def test_a_note_takes_one_line(
    capsys: pytest.CaptureFixture[str], clock: HandClock, status: JobProgress
) -> None:
    """What follows the first line, such as a traceback, is for the JSON lines."""
    Narrator(status, PlainDisplay(status, clock), clock).note("also: it raised\nTraceback ...")
    assert capsys.readouterr().err == "streaks: also: it raised\n"


def test_without_a_display_only_restarts_are_warned_of(
    clock: HandClock, status: JobProgress, caplog: pytest.LogCaptureFixture
) -> None:
    """A plain script sees what went wrong, through logging, and nothing else."""
    with caplog.at_level(logging.WARNING):
        play(Narrator(status, WarningsDisplay(), clock), clock)
    assert [record.getMessage() for record in caplog.records] == [
        (
            "job streaks: attempt 1 failed, restarting in 0.7 s: "
            "operator 'Count' (uid 'c') raised ValueError: odd for record {'a': 1}"
        )
    ]


def test_json_lines(clock: HandClock, status: JobProgress) -> None:
    """Every event is one object on one line, and the writer knows the last one."""
    stream = io.StringIO()
    writer = LineWriter(stream)
    play(Narrator(status, writer, clock), clock)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == 11
    assert writer.last_event == lines[-1]["event"] == "finished"
    assert lines[5]["error"]["traceback"].startswith("Traceback")


def test_json_lines_without_a_reader_do_not_end_the_job(caplog: pytest.LogCaptureFixture) -> None:
    """A closed pipe is told once; later lines go nowhere."""
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w")
    writer = LineWriter(stream)
    writer.show("submitted", {})
    writer.show("running", {})
    with suppress(BrokenPipeError):
        stream.close()
    assert len(caplog.records) == 1
    assert writer.last_event == "running"


def test_a_reserved_standard_output_holds_lines_only() -> None:
    """Prints of the program and of its child processes go to the standard error meanwhile."""
    code = (
        "import os; from headgate.display.progress_json import reserve_stdout\n"
        "print('before')\n"
        "with reserve_stdout() as writer:\n"
        "    print('mine'); os.system('echo child'); writer.show('running', {})\n"
        "print('after')\n"
    )
    search = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": search}
    )
    assert done.stdout.splitlines() == ["before", '{"event": "running"}', "after"]
    assert sorted(done.stderr.splitlines()) == ["child", "mine"]


def test_a_standard_output_that_is_no_file_is_reserved_too(capsys: pytest.CaptureFixture[str]) -> None:
    """A stream that somebody put in place of the standard output gets the lines and no prints."""
    with reserve_stdout() as writer:
        print("mine")
        writer.show("running", {})
        assert progress_json.line_writer() is writer
    assert progress_json.line_writer() is not writer
    assert capsys.readouterr() == ('{"event": "running"}\n', "mine\n")


def on_terminal() -> Console:
    """A console that believes it is a terminal."""
    return Console(file=io.StringIO(), force_terminal=True, width=150, highlight=False, color_system=None)


def test_the_live_line(clock: HandClock, status: JobProgress) -> None:
    """Name, state, rate, records, checkpoint with age and duration, restarts, attempt."""
    display = LiveDisplay(status, clock, on_terminal())
    status.deploying(1)
    status.running(0)
    status.progress([counted(0, 51_194)], 1000)
    status.checkpoint_completed(12, 35, 1600)
    clock.ms = 2000
    assert display.line().plain == (
        "streaks  running  51,194 records/s  51,194 records in  checkpoint 12 (0.4 s ago, took 35 ms)"
        "  restarts 0  attempt 1"
    )


def test_the_terminal_keeps_failures_and_the_end(clock: HandClock, status: JobProgress) -> None:
    """The line goes when the job ends; restarts and totals stay, and the cursor is back."""
    console = on_terminal()
    before = sys.stderr
    play(Narrator(status, LiveDisplay(status, clock, console), clock), clock)
    assert sys.stderr is before
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "attempt 1 failed, restarting in 0.7 s: operator 'Count'" in text
    assert "finished after 3.2 s: 180 records in, checkpoints 2, restarts 1" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


class Terminal(io.StringIO):
    """A stream that a person sees."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_long_lines_stay_whole_above_the_line(
    name: str, clock: HandClock, status: JobProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The terminal wraps them, so that who copies one gets what was printed; nothing in them is markup."""
    stream = Terminal()
    monkeypatch.setattr(sys, name, stream)
    display = LiveDisplay(status, clock, on_terminal())
    display._console.width = 40
    display.show("running", {})
    drawn = getattr(sys, name)
    long = "[bold]a[/bold] " + "word " * 40
    assert drawn.write(f"{long}\nand ") == len(long) + 5
    drawn.flush()
    drawn.write("more\r\nlast")
    display._end()
    text = display._console.file.getvalue()  # type: ignore[attr-defined]
    assert getattr(sys, name) is stream
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", line).strip() for line in text.splitlines()]
    assert long.strip() in lines
    assert {"and more", "last"} <= set(lines)


# --- which one


@pytest.mark.parametrize(
    ("chosen", "terminal", "display"),
    [
        ("auto", True, LiveDisplay),
        ("auto", False, PlainDisplay),
        ("live", False, LiveDisplay),
        ("plain", True, PlainDisplay),
        ("json", True, LineWriter),
        ("off", True, WarningsDisplay),
    ],
)
def test_the_option_chooses_the_display(
    chosen: str, terminal: bool, display: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``auto`` looks for a terminal; every other value is obeyed."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    config = Config().with_program({"headgate.progress": chosen})
    listener = listener_for(config, "x")
    assert isinstance(listener, Narrator)
    assert type(listener._display) is display


def test_the_plan_tells_the_sources(clock: HandClock) -> None:
    """All vertices that begin with a source are counted, and no other."""
    env = hg.Environment()
    left, right = env.from_collection([1], uid="l"), env.from_collection([2], uid="r")
    left.union(right).rebalance().map(str).write_json("out")
    listener = listener_for(Config(), "x", env.plan(), clock)
    assert isinstance(listener, Narrator)
    listener.running(1)
    listener.progress([counted(vertex.id, 10**vertex.id) for vertex in env.plan().vertices])
    assert listener.status.records == 11


def test_a_status_without_failure_ends_failed_without_error(clock: HandClock, status: JobProgress) -> None:
    """An end that came without a reason says so."""
    display = Recording()
    Narrator(status, display, clock).ended("failed")
    assert display.events[0]["error"] is None
    Narrator(status, display, clock).failed(0, OperatingError("no slots"), None)
    assert error_facts(OperatingError("no slots")) == {"kind": "OperatingError", "message": "no slots"}


# --- its width


@pytest.mark.parametrize("width", [40, 50, 60, 80, 100, 200])
@pytest.mark.parametrize(
    "name", ["x", "commits-of-a-very-long-named-repository-by-author-and-day", "存储库的提交" * 6]
)
def test_the_line_fits_the_terminal_and_keeps_restarts_and_attempt(width: int, name: str) -> None:
    """What is least important goes first, whatever the numbers."""
    clock = HandClock()
    status = JobProgress(name, {0}, clock.monotonic_ms())
    status.deploying(12)
    status.running(clock.monotonic_ms())
    status.restarts, status.records_attempt, status.skipped_attempt = 11, 123_456_789_012, 1_234
    status.checkpoint_completed(1_234, 12_345, clock.monotonic_ms())
    console = Console(file=io.StringIO(), width=width, force_terminal=True)
    line = LiveDisplay(status, clock, console).line().plain
    assert cell_len(line) <= width
    for kept in ("running", "restarts 11", "attempt 12"):
        assert kept in line
    assert line.startswith(name[:1])
    if width == 200 and name == "x":
        assert "checkpoint 1234 (0.0 s ago, took 12345 ms)" in line
