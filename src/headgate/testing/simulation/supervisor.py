"""Whoever starts drivers in a simulation: a dead one once more, and a job that was stopped on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.checkpoint.layout import METADATA, log_folder
from headgate.checkpoint.opening import load_metadata
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.errors import UsageError
from headgate.common.ids import JobId
from headgate.restore.point import RestorePoint
from headgate.testing.simulation.drivers import DriverProcess, Submission, again
from headgate.testing.simulation.virtual_disk import URI, SimDisk

if TYPE_CHECKING:
    from headgate.testing.simulation.world import World

RESTART_MS: Final = (0, 20, 200)
"""How long it may take until a dead driver is started again."""
NOT_STARTED_MS: Final = 30
"""The same where it did not come to start its job."""


class Supervisor:
    """Keeps one driver at least, until the job is over.

    Args:
        world: the simulation.
        submission: what is to run.
        elects: whether drivers win an election before they lead; otherwise the log alone tells them apart.

    Attributes:
        drivers: all that were ever started.
        finished: the driver that brought the job to its end, or failed for good.
        runs: ids of all executions so far.
    """

    def __init__(self, world: World, submission: Submission, elects: bool) -> None:
        self._world, self._submission, self._elects = world, submission, elects
        self.drivers: list[DriverProcess] = []
        self.finished: DriverProcess | None = None
        self.runs = [submission.job_id]
        self._planned = 0
        self._ended_untold: DriverProcess | None = None

    @property
    def submission(self) -> Submission:
        """What runs, or runs next."""
        return self._submission

    @property
    def elects(self) -> bool:
        """Whether drivers win an election before they lead."""
        return self._elects

    @property
    def done(self) -> bool:
        """Whether the job needs no driver any more."""
        return self.finished is not None

    def living(self) -> list[DriverProcess]:
        """Drivers that exist."""
        return [driver for driver in self.drivers if driver.alive]

    def start(self) -> DriverProcess:
        """Start a driver beside those that there are."""
        driver = DriverProcess(self._world, len(self.drivers) + 1, self._submission, self._elects)
        self.drivers.append(driver)
        self._world.note(f"{driver.name} is started")
        return driver

    def job_id(self, run: int) -> str:
        """The id of an execution, by how many came before it."""
        base = self.runs[0]
        return base if run == 0 else f"{base}-{run}"

    def did_not_start(self, driver: DriverProcess, error: Exception) -> None:
        """A driver could not begin; what is no fault of the outside world is a violation."""
        if isinstance(error, UsageError) or not (self._world.faults.done or len(self.drivers) > 1):
            self._world.checks.did_not_start(driver, error)

    def driver_gone(self, driver: DriverProcess, how: str) -> None:
        """A driver has left or was killed: start another where the job needs one."""
        world = self._world
        world.note(f"{driver.name} is gone: {how}")
        if how == "killed" and driver.master is not None and driver.master.state.terminal:
            self._ended_untold = driver
        elif how == "over" and self._ended_untold is not None:
            # Killed when the job's end was on record: another driver told the user.
            driver = self._ended_untold
            how = driver.master.state.value if driver.master is not None else how
        master = driver.master
        if how == "finished" and master is not None and master.savepoint is not None:
            self._go_on(self._opened(master.savepoint))
        elif how == "cancelled":
            self._go_on(self._latest(driver.job_id))
        elif how == "finished" or (how == "failed" and self._is_final(driver)):
            self.finished = self.finished or driver
        if self.done:
            self._send_home()
        elif not self.living() and not self._planned:
            pause = NOT_STARTED_MS if how == "did not start" else world.rng.choice(RESTART_MS)
            self._planned += 1
            world.line.after(pause, "start a driver", self._start_planned)

    def _start_planned(self) -> None:
        self._planned -= 1
        if not self.done and not self.living():
            self.start()

    def _is_final(self, driver: DriverProcess) -> bool:
        """Whether nobody else goes on with the job that failed."""
        master = driver.master
        return master is not None and not master.goes_on and self._world.checks.leads(driver)

    def _send_home(self) -> None:
        """Who has not even looked at the election would take what is over for a new job."""
        for driver in self.living():
            if self._elects and not driver.looked:
                driver.kill("it is not needed any more", silently=False)

    def _go_on(self, point: RestorePoint | None) -> None:
        """The user starts the stopped job once more, as a new execution."""
        if self.done:
            return
        for driver in self.living():
            driver.kill("its job was stopped", silently=False)
        run = self._submission.run + 1
        self._submission = again(self._submission, point, self.job_id(run))
        self.runs.append(self._submission.job_id)
        self._world.begins_anew(self._submission)

    def _opened(self, uri: str) -> RestorePoint:
        disk = SimDisk.at(uri, self._world.files)
        return RestorePoint(load_metadata(disk, METADATA), uri)

    def _latest(self, job_id: str) -> RestorePoint | None:
        disk = SimDisk(self._world.files)
        latest = CompletedCheckpointLog(disk, log_folder(JobId(job_id))).latest()
        if latest is None:
            return self._submission.point
        if latest.metadata.startswith(URI):
            return self._opened(latest.metadata.rpartition("/")[0])
        return RestorePoint(load_metadata(disk, latest.metadata, latest.sha256), URI)
