"""Whole jobs on the process cluster: killed workers, a cancelled job, scripts; and nothing stays behind."""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import headgate as hg
from headgate.common.process.processes import process_lives
from headgate.testing import JobListener, ProcessCluster

RESTART_AT_ONCE = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 5,
    "restart-strategy.fixed-delay.delay": "1ms",
}
COUNT = 1_500
KEYS = 29


class Running(hg.KeyedProcessFunction[int, int, dict[str, int]]):
    """A running count per key."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Iterator[dict[str, int]]:
        self.count.value += 1
        yield {"key": ctx.key, "n": self.count.value, "pid": os.getpid()}


class Witness(JobListener):
    """Sees the workers come, and strikes when a checkpoint is complete."""

    def __init__(self, strike: Callable[[int], None] | None = None) -> None:
        self.gangs: list[int] = []
        self.pids: dict[int, set[int]] = {}
        self.failures: list[str] = []
        self.restored: list[int | None] = []
        self.checkpoints, self._strike = 0, strike

    def gang_submitted(self, gang: int, slots: int) -> None:
        self.gangs.append(gang)

    def worker_registered(self, slot: int, pid: int, host: str) -> None:
        self.pids.setdefault(self.gangs[-1], set()).add(pid)

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        self.restored.append(checkpoint)

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        self.checkpoints += 1
        if self._strike is not None:
            self._strike(self.checkpoints)

    def failed(self, attempt: int, error: Exception, restart_in_ms: int | None) -> None:
        self.failures.append(str(error))


def counting(
    cluster: ProcessCluster,
    folder: Path,
    parallelism: int,
    rate: float | None = None,
    count: int = COUNT,
    config: dict[str, Any] | None = None,
    every: str = "20ms",
) -> hg.Environment:
    """A keyed job with checkpoints: how often each key came so far, to JSON files."""
    settings = {**RESTART_AT_ONCE, **(config or {})}
    env = hg.Environment(parallelism=parallelism, executor=cluster, config=settings)
    env.checkpoints(every=every, storage=str(folder / "checkpoints"))
    numbers = env.generate(lambda n: n, count=count, rate_per_s=rate, uid="numbers")
    counts = numbers.key_by(lambda n: n % KEYS).process(Running(), uid="count")
    counts.write_json(str(folder / "out"), uid="out")
    return env


def written(folder: Path) -> list[dict[str, int]]:
    """What has been committed."""
    files = sorted((folder / "out").glob("part-*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def expected() -> list[tuple[int, int]]:
    """The batch answer."""
    totals = Counter(n % KEYS for n in range(COUNT))
    return sorted((key, n) for key, total in totals.items() for n in range(1, total + 1))


def pairs(lines: list[dict[str, int]]) -> list[tuple[int, int]]:
    """Without the process that made them."""
    return sorted((line["key"], line["n"]) for line in lines)


@pytest.mark.parametrize("parallelism", [2, 3])
def test_a_keyed_job_runs_in_processes_of_its_own(tmp_path: Path, parallelism: int) -> None:
    """Workers are as many processes, none is this one, each takes part, and none lives behind the job."""
    witness = Witness()
    cluster = ProcessCluster(witness)
    counting(cluster, tmp_path, parallelism).execute("counts")
    assert pairs(written(tmp_path)) == expected()
    pids = witness.pids[1]
    assert len(pids) == parallelism
    assert {line["pid"] for line in written(tmp_path)} == pids
    assert os.getpid() not in pids
    assert [pid for pid in pids if process_lives(pid)] == []
    assert cluster.processes == {}


@pytest.mark.parametrize("parallelism", [2, pytest.param(3, marks=pytest.mark.ci)])
def test_one_killed_process_ends_the_gang_and_the_job_goes_on_exactly_once(
    tmp_path: Path, parallelism: int
) -> None:
    """As in a barrier stage: new processes begin at the checkpoint, and nothing counts twice."""
    strikes: list[bool] = []

    def strike(completed: int) -> None:
        if completed in (2, 5):
            strikes.append(cluster.kill(completed % parallelism))

    witness = Witness(strike)
    cluster = ProcessCluster(witness)
    result = counting(cluster, tmp_path, parallelism, rate=1_000).execute("killed")
    assert strikes == [True, True]
    assert pairs(written(tmp_path)) == expected()
    assert result.restarts == 2
    assert len(witness.gangs) == 3
    assert all(checkpoint is not None for checkpoint in witness.restored[1:])
    everyone = [pid for pids in witness.pids.values() for pid in pids]
    assert len(set(everyone)) == 3 * parallelism, "no process is in two gangs"
    assert [pid for pid in everyone if process_lives(pid)] == []


def ended(gang_of: Callable[[hg.Environment], Any]) -> str:
    """What the first failure of a job without restarts says."""
    witness = Witness()
    env = hg.Environment(
        parallelism=2, executor=ProcessCluster(witness), config={"restart-strategy.type": "none"}
    )
    with pytest.raises(hg.HeadgateError):
        gang_of(env)
    return witness.failures[0]


@pytest.mark.parametrize("how", ["code", "zero", "signal"])
def test_a_process_that_user_code_ends_fails_the_job(how: str) -> None:
    """An exit behind our back is a failure, also with code 0; the job does not wait for a heartbeat."""

    def leave(number: int) -> int:
        if how == "signal":
            os.kill(os.getpid(), signal.SIGSEGV)
        os._exit(3 if how == "code" else 0)

    began = time.monotonic()
    said = ended(lambda env: env.from_collection([1]).rebalance().map(leave).collect())
    assert time.monotonic() - began < 20
    assert "worker" in said


def test_why_a_process_ended_is_told(tmp_path: Path) -> None:
    """The gang's own reason: exit code or signal, and which worker's process it was."""
    from headgate.testing.process_cluster import _Process

    def reason(code: str, said: bytes = b"") -> str | None:
        import socket

        ours, its = socket.socketpair()
        its.send(said)
        its.close()
        return _Process(1, subprocess.Popen([sys.executable, "-c", code]), ours).why()

    assert reason("") == "the process of worker 1 ended with exit code 0"
    assert reason("", b"\0") is None
    assert reason("import os; os._exit(7)") == "the process of worker 1 ended with exit code 7"
    assert reason("import os; os.kill(os.getpid(), 9)") == "the process of worker 1 was killed by SIGKILL"
    assert reason("raise SystemExit(75)", b"no lease") == "the process of worker 1 stopped: no lease"
    assert reason("raise SystemExit(70)", b"OSError: x") == "the process of worker 1 raised: OSError: x"


def test_cancel_leaves_no_process(tmp_path: Path) -> None:
    """A cancelled endless job ends its processes, whatever they are at."""
    witness = Witness()
    cluster = ProcessCluster(witness)
    job = counting(cluster, tmp_path, 2, rate=200, count=10_000_000).execute_async("endless")
    deadline = time.monotonic() + 30
    while witness.checkpoints < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert sorted(cluster.processes) == [0, 1]
    job.cancel()
    with pytest.raises(hg.HeadgateError, match="cancelled"):
        job.result()
    assert [pid for pid in witness.pids[1] if process_lives(pid)] == []
    assert cluster.processes == {}


@pytest.mark.ci  # a cancelled job gives its workers some seconds first
def test_a_worker_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    """A call of user code that never returns does not keep a cancelled job, nor its process."""
    witness = Witness()
    cluster = ProcessCluster(witness)
    env = hg.Environment(parallelism=1, executor=cluster)
    env.from_collection([1]).map(lambda _: time.sleep(3_600)).write_json(str(tmp_path / "out"))
    job = env.execute_async("deaf")
    deadline = time.monotonic() + 30
    while job.status().state != "running" and time.monotonic() < deadline:
        time.sleep(0.02)
    (pid,) = cluster.processes.values()
    job.cancel()
    with pytest.raises(hg.HeadgateError):
        job.result()
    assert not process_lives(pid)


def test_more_workers_than_slots_are_refused_before_the_start() -> None:
    """One sentence, and nothing was started."""
    cluster = ProcessCluster(slots=1)
    env = hg.Environment(parallelism=2, executor=cluster)
    with pytest.raises(hg.UsageError, match="it needs 2 workers, and the process cluster has 1 slots"):
        env.from_collection([1]).map(lambda n: n).collect()
    assert cluster.processes == {}


SCRIPT = """
import os
import sys
from pathlib import Path

import beside
import headgate as hg
from headgate.testing import ProcessCluster

with open(sys.argv[1], "a") as file:
    file.write("run\\n")

WORD = "from the script"


def said(number):
    print("printed in a worker")
    return WORD, beside.NUMBER + number, os.getpid(), sys.stdin.read()


env = hg.Environment(parallelism=2, executor=CLUSTER)
for word, number, pid, read in sorted(env.from_collection([1, 2, 3]).rebalance().map(said).collect()):
    assert pid != os.getpid()
    print(word, number, repr(read))
"""


@pytest.mark.parametrize(
    ("command", "cluster"),
    [(["{python}"], "ProcessCluster()"), (["{python}", "-m", "headgate", "run"], "'process-cluster'")],
    ids=["python", "headgate run"],
)
def test_a_script_without_a_guard_runs_once(tmp_path: Path, command: list[str], cluster: str) -> None:
    """Workers do not run the program again; they find its functions and the modules beside it."""
    (tmp_path / "job.py").write_text(SCRIPT.replace("CLUSTER", cluster))
    (tmp_path / "beside.py").write_text("NUMBER = 40\n")
    (tmp_path / "elsewhere").mkdir()
    filled = [part.format(python=sys.executable) for part in command]
    done = subprocess.run(
        [*filled, str(tmp_path / "job.py"), str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path / "elsewhere",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"from the script {number} ''" for number in (41, 42, 43)]
    assert done.stderr.count("printed in a worker") == 3
    assert (tmp_path / "runs").read_text() == "run\n"


ENDLESS = """
import headgate as hg
from headgate.testing import JobListener, ProcessCluster


class Telling(JobListener):
    def worker_registered(self, slot, pid, host):
        print(pid, flush=True)


env = hg.Environment(parallelism=2, executor=ProcessCluster(Telling()))
env.generate(lambda n: n, rate_per_s=100).rebalance().map(lambda n: n).write_json(OUT)
env.execute("endless")
"""


def processes_end(pids: list[int], within_s: float = 20) -> bool:
    """Whether they are all gone in time."""
    deadline = time.monotonic() + within_s
    while any(process_lives(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_program(tmp_path: Path, number: int) -> None:
    """Ctrl-C cancels; and a program that is killed leaves no worker behind for long."""
    program = tmp_path / "job.py"
    program.write_text(ENDLESS.replace("OUT", repr(str(tmp_path / "out"))))
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        pids = [int(driver.stdout.readline()) for _ in range(2)]
        driver.send_signal(number)
        driver.wait(30)
    assert processes_end(pids)


class Opaque:
    """No serializer knows it."""

    def __init__(self, n: int) -> None:
        self.n = n


class Dated(NamedTuple):
    """A field that is no scalar."""

    n: int
    day: dt.date


class OnceWrong(hg.KeyedProcessFunction[int, Any, int]):
    """Raises the first time that it comes so far."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def process(self, record: Any, ctx: hg.KeyedContext[int]) -> Iterator[int]:
        if record.n == 100 and not os.path.exists(self.mark):
            Path(self.mark).touch()
            raise ValueError("once")
        yield record.n


class Heard(JobListener):
    """Remembers what a person is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.attempts = 0

    def running(self, attempt: int) -> None:
        self.attempts = attempt

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_records_without_a_fast_way_are_told_once_in_a_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """However many workers send them, and however often the job is restarted."""
    heard = Heard()
    env = hg.Environment(parallelism=2, executor=ProcessCluster(heard), config=RESTART_AT_ONCE)
    numbers = env.generate(lambda n: n, count=200, uid="in")
    for uid, made in (("a", Opaque), ("b", lambda n: Dated(n, dt.date(2026, 1, 1)))):
        numbers.map(made).key_by(lambda record: record.n % 7).process(
            OnceWrong(str(tmp_path / "mark")), uid=uid
        ).collect_later(uid=f"kept-{uid}")
    with caplog.at_level(logging.WARNING):
        env.execute("slow")
    assert heard.attempts == 2
    said = [text for text in caplog.messages if "between workers" in text]
    assert len(said) == 1, said
    assert f"{Opaque.__module__}.Opaque are pickled" in said[0]
    (note,) = [text for text in heard.notes if "between workers" in text]
    assert f"{Dated.__module__}.Dated go value by value" in note
