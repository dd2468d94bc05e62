"""A command that is run within a limit leaves no process behind, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from scripts import run_within

FAMILY = """
import os, signal, subprocess, sys, time
deaf = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); signal.pause()"
start = "subprocess.Popen([sys.executable, '-c', deaf], start_new_session=True, stdout=subprocess.DEVNULL)"
own_session = eval(start)
orphan = subprocess.run(
    [sys.executable, "-c", f"import subprocess, sys; deaf = {deaf!r}; print({start}.pid)"],
    stdout=subprocess.PIPE, text=True,
).stdout
print(os.getpid(), own_session.pid, int(orphan), flush=True)
"""
ENDS = FAMILY.replace("print(os", "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(3))\nprint(os")
DEAF = FAMILY.replace("print(os", "signal.signal(signal.SIGINT, signal.SIG_IGN)\nprint(os")
COUNTS = FAMILY.replace(
    "print(os", "heard = []\nsignal.signal(signal.SIGINT, lambda *_: heard.append(1))\nprint(os"
)
"""What each does about Ctrl-C is settled before it says that it is there."""
WAITS = "\nsignal.pause()"


def started(limit_s: float, code: str) -> subprocess.Popen[str]:
    """A Python program within a limit, in a process group of its own, as a terminal has it."""
    command = [sys.executable, run_within.__file__, str(limit_s), sys.executable, "-c", code]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes that the program says it has started, and itself."""
    assert process.stdout is not None
    found = []
    for pid in process.stdout.readline().split():
        try:
            found.append(psutil.Process(int(pid)))
        except psutil.NoSuchProcess:
            continue
    return found


def left(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that are there, zombies included."""
    return [process for process in processes if process.is_running()]


def test_without_a_limit_a_program_may_take_its_time() -> None:
    """Zero seconds are no limit, and not one that is over at once."""
    with started(0, "import time; time.sleep(0.5); raise SystemExit(7)") as process:
        assert process.wait() == 7


def test_a_program_that_ends_has_its_exit_code_and_leaves_nothing() -> None:
    """Neither a process in a session of its own nor one without a parent."""
    with started(60, ENDS + WAITS) as process:
        processes = family(process)
        processes[0].send_signal(signal.SIGUSR1)  # it ends by itself, once all of them were looked at
        assert process.wait() == 3
    assert len(processes) == 3
    assert left(processes) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_whole_family(number: signal.Signals) -> None:
    """The command hears of it as of Ctrl-C."""
    with started(60, FAMILY + WAITS) as process:
        processes = family(process)
        process.send_signal(number)
        assert process.wait() == 128 + signal.SIGINT
    assert len(processes) == 3
    assert left(processes) == []


def test_ctrl_c_reaches_the_command_from_the_terminal_and_once() -> None:
    """It goes to the whole group; a command may take its time for what it has to say."""
    says = "\nwhile not heard: time.sleep(0.01)\ntime.sleep(0.2); print(len(heard)); sys.exit(2)"
    with started(60, COUNTS + says) as process:
        processes = family(process)
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.read() == "1\n"
        assert process.wait() == 2
    assert left(processes) == []


def test_at_the_limit_the_command_is_ended() -> None:
    """By the exit code that `timeout` has for it."""
    with started(0.1, "import signal; signal.pause()") as process:
        assert process.wait() == run_within.AT_LIMIT


def test_a_command_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    """After a time in which it could have ended."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nfrom scripts import run_within\nrun_within.GRACE_S = 0.1\n"
        "raise SystemExit(run_within.run_within(60, sys.argv[1:]))"
    )
    root = str(Path(run_within.__file__).parents[1])
    command = [sys.executable, str(program), sys.executable, "-c", DEAF + WAITS]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": root}
    ) as process:
        processes = family(process)
        process.terminate()
        assert process.wait() == 128 + signal.SIGTERM
    assert len(processes) == 3
    assert left(processes) == []
