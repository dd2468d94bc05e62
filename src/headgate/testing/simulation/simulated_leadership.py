"""Leadership of a simulated driver: the production rules, with turns of the scheduler in place of threads."""

from __future__ import annotations

from typing_extensions import override

from headgate.common.ports import Clock
from headgate.core.leadership import LeadershipState
from headgate.ha.contract.election import Candidacy, Election
from headgate.ha.leading import PROOFS_PER_LEASE, Leadership


class SimLeadership(Leadership):
    """A simulated :class:`Leadership`, whose owner calls `look()`, `prove()` and `watch()` in time."""

    def __init__(self, name: str, election: Election, clock: Clock) -> None:
        super().__init__(name, election, clock)
        self.pause_ms = max(1, election.lease_ms // PROOFS_PER_LEASE)  # between two looks or two proofs
        self._patience_s = 0.0  # no other thread could answer while the only one waits

    @property
    def leads(self) -> bool:
        """Whether the right was won and is not known to be lost."""
        return self._term.state not in (LeadershipState.CANDIDATE, LeadershipState.LOST)

    @property
    def deadline_ms(self) -> int | None:
        """When :meth:`watch` has news at the latest (monotonic ms)."""
        return self._term.next_wakeup()

    @property
    def unreported_loss(self) -> bool:
        """Whether the right is lost and its listeners were not called yet."""
        return self._term.state is LeadershipState.LOST and bool(self._listeners)

    def look(self) -> Candidacy:
        """Take part in the election once; a StorageError where the disk does not answer."""
        seen = self._election.campaign()
        if seen.won_ms is not None and not self._granted(seen.won_ms):
            return Candidacy(None, "nobody: the answer came too late")
        return seen

    def prove(self) -> str:
        """Return the turn of the thread that proves; returns a word for the trace."""
        if self._asking.locked():
            return "waits for the election's answer to another question"
        self._prove_once()
        return self._term.state.value

    def watch(self) -> str:
        """Return the turn of the thread that watches the time; returns a word for the trace."""
        if self._term.tick(self._clock.monotonic_ms()) or self._term.state is LeadershipState.LOST:
            error, listeners = self._lost(""), self._listeners
            self._listeners = []
            for listener in listeners:
                listener(error)
        return self._term.state.value

    @override
    def _granted(self, sent_ms: int) -> bool:
        return self._term.granted(sent_ms, self._clock.monotonic_ms())
