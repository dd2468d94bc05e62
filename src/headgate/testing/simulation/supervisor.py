"""The supervisor of a simulation: starts a driver when one died, and after a job was stopped."""

from __future__ import annotations

from typing import Final

from headgate.checkpoint.layout import METADATA, log_folder
from headgate.checkpoint.opening import load_metadata
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.errors import UsageError
from headgate.common.ids import JobId
from headgate.restore.point import RestorePoint
from headgate.testing.simulation.drivers import DriverProcess, JobScene
from headgate.testing.simulation.invariants import Checks, Violation
from headgate.testing.simulation.simulated_jobs import Submission
from headgate.testing.simulation.virtual_disk import URI, SimDisk

RESTART_MS: Final = (0, 20, 200)
"""Delays (ms) after which a new driver is started when one has died."""
NOT_STARTED_MS: Final = 30
"""Delay (ms) after which a new driver is started when one failed before its job was started."""


class Supervisor:
    """Starts a driver whenever none lives, until the job has ended, and the job again after it was stopped or
    cancelled; with `elects`, drivers elect a leader. Implements `DriverStarter`.
    """

    def __init__(self, scene: JobScene, checks: Checks, submission: Submission, elects: bool) -> None:
        self._scene, self._checks, self._elects = scene, checks, elects
        self.submission = submission  # what runs, or runs next
        self._first_id = submission.job_id
        self._planned = False
        self._ended_unreported: DriverProcess | None = None

    def start(self) -> DriverProcess:
        scene = self._scene
        driver = DriverProcess(scene, len(scene.drivers) + 1, self.submission, self._elects)
        scene.drivers.append(driver)
        scene.note(f"{driver.name} is started")
        return driver

    def job_id(self, run: int) -> str:
        return self._first_id if run == 0 else f"{self._first_id}-{run}"

    def did_not_start(self, driver: DriverProcess, error: Exception) -> None:
        if isinstance(error, UsageError) or not (self._scene.faults_done or len(self._scene.drivers) > 1):
            raise Violation(f"{driver.name} did not start: {type(error).__name__}: {error}")

    def driver_exited(self, driver: DriverProcess, how: str) -> None:
        scene = self._scene
        scene.note(f"{driver.name} is gone: {how}")
        if how == "killed" and driver.master is not None and driver.master.state.terminal:
            self._ended_unreported = driver
        elif how == "over" and self._ended_unreported is not None:
            # Killed when the job's end was on record: another driver reported it to the user.
            driver = self._ended_unreported
            how = driver.master.state.value if driver.master is not None else how
        master = driver.master
        if how == "finished" and master is not None and master.savepoint is not None:
            self._run_again(self._opened(master.savepoint))
        elif how == "cancelled":
            self._run_again(self._latest(driver.job_id))
        elif how == "finished" or (how == "failed" and self._is_final(driver)):
            scene.finished = scene.finished or driver
        if scene.done:
            self._dismiss_late_drivers()
        elif not scene.living_drivers() and not self._planned:
            pause = NOT_STARTED_MS if how == "did not start" else scene.rng.choice(RESTART_MS)
            self._planned = True
            scene.line.after(pause, "start a driver", self._start_planned)

    def _start_planned(self) -> None:
        self._planned = False
        if not self._scene.done and not self._scene.living_drivers():
            self.start()

    def _is_final(self, driver: DriverProcess) -> bool:
        master = driver.master
        return master is not None and not master.goes_on and self._checks.leads(driver)

    def _dismiss_late_drivers(self) -> None:
        # A driver that has not seen the election would take the ended job for a new one.
        for driver in self._scene.living_drivers():
            if self._elects and not driver.looked:
                driver.kill("it is not needed any more", silently=False)

    def _run_again(self, point: RestorePoint | None) -> None:
        if self._scene.done:
            return
        for driver in self._scene.living_drivers():
            driver.kill("its job was stopped", silently=False)
        self.submission = self.submission.again(point, self.job_id(self.submission.run + 1))
        begins = "nothing" if point is None else str(point.checkpoint.checkpoint)
        self._scene.note(f"the user starts the job again as {self.submission.job_id}, from {begins}")

    def _opened(self, uri: str) -> RestorePoint:
        disk = SimDisk.at(uri, self._scene.files)
        return RestorePoint(load_metadata(disk, METADATA), uri)

    def _latest(self, job_id: str) -> RestorePoint | None:
        disk = SimDisk(self._scene.files)
        latest = CompletedCheckpointLog(disk, log_folder(JobId(job_id))).latest()
        if latest is None:
            return self.submission.point
        if latest.metadata.startswith(URI):
            return self._opened(latest.metadata.rpartition("/")[0])
        return RestorePoint(load_metadata(disk, latest.metadata, latest.sha256), URI)
