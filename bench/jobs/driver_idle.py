"""How much of a core a job's driver takes in each phase of the job's life in which it only waits.

The workers are processes of their own, and user code holds them where the phase is to last: before their
subtasks run, and while these end. A signal holds the interpreters that have not registered yet.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import headgate as hg
from bench.jobs.local_jobs import PARALLELISM, ended, wait_until
from bench.jobs.support import result
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage.uris import open_disk
from headgate.common.ids import JobId
from headgate.testing import ProcessCluster

PAUSE_S: Final = 4
_POLL_S: Final = 0.05
SLEEPY: Final = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": f"{PAUSE_S}s",
    "headgate.spark.redeploy-timeout": "1min",
}
HOPELESS: Final = {"restart-strategy.type": "none"}


class Held(hg.KeyedProcessFunction[int, int, int]):
    """Begins and ends when it may, and fails when it is asked to; whoever asks does so by files."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, context: hg.RuntimeContext) -> None:
        self._wait("open")

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Iterator[int]:
        self.count.value += 1
        with contextlib.suppress(FileNotFoundError):
            Path(self.folder, "fail").unlink()
            raise ValueError("asked to fail")
        with contextlib.suppress(FileNotFoundError):
            Path(self.folder, "cut").unlink()
            _cut_off()
        yield from ()

    def close(self) -> None:
        self._wait("close")

    def _wait(self, name: str) -> None:
        while Path(self.folder, name).exists():
            time.sleep(_POLL_S)


def _cut_off() -> None:
    """In a worker: break its connections to other workers, and leave the one to the driver."""
    driver = f"headgate-{os.getppid()}-"
    for number in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(number.name))) as found:
            ends = f"{found.getpeername()!r} {found.getsockname()!r}"
            if "headgate-" in ends and driver not in ends:
                found.shutdown(socket.SHUT_RDWR)


class Life:
    """One job, held where it is to be looked at.

    Args:
        folder: for its files.
        window_s: how long each look lasts.
        found: phase -> share of a core.
        config: further options, by key.
    """

    def __init__(
        self, folder: Path, window_s: float, found: dict[str, float], config: dict[str, str]
    ) -> None:
        self.folder, self._window_s, self._found = folder, window_s, found
        folder.mkdir()
        self.cluster = ProcessCluster()
        env = hg.Environment(parallelism=PARALLELISM, executor=self.cluster, config=config)
        env.checkpoints(every="1h", storage=str(folder / "checkpoints"))
        numbers = env.generate(lambda number: number, rate_per_s=20, uid="numbers")
        numbers.key_by(lambda number: number).process(Held(str(folder)), uid="held").collect_later(uid="out")
        self._env = env

    def start(self) -> hg.JobHandle:
        """The job is submitted."""
        self.handle = self._env.execute_async("idle")
        return self.handle

    def hold(self, name: str) -> None:
        """Have user code wait."""
        (self.folder / name).touch()

    def release(self, name: str) -> None:
        """Have it go on."""
        (self.folder / name).unlink()

    def reach(self, state: str) -> None:
        """Wait until the job is there."""
        wait_until(lambda: self.handle.status().state == state, f"that the job is {state}")

    def look(self, phase: str) -> None:
        """Measure this process, in which the driver is, while nobody asks it for anything."""
        time.sleep(0.3)  # what has led here is over
        before, began = time.process_time(), time.monotonic()
        time.sleep(self._window_s)
        share = (time.process_time() - before) / (time.monotonic() - began)
        self._found[phase] = round(share, 5)


def _from_start_to_cancel(life: Life) -> None:
    life.hold("open")
    handle = life.start()
    wait_until(lambda: len(life.cluster.processes) == PARALLELISM, "the start of workers")
    for slot in range(PARALLELISM):
        life.cluster.kill(slot, signal.SIGSTOP)
    life.look("starting: workers that do not register")
    for slot in range(PARALLELISM):
        life.cluster.kill(slot, signal.SIGCONT)
    life.reach("deploying")
    life.look("deploying: subtasks that do not open")
    life.release("open")
    life.reach("running")
    life.look("running")
    life.hold("close")
    life.hold("fail")
    life.reach("recovering")
    life.look("recovering: subtasks that do not end")
    life.release("close")
    wait_until(lambda: handle.status().restarts == 1, "a restart")
    life.reach("running")
    life.cluster.kill(0)
    life.reach("recovering")
    life.look("recovering: a pause before the restart")
    life.reach("running")
    life.hold("close")
    asked = threading.Thread(target=_rescaled, args=(handle,))
    asked.start()
    life.reach("rescaling")
    life.look("rescaling: workers that do not leave")
    life.release("close")
    asked.join()
    life.hold("close")
    handle.cancel(0)
    life.reach("cancelling")
    life.look("cancelling: workers that do not leave")
    life.release("close")


def _rescaled(handle: hg.JobHandle) -> None:
    handle.rescale(PARALLELISM - 1)


def _cut_and_cancelled(life: Life) -> None:
    handle = life.start()
    life.reach("running")
    life.hold("close")
    life.hold("cut")
    wait_until(lambda: not (life.folder / "cut").exists(), "that a worker is cut off")
    time.sleep(0.1)  # the driver waits for the cause then
    handle.cancel(0)
    life.reach("cancelling")
    life.look("cancelling: a moment after workers lost each other")
    life.release("close")


def _stopped(life: Life) -> None:
    handle = life.start()
    life.reach("running")
    life.hold("close")
    asked = threading.Thread(target=handle.stop, args=(str(life.folder / "savepoints"),))
    asked.start()  # it returns when the driver has left, and that waits for the workers
    life.reach("finishing")
    life.look("finishing: workers that do not leave")
    life.release("close")
    asked.join()


def _failed(life: Life) -> None:
    life.start()
    life.reach("running")
    life.hold("close")
    life.hold("fail")
    life.reach("failing")
    life.look("failing: workers that do not leave")
    life.release("close")


def _fenced(life: Life) -> None:
    handle = life.start()
    life.reach("running")
    handle.checkpoint()
    life.hold("close")
    disk = open_disk(str(life.folder / "checkpoints"))
    CheckpointService(disk, JobId(handle.status().job_id)).claim()
    with contextlib.suppress(hg.HeadgateError):
        handle.checkpoint()
    life.reach("failing")
    life.look("fenced: workers that do not leave")
    life.release("close")


LIVES: Final[tuple[tuple[Callable[[Life], None], dict[str, str]], ...]] = (
    (_from_start_to_cancel, SLEEPY),
    (_cut_and_cancelled, SLEEPY),
    (_stopped, SLEEPY),
    (_failed, HOPELESS),
    (_fenced, SLEEPY),
)


def measured(window_s: float) -> dict[str, Any]:
    """Phase -> share of a core that the driver takes in it."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        for number, (play, config) in enumerate(LIVES):
            life = Life(Path(folder) / str(number), window_s, found, config)
            try:
                play(life)
            finally:
                ended(life.handle)
    return {"phases": found, "failures": []}


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--window", type=float, default=5.0, help="seconds in each phase")
    result(**measured(parser.parse_args().window))


if __name__ == "__main__":
    main()
