"""The errors by which a job's failures are reported; those for lost workers explain why the process ended."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.common.errors import HeadgateError, OperatingError
from headgate.common.process.processes import oom_kills
from headgate.core.job.state import Failure, Loss, LossKind
from headgate.core.same_failures import Fingerprint
from headgate.runtime.job.black_box import Remains
from headgate.runtime.job.job_settings import JobSettings
from headgate.runtime.master.attempt.deaths import await_words, death_text, remains_left, slot_named
from headgate.runtime.master.attempt.members import Member, Members
from headgate.runtime.master.attempt.repeated_failures import fingerprint_of


class Losses:
    """Makes the errors by which failures are reported; explains lost workers. For the job master's loop."""

    def __init__(self, members: Members, settings: JobSettings) -> None:
        self._members, self._settings = members, settings
        self._errors = dict[Loss, HeadgateError]()
        self._kills = oom_kills()

    def clear(self) -> None:
        for member in (*self._members.members(), *self._members.lost.values()):
            remains_left(member)

    def error(self, failure: Failure) -> HeadgateError:
        """Return the error that reports `failure`: its own, or for a lost worker one that explains its end.
        For the latter the first call reads and deletes black boxes (crash report files of workers on this
        host) and may block for 1.5 s; later calls return the same error.
        """
        if isinstance(failure.what, HeadgateError):
            return failure.what
        assert isinstance(failure.what, Loss)
        if failure.what not in self._errors:
            self._errors[failure.what] = self._explained(failure.what)
        return self._errors[failure.what]

    def fingerprint(self, loss: Loss) -> Fingerprint | None:
        """Return a key that losses by one cause share; None: unknown. Reads black boxes, as :meth:`error`."""
        return fingerprint_of(self.error(Failure(loss)))

    def stuck(self, slot: int, still_ms: int) -> str:
        member, for_s = self._members.get(slot), f"{still_ms / 1000:.0f} s"
        if member is None or not member.standstills:
            return f"the loop of worker {slot} has not turned for {for_s}; a call does not return"
        return "; ".join(
            f"{still.operator}, subtask {still.subtask}, has been busy for {for_s} without progress, in\n"
            f"{still.stack}"
            for still in member.standstills
        )

    def _explained(self, loss: Loss) -> OperatingError:
        if loss.kind is LossKind.GANG:
            return self._gang_ended(None if loss.why is None else str(loss.why))
        if loss.kind is LossKind.LINK:
            return self._first_cause([(member, remains_left(member)) for member in self._lost()])
        if loss.kind is LossKind.HEARTBEAT:
            member = self._members.get(loss.slot) or self._members.lost.get(loss.slot)
            reason = f"no heartbeat came for {self._settings.heartbeat_timeout_ms} ms"
            remains = remains_left(member)
            return OperatingError(death_text(loss.slot, member, reason, None, remains, self._oom()))
        seconds = self._settings.rescale_timeout_ms / 1000
        return OperatingError(f"{loss.why} workers were not running within {seconds:g} s")

    def _gang_ended(self, why: str | None) -> OperatingError:
        slot, lost, left = slot_named(why or ""), self._lost(), self._members.members()
        for member in left:
            if member.register.slot == slot:
                await_words(member)
        found = [(member, remains_left(member)) for member in (*lost, *left)]
        known = bool(lost) or any(remains.words or each.register.slot == slot for each, remains in found)
        reason = why or "all workers left"
        if known:
            return self._first_cause(found, reason, slot)
        return OperatingError(f"the gang of workers ended: {reason}")

    def _first_cause(
        self, found: Sequence[tuple[Member, Remains]], gang: str | None = None, slot: int | None = None
    ) -> OperatingError:
        # The worker that recorded a reason is the cause: the others were ended because of it.
        spoke = [each for each in found if each[1].words]
        member, remains = (spoke or [each for each in found if each[0].register.slot == slot] or found)[0]
        reason = member.ended or "its gang ended"
        return OperatingError(death_text(member.register.slot, member, reason, gang, remains, self._oom()))

    def _lost(self) -> list[Member]:
        return [member for member in self._members.lost.values() if member.ended]

    def _oom(self) -> bool:
        before, self._kills = self._kills, oom_kills()
        return before is not None and self._kills is not None and self._kills > before
