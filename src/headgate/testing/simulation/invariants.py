"""Invariants that every simulated job must keep, whatever it computes; each event is checked at once."""

from __future__ import annotations

import struct
from collections import defaultdict

from headgate.checkpoint.service import CheckpointService
from headgate.common.errors import FencedError, HeadgateError, InternalError, UsageError
from headgate.common.ids import JobId
from headgate.core.execution import JobState
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.job.listener import JobListener
from headgate.runtime.protocol.frames import Frame, FrameKind
from headgate.testing.simulation.drivers import DriverProcess, JobScene
from headgate.testing.simulation.file_invariants import StoredFiles, Violation
from headgate.testing.simulation.network import Lane
from headgate.testing.simulation.simulated_processes import Process
from headgate.testing.simulation.virtual_disk import SimDisk, SimFiles

__all__ = ["Checks", "Violation"]

_NUMBER = struct.Struct("<q")


class Checks:
    """Checks a simulated job's invariants at each event, or raises Violation; a subclass may add its own."""

    def __init__(self) -> None:
        self.completed = 0  # checkpoints so far
        self.rescaled = False  # whether an attempt ran at another parallelism
        self.stored = StoredFiles(SimFiles())  # those of the simulation from :meth:`begins` on
        self._last: dict[str, int] = defaultdict(int)
        self._watermarks: dict[tuple[str, int, int, int, int], int] = {}
        self._answered: set[tuple[str, int]] = set()

    def begins(self, scene: JobScene) -> None:
        self.stored = StoredFiles(scene.files)

    def listener(self, scene: JobScene, driver: DriverProcess) -> JobListener:
        return _Listener(scene, driver, self)

    def frame(self, lane: Lane, attempt: int, frame: Frame) -> None:
        if frame.kind is not FrameKind.WATERMARK:
            return
        channel = (lane.name, attempt, frame.edge, frame.sender, frame.receiver)
        (watermark,) = _NUMBER.unpack(frame.payload())
        before = self._watermarks.get(channel, watermark)
        if watermark < before:
            raise Violation(f"the watermark of channel {channel} fell from {before} to {watermark}")
        self._watermarks[channel] = watermark

    def used(self, process: Process, operation: str, name: str, verdict: str) -> None:
        """Check before each disk operation that it deletes no file that a checkpoint or savepoint needs."""
        if operation == "delete" and verdict in ("works", "unsure"):
            self.stored.deleting(process.name, name)

    def changed(self, process: Process, operation: str, name: str) -> None:
        self.stored.changed(process.name, name)

    def leads(self, driver: DriverProcess) -> bool:
        return driver.generation == self.stored.generation(driver.job_id)

    def checkpoint(self, scene: JobScene, checkpoint: int) -> None:
        """Count a checkpoint that the running driver completed. Its id must be the driver's highest so far,
        it must be in the log if the driver leads, and all files of the checkpoints in the log must be intact.
        """
        driver = scene.driver
        if checkpoint <= self._last[driver.name]:
            raise Violation(f"checkpoint {checkpoint} completed after {self._last[driver.name]}")
        self._last[driver.name] = checkpoint
        self.completed += 1
        if not self.stored.run(driver.job_id):
            return  # a job without a log
        logged = [entry.checkpoint for entry in self.stored.completed(driver.job_id)]
        if checkpoint not in logged and self.leads(driver):
            raise Violation(f"checkpoint {checkpoint} completed, but the log holds {logged}")
        self.stored.demand_complete(driver.job_id)

    def savepoint(self, scene: JobScene, uri: str) -> None:
        self.stored.savepoint(uri)

    def deploying(self, scene: JobScene, driver: DriverProcess, attempt: int, checkpoint: int | None) -> None:
        """Check where attempt number `attempt` begins if its driver leads: at the checkpoint that is the last
        in the log, else at the submission's restore point, else (None) with no state.
        """
        if not self.stored.run(driver.job_id) or not self.leads(driver):
            return  # a driver that was replaced may know an older one: it cannot complete any
        logged = [entry.checkpoint for entry in self.stored.completed(driver.job_id)]
        point = driver.submission.point
        first = None if point is None else point.checkpoint.checkpoint
        right = logged[-1] if logged else first
        if checkpoint != right:
            raise Violation(
                f"{driver.name} begins attempt {attempt} from checkpoint {checkpoint}; expected {right}"
            )

    def failed(self, scene: JobScene, driver: DriverProcess, error: HeadgateError) -> None:
        """Check why an attempt failed: a fault was injected before, and `error` is no InternalError or
        UsageError. Any error goes for a driver that was fenced or replaced.
        """
        if len(scene.drivers) > 1 and (isinstance(error, FencedError) or not self.leads(driver)):
            return  # it was replaced, and may not even find its marker any more
        if not scene.faults_done or isinstance(error, InternalError | UsageError):
            raise Violation(f"an attempt failed by itself: {type(error).__name__}: {error}")

    def killed(self, driver: DriverProcess) -> None:
        for job in self.stored.jobs():
            self.stored.demand_complete(job)

    def answered(
        self, driver: DriverProcess, number: int, answer: str | int | None, error: HeadgateError | None
    ) -> None:
        """Check that request `number` of `driver.asked` is answered once, and its savepoint is complete."""
        if (driver.name, number) in self._answered:
            raise Violation(f"{driver.name} answers request {number} ({driver.asked[number]}) twice")
        self._answered.add((driver.name, number))
        if error is None and "savepoint" in driver.asked[number]:
            self.stored.savepoint(str(answer))

    def ended(self, scene: JobScene) -> None:
        """Check an ended job: it FINISHED, ended drivers answered all requests, all checkpoints and
        savepoints are complete, and needless files are left only by faults and are what a sweep deletes.
        """
        master = scene.master
        if master.state is not JobState.FINISHED:
            raise Violation(f"the job ended as {master.state.value}: {master.error}")
        for driver in scene.drivers:
            waiting = [
                what for number, what in driver.asked.items() if (driver.name, number) not in self._answered
            ]
            if waiting and driver.master is not None and driver.master.state.terminal:
                raise Violation(f"{driver.name} has ended without an answer to requests for {waiting}")
        self.stored.demand_complete_savepoints()
        for job in self.stored.jobs():
            self.stored.demand_complete(job)
            self._demand_clean_sweep(scene, job)

    def _demand_clean_sweep(self, scene: JobScene, job: str) -> None:
        orphans = self.stored.orphans(job)
        if orphans and not scene.faults_done:
            raise Violation(f"files without an owner are left: {sorted(orphans)}")
        unneeded = self.stored.unneeded(job)
        if unneeded and len(scene.drivers) == 1:
            raise Violation(
                f"completed checkpoints of {job} have files that they do not need: {sorted(unneeded)}"
            )
        copy = SimFiles()
        copy.files, copy.torn = dict(scene.files.files), dict(scene.files.torn)
        service = CheckpointService(SimDisk(copy), JobId(job))
        swept = set(service.sweep_orphans(service.claim()))
        if swept != orphans:
            raise Violation(
                f"a sweep of {job} takes {sorted(swept - orphans)}, which it must not, and leaves "
                f"{sorted(orphans - swept)}"
            )


class _Listener(JobListener):
    def __init__(self, scene: JobScene, driver: DriverProcess, checks: Checks) -> None:
        self._scene, self._driver, self._checks = scene, driver, checks

    def _note(self, text: str) -> None:
        self._scene.note(f"{self._driver.name}: {text}")

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        self._note(f"deploying attempt {attempt} from {checkpoint}")
        self._checks.deploying(self._scene, self._driver, attempt, checkpoint)

    def running(self, attempt: int) -> None:
        self._note(f"attempt {attempt} runs")

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        scene = self._scene
        self._note(f"checkpoint {checkpoint} completed")
        scene.checkpoint_traces.note(checkpoint, scene.now(), f"{self._driver.name}: complete and committed")
        self._checks.checkpoint(scene, checkpoint)

    def savepoint_completed(self, checkpoint: int, uri: str, took_ms: int) -> None:
        self._note(f"savepoint {checkpoint} is whole in {uri}")
        self._checks.savepoint(self._scene, uri)

    def rescaled(self, plan: PhysicalPlan) -> None:
        self._note(f"the next attempt has {plan.slots} slots")
        self._checks.rescaled = True

    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        first = str(error).partition("\n")[0]
        self._note(f"attempt {attempt} failed: {type(error).__name__}: {first}")
        self._checks.failed(self._scene, self._driver, error)

    def reverted(self, attempt: int, error: HeadgateError) -> None:
        self.failed(attempt, error, 0)

    def note(self, text: str) -> None:
        self._note(text.partition("\n")[0])

    def ended(self, state: str) -> None:
        self._note(f"the job is {state}")
