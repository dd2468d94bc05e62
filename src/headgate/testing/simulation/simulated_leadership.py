"""Leadership of a simulated driver: production's rules, with turns of the simulation for threads."""

from __future__ import annotations

from typing_extensions import override

from headgate.common.ports import Clock
from headgate.core.leadership import LeadershipState
from headgate.ha.contract.election import Candidacy, Election
from headgate.ha.leading import PROOFS_PER_LEASE, Leadership


class SimLeadership(Leadership):
    """Leader election without threads; its driver calls `look()`, `prove()` and `watch()` in time."""

    def __init__(self, name: str, election: Election, clock: Clock) -> None:
        super().__init__(name, election, clock)
        self.pause_ms = max(1, election.lease_ms // PROOFS_PER_LEASE)  # between two looks or two proofs
        self._patience_s = 0.0  # no other thread could answer while the only one waits

    @property
    def leads(self) -> bool:
        return self._term.state not in (LeadershipState.CANDIDATE, LeadershipState.LOST)

    @property
    def deadline_ms(self) -> int | None:
        """Time (monotonic ms) at which :meth:`watch` must be called next; None for none."""
        return self._term.next_wakeup()

    @property
    def unreported_loss(self) -> bool:
        return self._term.state is LeadershipState.LOST and bool(self._listeners)

    def look(self) -> Candidacy:
        """Take part in the election once, without waiting; StorageError if the disk gives no answer. Return
        who leads, or that the job has ended, or that this driver has won, unless the answer took too long.
        """
        seen = self._election.campaign()
        if seen.won_ms is not None and not self._granted(seen.won_ms):
            return Candidacy(None, "nobody: the answer came too late")
        return seen

    def prove(self) -> str:
        """Renew the leadership once, as its thread does; return a word for the trace."""
        if self._asking.locked():
            return "waits for the election's answer to another question"
        self._prove_once()
        return self._term.state.value

    def watch(self) -> str:
        """Note the end of the lease, if its time is over; call each listener of `on_lost` once if the
        leadership is lost by now. Return the state for the trace. To be called at `deadline_ms`.
        """
        if self._term.tick(self._clock.monotonic_ms()) or self._term.state is LeadershipState.LOST:
            error, listeners = self._lost(""), self._listeners
            self._listeners = []
            for listener in listeners:
                listener(error)
        return self._term.state.value

    @override
    def _granted(self, sent_ms: int) -> bool:
        return self._term.granted(sent_ms, self._clock.monotonic_ms())
