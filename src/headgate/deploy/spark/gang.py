"""The gang as a barrier stage of Spark: all workers of a job start together, or none does.

Spark schedules, starts the processes and notices dead ones. It does not retry a failed barrier
stage; a new gang is the job master's decision. The stage consists of plain Python rows: one of
DataFrames takes seconds longer to start the first time, and loads pandas into every worker.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headgate.common.errors import OperatingError
from headgate.common.files.durable import clock
from headgate.deploy.spark.reasons import shortened
from headgate.deploy.spark.slots import Hold, await_return, task_slots
from headgate.deploy.spark.worker_main import gang_body, gang_function
from headgate.runtime.driver.driver import GangContext

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

    from headgate.deploy.spark.user_code.orders import ShippedCode

POOL: Final = "headgate-gangs"
"""FAIR pool of the gangs; feeders and readers are in others, so that neither starves."""

_LEAVE_S: Final = 10.0


@dataclass(slots=True)
class _Running:
    group: str
    given_up: threading.Event
    thread: threading.Thread


class SparkGang:
    """Runs a job's gangs of workers as barrier stages of Spark; implements `common.ports.Gang`.

    `context` has the spec of the workers, and `exited`, which is called with a gang's number and why it ended
    (None: in order). `name` is the job's; `hold` the task slots that the job has taken; `code` an isolated
    program's code. `executors_come_s`: how many seconds Spark may take to replace lost executors; None in
    local mode, where workers are on the driver's machine.
    """

    def __init__(
        self,
        spark: SparkContext,
        context: GangContext,
        name: str,
        hold: Hold,
        executors_come_s: float | None = None,
        code: ShippedCode | None = None,
    ) -> None:
        self._spark, self._context, self._name, self._code = spark, context, name, code
        self._hold, self._executors_come_s = hold, executors_come_s
        self.links: dict[str, str] = {"spark_ui": spark.uiWebUrl} if spark.uiWebUrl else {}
        self._running: dict[int, _Running] = {}

    def submit(self, gang: int, slots: int) -> None:
        worker = self._context.worker
        group = f"headgate-{worker.job}-{worker.generation}-{gang}"
        given_up = threading.Event()
        thread = threading.Thread(
            target=self._run, args=(gang, slots, group, given_up), name=f"headgate-gang-{gang}", daemon=True
        )
        self._running[gang] = _Running(group, given_up, thread)
        self._hold.resize(slots)
        thread.start()

    def refusal(self, slots: int) -> str | None:
        """Return why Spark has no slots now for a rescale to `slots` workers; None if it has them."""
        return self._hold.refusal(slots, task_slots(self._spark))

    def cancel(self, gang: int) -> None:
        running = self._running.get(gang)
        if running is None or not running.thread.is_alive():
            return
        running.given_up.set()
        # Also jobs that the thread is only about to submit. A JVM that has exited has no workers left.
        with contextlib.suppress(Exception):
            self._spark._jsc.sc().cancelJobGroupAndFutureJobs(running.group)

    def close(self) -> None:
        """Cancel the gangs that still run, and wait up to 10 seconds until Spark has ended them."""
        deadline = clock.monotonic() + _LEAVE_S
        for gang in self._running:
            self.cancel(gang)
        for running in self._running.values():
            running.thread.join(max(0.0, deadline - clock.monotonic()))

    def _run(self, gang: int, slots: int, group: str, given_up: threading.Event) -> None:
        reason: str | None
        try:
            if self._executors_come_s is not None:
                await_return(self._spark, self._hold, slots, self._executors_come_s, given_up)
            self._occupy(gang, slots, group)
            reason = None
        except OperatingError as error:
            reason = str(error)
        except Exception as error:  # Spark, Py4J and sockets raise what they like
            reason = shortened(str(error) or type(error).__name__)
        self._context.exited(gang, reason)

    def _occupy(self, gang: int, slots: int, group: str) -> None:
        from pyspark.traceback_utils import SCCallSiteSync

        context = self._spark
        title = f"headgate: {self._name}, gang {gang}, {slots} workers"
        # Properties of this thread and its twin in the JVM; the user's own threads keep theirs.
        context.setLocalProperty("spark.scheduler.pool", POOL)
        context.setJobGroup(group, title, interruptOnCancel=True)
        # Else collect() names the stage after the line below.
        with SCCallSiteSync(context):  # type: ignore[no-untyped-call]
            context._jsc.setCallSite(title)
            self._workers(gang, slots).collect()

    def _workers(self, gang: int, slots: int) -> RDD[int]:
        worker, several_hosts = self._context.worker, self._executors_come_s is not None
        rows = self._spark.parallelize(range(slots), slots).barrier()
        if self._code is None:
            return rows.mapPartitions(gang_function(worker, gang, several_hosts))
        from headgate.deploy.spark.user_code.beginning_code import workers_with

        return workers_with(self._code, rows, self._spark, gang_body(worker, gang, several_hosts))
