"""How a worker writes its log: the form of the lines, the job that they name, and what they must not show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final

from headgate.common.masking import Mask
from headgate.common.ports import Link
from headgate.common.process.kept_lines import NewLines, new_lines
from headgate.common.process.log_lines import LoggedJob
from headgate.common.process.logs import job_of_process, set_up_logging
from headgate.runtime.protocol import messages as m


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


_COMES_AFTER: Final = m.Heartbeat | m.TaskFailed | m.DataEnded | m.Idle
"""Messages before which the lines go that were logged until then: with the last two, a job may end."""


class LinkWithLogs:
    """A link to the job master that also sends the lines of this process's log, from `lines`."""

    def __init__(self, link: Link, lines: NewLines) -> None:
        self._link, self._lines = link, lines
        self._unsent = 0  # lines that could not be sent

    def send(self, message: m.FromWorker) -> None:
        if isinstance(message, _COMES_AFTER):
            self.send_lines()
        self._link.send(message)

    def send_lines(self) -> None:
        """Send the lines that are new, if there are any. Never raises: a line must not stop what is sent
        behind it, such as a heartbeat.
        """
        lines, left_out = self._lines.take()
        left_out, self._unsent = left_out + self._unsent, 0
        if not lines and not left_out:
            return
        try:
            self._link.send(m.Logged(0, lines, left_out))
        except Exception:
            self._unsent = left_out + len(lines)

    def close(self) -> None:
        self._link.close()


@contextmanager
def logs_sent(link: Link) -> Iterator[LinkWithLogs]:
    """Send what this process logs within the block, with the messages that go over the returned link, and
    at the end. The process must be the worker's own.
    """
    with new_lines() as lines:
        sending = LinkWithLogs(link, lines)
        try:
            yield sending
        finally:
            sending.send_lines()
