"""Runs one program and watches its process tree from outside: time, CPU, memory, and who else was busy.

The program says what it knows itself on its standard output: lines ``RESULT {json}`` with its own
measurements, and lines ``EVENT {json}`` while it runs. An event with ``workers`` names processes
whose memory is worth a series of its own; one with ``say`` tells how far it is.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psutil

SAMPLE_S: Final = 0.2
TURN_S: Final = 0.25
_TAIL_CHARS: Final = 2_000


@dataclass(slots=True)
class Run:
    """One run of one program.

    Attributes:
        name: what was run.
        wall_s: from start to exit, start-up included.
        cpu_s: of the whole process tree, as far as it was seen: sampled, so a little too low.
        rss_peak_mb: highest sum over the tree; pages that processes share count in each.
        others: share of the machine's CPU time that other programs used meanwhile.
        result: what the program's RESULT lines said.
        failure: why the run does not count, or None.
        memory: process id -> (seconds since start, resident MB) of the processes that an event named.
        started: when, in seconds since 1970.
        cpu_at: (seconds since 1970, CPU seconds of the tree until then), at each look.
    """

    name: str
    wall_s: float = 0.0
    cpu_s: float = 0.0
    rss_peak_mb: float = 0.0
    others: float = 0.0
    result: dict[str, Any] = field(default_factory=dict)
    failure: str | None = None
    memory: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    started: float = 0.0
    cpu_at: list[tuple[float, float]] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """For the JSON record; the memory series are left out."""
        return {
            "name": self.name,
            "wall_s": round(self.wall_s, 3),
            "cpu_s": round(self.cpu_s, 2),
            "rss_peak_mb": round(self.rss_peak_mb),
            "others": round(self.others, 3),
            "failure": self.failure,
            **self.result,
        }


def run(
    name: str,
    command: Sequence[str],
    timeout_s: float,
    variables: Mapping[str, str] | None = None,
    sample_s: float = SAMPLE_S,
    say: Callable[[str], None] | None = None,
    turns: Turns | None = None,
) -> Run:
    """Run a program to its end, or kill it and what it started.

    Args:
        name: for the record.
        command: program and arguments.
        timeout_s: then it is killed.
        variables: of the environment, besides this process's.
        sample_s: between two looks at the tree.
        say: is called with how far it is.
        turns: of programs that run at once; this one takes its turns among them.
    """
    watched = Run(name)
    before, began = psutil.cpu_times(), time.monotonic()
    watched.started = time.time()
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **(variables or {})},
            start_new_session=True,
        )
        tree = _Tree(process.pid, watched, began)
        reader = threading.Thread(target=_read, args=(process, watched, tree, say), daemon=True)
        reader.start()
        try:
            with turns.taken_by(tree) if turns is not None else contextlib.nullcontext():
                overdue = _wait(process, tree, began + timeout_s, sample_s)
        finally:
            tree.kill()
            process.wait()
        watched.wall_s = time.monotonic() - began
        reader.join(5)
        assert process.stdout is not None
        process.stdout.close()
        _judge(watched, process.returncode, timeout_s if overdue else None, errors)
    watched.cpu_s = tree.cpu_s
    watched.others = _share_of_others(before, psutil.cpu_times(), watched.cpu_s)
    return watched


def _read(
    process: subprocess.Popen[str], watched: Run, tree: _Tree, say: Callable[[str], None] | None
) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        kind, _, rest = line.partition(" ")
        if kind == "RESULT":
            watched.result.update(json.loads(rest))
        elif kind == "EVENT":
            event = json.loads(rest)
            tree.named.update(event.get("workers", []))
            if say is not None and "say" in event:
                say(event["say"])


def _wait(process: subprocess.Popen[str], tree: _Tree, deadline: float, sample_s: float) -> bool:
    """Wait for the end of a program; return whether the deadline came first."""
    while process.poll() is None and time.monotonic() < deadline:
        tree.sample()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(sample_s)
    return process.poll() is None


def _judge(watched: Run, code: int, overdue_s: float | None, errors: Any) -> None:
    """Note why a run does not count; `overdue_s`: the limit for which it was killed, None: it was not."""
    if watched.result and code == 0:
        return
    errors.seek(0)
    tail = errors.read()[-_TAIL_CHARS:].strip()
    ended = f"exit code {code}"
    if overdue_s is not None:
        ended = f"killed after {overdue_s:g} s"
    elif code == -signal.SIGKILL:
        ended = "killed by another process or the system, perhaps for want of memory"
    watched.failure = f"{ended}, no result" if not watched.result else ended
    if tail:
        watched.failure += f": {tail}"


class _Tree:
    """A process and everything below it."""

    def __init__(self, pid: int, watched: Run, began: float) -> None:
        self.named: set[int] = set()
        self._pid, self._watched, self._began = pid, watched, began
        self._cpu: dict[tuple[int, float], float] = {}

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all processes ever seen."""
        return sum(self._cpu.values())

    def sample(self) -> None:
        """Look at every process once."""
        now, total = time.monotonic() - self._began, 0.0
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                times, rss = process.cpu_times(), process.memory_info().rss / 2**20
                self._cpu[process.pid, process.create_time()] = times.user + times.system
                total += rss
                if process.pid in self.named:
                    self._watched.memory.setdefault(process.pid, []).append((now, rss))
        self._watched.rss_peak_mb = max(self._watched.rss_peak_mb, total)
        self._watched.cpu_at.append((time.time(), self.cpu_s))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every process of the tree."""
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)

    def kill(self) -> None:
        """End whatever is left of the tree."""
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        # What was orphaned is in no tree any more, but still in the group that began with the program.
        with contextlib.suppress(OSError):
            os.killpg(self._pid, signal.SIGKILL)

    def _processes(self) -> list[psutil.Process]:
        try:
            root = psutil.Process(self._pid)
            return [root, *root.children(recursive=True)]
        except psutil.Error:
            return []


class Turns:
    """Lets programs that run at once compute in turns: all process trees but one stand still.

    What disturbs a machine comes and goes within seconds. Two programs that run one after the other meet
    different disturbances; two that take short turns meet the same ones.

    Args:
        turn_s: seconds of one turn.
    """

    def __init__(self, turn_s: float = TURN_S) -> None:
        self._turn_s = turn_s
        self._trees: list[_Tree] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def taken_by(self, tree: _Tree) -> Iterator[None]:
        """The tree takes its turns until the end of the block; the last one that is left runs on."""
        with self._lock:
            self._trees.append(tree)
            if len(self._trees) == 2:
                threading.Thread(target=self._alternate, daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._trees.remove(tree)
                for left in self._trees:
                    left.signal(signal.SIGCONT)

    def _alternate(self) -> None:
        for turn in itertools.count():
            with self._lock:
                if len(self._trees) < 2:
                    return
                runs = self._trees[turn % len(self._trees)]
                for tree in self._trees:
                    if tree is not runs:
                        tree.signal(signal.SIGSTOP)
                # Last, so that there is no moment in which two of them run.
                runs.signal(signal.SIGCONT)
            time.sleep(self._turn_s)


def _share_of_others(before: Any, after: Any, own_s: float) -> float:
    total: float = sum(after) - sum(before) - (after.guest - before.guest)
    busy: float = total - (after.idle - before.idle) - (after.iowait - before.iowait)
    return max(0.0, busy - own_s) / max(total, 0.01)
