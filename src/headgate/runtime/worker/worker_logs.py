"""How a worker writes its log: the form of the lines, the job that they name, and what they must not show."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from headgate.common.masking import Mask
from headgate.common.process.log_lines import LoggedJob
from headgate.common.process.logs import job_of_process, set_up_logging


@dataclass(frozen=True, slots=True)
class WorkerLogs:
    """The driver's wishes for the log of a worker's process; picklable."""

    job_name: str = ""
    as_json: bool = False  # whether log lines are JSON objects
    all_json: bool = False  # whether all else that Headgate writes on the standard error is, too
    masked: tuple[str, ...] = field(default=(), repr=False)  # secrets that the worker has

    def set_up(self) -> None:
        """Log to the standard error of this process, from now on."""
        set_up_logging(self.as_json, all_json=self.all_json)

    def naming(self, job_id: str, slot: int, secret: bytes) -> AbstractContextManager[LoggedJob]:
        """Name the job, and this worker, in all lines of the process within the returned `with` block."""
        mask = Mask([*self.masked, secret.hex(), repr(secret)[2:-1]])
        return job_of_process(LoggedJob(self.job_name, job_id, worker=slot, mask=mask))
