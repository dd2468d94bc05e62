"""The errors behind a job's failures: raised ones, and what can be told of workers that are lost."""

from __future__ import annotations

from headgate.common.errors import HeadgateError, OperatingError
from headgate.core.job.state import Failure, Loss, LossKind
from headgate.core.same_failures import Fingerprint
from headgate.runtime.job.job_settings import JobSettings
from headgate.runtime.master.attempt.deaths import Deaths
from headgate.runtime.master.attempt.members import Members
from headgate.runtime.master.attempt.repeated_failures import fingerprint_of


class Losses:
    """Used by the job master's loop."""

    def __init__(self, members: Members, settings: JobSettings) -> None:
        self._members, self._settings = members, settings
        self._deaths, self._told = Deaths(), dict[Loss, HeadgateError]()

    def suspect(self, slot: int, reason: str) -> None:
        """The connection to a worker ended."""
        self._deaths.suspect(slot, self._members.get(slot), reason)

    def collect(self, why: str | None) -> None:
        """The gang has ended: what its workers have left is taken up."""
        self._deaths.collect(self._members.members(), why)

    def forget(self) -> None:
        """What comes now is about another gang, or told already."""
        self._deaths.forget()

    def error(self, failure: Failure) -> HeadgateError:
        """What a failure is called by; of a lost worker, all that is known of its end, looked up once."""
        if isinstance(failure.what, HeadgateError):
            return failure.what
        assert isinstance(failure.what, Loss)
        if failure.what not in self._told:
            self._told[failure.what] = self._tell(failure.what)
        return self._told[failure.what]

    def fingerprint(self, loss: Loss) -> Fingerprint | None:
        """What tells the loss of a worker from others."""
        return fingerprint_of(self.error(Failure(loss)))

    def stuck(self, slot: int, still_ms: int) -> str:
        """What a worker is busy with whose loop does not turn."""
        member, for_s = self._members.get(slot), f"{still_ms / 1000:.0f} s"
        if member is None or not member.standstills:
            return f"the loop of worker {slot} has not turned for {for_s}; a call does not return"
        return "; ".join(
            f"{still.operator}, subtask {still.subtask}, has been busy for {for_s} without progress, in\n"
            f"{still.stack}"
            for still in member.standstills
        )

    def _tell(self, loss: Loss) -> HeadgateError:
        if loss.kind is LossKind.GANG:
            return self._deaths.gang_ended("all workers left" if loss.why is None else str(loss.why))
        if loss.kind is LossKind.HEARTBEAT:
            member = self._members.get(loss.slot) or self._members.lost.get(loss.slot)
            return self._deaths.lapsed(loss.slot, member, self._settings.heartbeat_timeout_ms)
        if loss.kind is LossKind.LINK:
            return self._deaths.told()
        seconds = self._settings.rescale_timeout_ms / 1000
        return OperatingError(f"{loss.why} workers were not running within {seconds:g} s")
