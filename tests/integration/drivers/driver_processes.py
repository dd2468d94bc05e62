"""Drivers as processes of their own, started by the command line, and what they leave on the disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
from driver_job import KEYS, RECORDS

from headgate.checkpoint.layout import log_folder
from headgate.checkpoint.opening import load_metadata, verify_files
from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.store.entries import Completed
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.ids import JobId
from proof.watcher import Event, Watcher

PROGRAM = Path(__file__).with_name("driver_job.py")
ROOT = Path(__file__).parents[3]
PATIENCE_S = 60.0
ON_FILES = ("high-availability.type=filesystem", "high-availability.lease=1500ms")


class Driver:
    """One driver: `headgate run`, with what it tells.

    Attributes:
        watcher: its events.
    """

    def __init__(self, folder: Path, options: Sequence[str], arguments: Sequence[str], cluster: str) -> None:
        self.watcher = Watcher()
        self._errors = folder / f"errors-{len(list(folder.glob('errors-*')))}"
        settings = [text for option in options for text in ("-D", option)]
        command = [sys.executable, "-m", "headgate", "run", str(PROGRAM), "--json", *arguments]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(PROGRAM.parent))),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONFAULTHANDLER": "1",
        }
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, *settings, str(folder), cluster],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            self.watcher.note(told.pop("event"), **told)
        self.watcher.end()

    @property
    def errors(self) -> str:
        """What it wrote on the standard error."""
        return self._errors.read_text(errors="replace")

    def was_replaced(self) -> bool:
        """Whether it said that another driver leads: the lease or the checkpoint log may say so first."""
        reasons = ("does not lead job 'counting' any more", "another job master has claimed")
        return any(reason in self.errors for reason in reasons)

    def family(self) -> list[psutil.Process]:
        """The processes below it."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def hears(self, name: str, what: Callable[[Event], bool] = lambda event: True) -> Event:
        """Wait for an event; a driver that ends without it, or stands, fails the test."""
        found = self.watcher.wait(lambda: next(filter(what, self.watcher.named(name)), None), PATIENCE_S)
        if found is None:
            stood = "it stood" if self.process.poll() is None else f"it ended with {self.process.poll()}"
            self._tell_stacks()
            raise AssertionError("\n".join([f"no event {name}: {stood}", self.errors, *self.watcher.story()]))
        return found

    def _tell_stacks(self) -> None:
        """End a driver that stands so that each of its threads tells where."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(PATIENCE_S)

    def completes(self, count: int) -> int:
        """Wait until it has completed so many checkpoints; the id of the last."""
        self.hears("checkpoint", lambda event: event.facts["checkpoints"] >= count)
        return max(self.watcher.checkpoints())

    def signalled(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end; the exit code."""
        self.process.send_signal(number)
        return self.ends()

    def ends(self) -> int:
        """Wait for the end; the exit code."""
        code = self.process.wait(PATIENCE_S)
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def destroy(self) -> None:
        """Leave nothing of it."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.ends()


class Drivers:
    """Starts drivers of one folder.

    Args:
        folder: of the job: checkpoints, output, gate.
        options: of all of them.
        cluster: see `driver_job.py`.
    """

    def __init__(self, folder: Path, options: Sequence[str] = ON_FILES, cluster: str = "mini") -> None:
        self.folder, self._options, self._cluster = folder, options, cluster
        self._started: list[Driver] = []

    def start(self, *more: str, arguments: Sequence[str] = ()) -> Driver:
        """One more driver; `more` are its own settings."""
        self._started.append(Driver(self.folder, [*self._options, *more], arguments, self._cluster))
        return self._started[-1]

    def close(self) -> None:
        """End all that run."""
        for driver in self._started:
            driver.destroy()

    # -- the disk --------------------------------------------------------------------------------

    @property
    def disk(self) -> LocalDisk:
        """The checkpoint storage."""
        return LocalDisk(self.folder / "checkpoints")

    def jobs(self) -> list[str]:
        """Ids of the jobs that have a folder."""
        folders = (self.folder / "checkpoints").iterdir()
        return sorted(path.name for path in folders if not path.name.startswith("."))

    def logged(self, job: str) -> list[Completed]:
        """The completed checkpoints of a job, each verified in full."""
        entries = CompletedCheckpointLog(self.disk, log_folder(JobId(job))).completed()
        for entry in entries:
            verify_files(self.disk, load_metadata(self.disk, entry.metadata, entry.sha256))
        return entries

    def markers(self) -> list[Path]:
        """What drivers left by which their workers knew the storage."""
        return list((self.folder / "checkpoints" / ".headgate-probe").glob("*"))

    def let_end(self) -> None:
        """Input is read at full speed from now on."""
        (self.folder / "gate").touch()

    def totals(self, driver: Driver) -> dict[str, Any]:
        """What the program was told of its job."""
        found: dict[str, Any] = json.loads((self.folder / f"result-{driver.process.pid}.json").read_text())
        return found

    def check_output(self) -> list[dict[str, Any]]:
        """Every count of every key exactly once, and nothing pending; the records."""
        out = self.folder / "out"
        files = sorted(out.glob("part-*"))
        records = [json.loads(line) for path in files for line in path.read_text().splitlines()]
        found = Counter((record["key"], record["count"]) for record in records)
        sizes = Counter(number % KEYS for number in range(RECORDS))
        assert found == Counter((key, n) for key, size in sizes.items() for n in range(1, size + 1))
        assert not [path for path in (out / "_pending").rglob("*") if path.is_file()]
        return records
