"""The gang in memory: starts workers late and one by one, kills them, reports their end later."""

from __future__ import annotations

from collections.abc import Callable

from headgate.testing.simulation.simulated_processes import Scene
from headgate.testing.simulation.simulated_workers import GangOwner, WorkerProcess


class SimGang:
    """Implements `common.ports.Gang` for one driver as a barrier stage would: all workers or none.

    Once its driver has exited nothing is started, and what runs is not ended.
    """

    def __init__(self, scene: Scene, driver: GangOwner) -> None:
        self._scene, self._driver = scene, driver
        self._workers: list[WorkerProcess] = []
        self._expected: dict[int, int] = {}
        self._started: dict[int, int] = {}
        self._cancelled: set[int] = set()
        self._errors: dict[int, str] = {}

    def submit(self, gang: int, slots: int) -> None:
        """See `common.ports.Gang`."""
        scene = self._scene
        self._expected[gang], self._started[gang] = slots, 0
        for slot in range(slots):
            name = f"start worker {self._driver.prefix}{gang}.{slot}"
            scene.line.after(scene.delay(20), name, self._starter(gang, slot))

    def cancel(self, gang: int) -> None:
        """See `common.ports.Gang`."""
        if gang in self._cancelled:
            return
        self._cancelled.add(gang)
        self._errors.setdefault(gang, "cancelled")
        self._scene.line.after(self._scene.delay(10), f"cancel gang {gang}", lambda: self._end_all(gang))

    def worker_ended(self, worker: WorkerProcess, error: str | None) -> None:
        """A worker has exited; a barrier stage does not outlive one that failed."""
        gang = worker.gang
        if error is not None and gang not in self._cancelled:
            self._errors.setdefault(gang, error)
            self._cancelled.add(gang)
            if self._driver.alive:
                delay = self._scene.delay(30)
                self._scene.line.after(delay, f"gang {gang} failed", lambda: self._end_all(gang))
        self._report_if_gone(gang)

    def living(self, gang: int | None = None) -> list[WorkerProcess]:
        """Processes that exist, of one gang or of all."""
        return [w for w in self._workers if w.alive and (gang is None or w.gang == gang)]

    def _starter(self, gang: int, slot: int) -> Callable[[], None]:
        def start() -> None:
            if not self._driver.alive:
                return
            if gang in self._cancelled:
                self._expected[gang] -= 1
                self._report_if_gone(gang)
                return
            self._started[gang] += 1
            worker = WorkerProcess(self._scene, self._driver, gang, slot)
            self._workers.append(worker)
            self._driver.attach(worker)

        return start

    def _end_all(self, gang: int) -> None:
        for worker in self.living(gang):
            # What stands still on a machine out of reach survives, and will wake up as a zombie.
            if not (worker.paused and self._scene.rng.random() < 0.5):
                worker.kill("the gang is cancelled")
        self._report_if_gone(gang)

    def _report_if_gone(self, gang: int) -> None:
        if self._started[gang] < self._expected[gang] or self.living(gang):
            return
        self._expected[gang] = 1 << 30
        error = self._errors.get(gang)
        scene, driver = self._scene, self._driver
        if driver.alive:
            scene.line.after(
                scene.delay(20),
                f"gang {gang} is gone ({error})",
                lambda: driver.tell(lambda master: master.gang_exited(gang, error)),
            )
