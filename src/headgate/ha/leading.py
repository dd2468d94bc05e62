"""Leading a job: a driver waits for the leadership, proves it again and again, and reports its loss.

It runs `core.leadership` with an election (`ha.contract`). Two threads: one proves and may
wait for a disk or a server, the other watches the time and waits for nothing else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from headgate.checkpoint.store.entries import Completed
from headgate.checkpoint.store.store_contract import CommitPermit, CompletedCheckpointStore
from headgate.common.errors import FencedError, StorageError
from headgate.common.ids import CheckpointId
from headgate.common.ports import Clock
from headgate.core.leadership import LeadershipState, LeadershipTerm
from headgate.ha.contract.election import Candidacy, Election, LostLeadershipError

PROOFS_PER_LEASE: Final = 8
"""How often in a lease the right is proved: some proofs may fail before a commit has to wait."""

LEASES_WITHOUT_STANDBY: Final = 2
"""How long a driver that does not stand by waits: in that time it notices a leader that has just died."""

CLOSE_S: Final = 5.0  # how long the end waits for a pending proof

_LOG: Final = logging.getLogger(__name__)


class Leadership:
    """This driver's leadership of job `name`: waits for it, proves it in the background, reports its loss."""

    def __init__(self, name: str, election: Election, clock: Clock) -> None:
        self._name, self._election, self._clock = name, election, clock
        self._term = LeadershipTerm(name, election.lease_ms, election.margin_ms, election.regains)
        self._pause_s = election.lease_ms / 1000 / PROOFS_PER_LEASE
        self._changed = threading.Condition()
        self._asking = threading.Lock()  # an election answers one thread at a time
        self._patience_s = CLOSE_S
        self._ended = False
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._listeners: list[Callable[[FencedError], None]] = []
        self._error: FencedError | None = None
        self._report: Callable[[str], None] = _LOG.warning
        self._doubt, self._doubted = "", False

    def wait(
        self,
        waiting: Callable[[str], None],
        *,
        standby: bool = True,
        given_up: Callable[[], bool] | None = None,
    ) -> Candidacy | None:
        """Block until this driver leads; from then on two threads prove and watch it. Return the campaign
        that it won; None if the leader that it waited for has brought the job to its end.

        `waiting` is called with a sentence whenever another driver leads, or the election cannot be asked for
        another reason. Raises FencedError if `given_up()`, which is asked in each round, or without `standby`
        if another driver leads after two leases; StorageError if the first look fails, later ones are
        repeated.
        """
        began_ms, reported = self._clock.monotonic_ms(), ""
        while True:
            try:
                seen = self._election.campaign()
                text = f"waiting as standby: job {self._name!r} is led by {seen.leader}"
            except (StorageError, OSError) as error:
                if not reported:
                    raise
                seen, text = Candidacy(None), f"waiting as standby: {error}"
            if seen.ended:
                return None
            if seen.won_ms is not None and self._granted(seen.won_ms):
                return seen
            if text != reported:
                reported = text
                waiting(text)
            if given_up is not None and given_up():
                raise FencedError(
                    f"this driver was cancelled while it stood by; job {self._name!r} is led by "
                    f"{seen.leader}, and goes on"
                )
            waited_ms = self._clock.monotonic_ms() - began_ms
            if not standby and waited_ms >= LEASES_WITHOUT_STANDBY * self._election.lease_ms:
                raise FencedError(
                    f"job {self._name!r} is led by {seen.leader}; stop that driver first, or let this one "
                    "stand by with high-availability.standby=true"
                )
            self._closing.wait(self._pause_s)

    def require(self) -> None:
        """Raise an error unless this driver leads, so that a commit may begin now.

        Raises FencedError where the right is lost for good, StorageError where that is unknown at this
        moment: nothing was done, and later it may be possible.
        """
        with self._changed:
            now_ms = self._clock.monotonic_ms()
            if self._term.may_commit(now_ms):
                return
            self._term.tick(now_ms)
            if self._term.state is LeadershipState.LOST:
                raise self._error or self._lost("")
            because = f" ({self._doubt})" if self._doubt else ""
        raise StorageError(
            f"whether this driver still leads job {self._name!r} cannot be proved at the moment{because}; "
            "nothing was committed, and it is tried again with the next checkpoint"
        )

    def on_doubt(self, listener: Callable[[str], None]) -> None:
        """Call `listener` (only the last one given) with a sentence when the lease expires, and when this
        driver leads again; in a thread of the leadership. Without a listener the log gets the sentence.
        """
        with self._changed:
            self._report = listener

    def on_lost(self, listener: Callable[[FencedError], None]) -> None:
        """Call `listener`, which must not block, once leadership is lost: at once or in another thread."""
        with self._changed:
            error = self._error
            if error is None:
                self._listeners.append(listener)
        if error is not None:
            listener(error)

    def suspended(self) -> None:
        """Allow no commit until leadership is proved again, because the connection broke. From any thread."""
        with self._changed:
            self._term.suspended(self._clock.monotonic_ms(), "disconnected")
            self._changed.notify_all()

    def end(self) -> None:
        """Record that the job has ended, so that no other driver goes on with this run; repeats do nothing.

        Call before the last checkpoint is deleted. FencedError: leadership lost; StorageError: not recorded.
        """
        self.require()
        if not self._asking.acquire(timeout=self._patience_s):
            raise StorageError(
                f"the end of job {self._name!r} could not be recorded: the election has not answered for "
                f"{self._patience_s:g} s"
            )
        try:
            if not self._ended:
                self._election.end()
                self._ended = True
        except LostLeadershipError as error:
            raise self._lost(str(error)) from error
        finally:
            self._asking.release()

    def close(self) -> None:
        """Give up the leadership, so that no other driver waits for the end of the lease, and stop the
        threads; waits up to 5 s for each. If a proof still hangs then, the others wait for the lease.
        """
        with self._changed:
            self._term.resigned()
            self._closing.set()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(CLOSE_S)
        if not any(thread.is_alive() for thread in self._threads):
            with suppress(StorageError, OSError):  # then the others wait for the lease
                self._election.resign()

    def _granted(self, sent_ms: int) -> bool:
        with self._changed:
            if not self._term.granted(sent_ms, self._clock.monotonic_ms()):
                return False
        loops = {"headgate-leadership": self._prove, "headgate-lease": self._watch}
        self._threads = [
            threading.Thread(target=loop, name=name, daemon=True) for name, loop in loops.items()
        ]
        for thread in self._threads:
            thread.start()
        return True

    def _prove(self) -> None:
        while not self._closing.wait(self._pause_s):
            if self._prove_once() is LeadershipState.LOST:
                return

    def _prove_once(self) -> LeadershipState:
        sent_ms = self._clock.monotonic_ms()
        why, lost, again = "", False, None
        try:
            with self._asking:
                if self._term.state is not LeadershipState.LAPSED:
                    self._election.renew()
                elif not self._ended:  # else another run is the next driver's
                    again = self._election.regain()
        except LostLeadershipError as error:
            why, lost = str(error), True
        except Exception as error:  # whatever it was: the right was not proved
            why = str(error)
        with self._changed:
            if again is None or again.won_ms is None:
                self._answered(sent_ms, why, lost)
            else:
                self._term.granted(again.won_ms, self._clock.monotonic_ms())
            self._doubt = why
            self._report_changes()
            self._changed.notify_all()
            return self._term.state

    def _report_changes(self) -> None:
        state = self._term.state
        if state is LeadershipState.LAPSED and not self._doubted:
            self._doubted = True
            self._report(
                f"this driver cannot prove that it leads job {self._name!r}: "
                f"{self._doubt or 'no proof has come in time'}; nothing is committed, and it tries to lead "
                "again as long as no other driver does"
            )
        elif state is LeadershipState.LEADER and self._doubted:
            self._doubted = False
            self._report(f"this driver leads job {self._name!r} again")

    def _answered(self, sent_ms: int, why: str, lost: bool) -> None:
        now_ms = self._clock.monotonic_ms()
        if lost:
            if self._term.expired(why):
                self._lost(why)
        elif why:
            self._term.suspended(now_ms, why)
        else:
            self._term.renewed(sent_ms, now_ms)

    def _watch(self) -> None:
        with self._changed:
            while self._term.state is not LeadershipState.LOST:
                now_ms = self._clock.monotonic_ms()
                if self._term.tick(now_ms):
                    break
                self._report_changes()
                due_ms = self._term.next_wakeup()
                self._changed.wait(None if due_ms is None else (due_ms - now_ms) / 1000)
            if self._closing.is_set():
                return
            error = self._lost("")
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(error)

    def _lost(self, why: str) -> FencedError:
        if self._error is None:
            doubt = self._doubt if self._doubt not in ("", why) else ""
            reason = why or "its right to lead could not be proved for a whole lease"
            reason += f" (the last that was heard: {doubt})" if doubt else ""
            self._error = FencedError(
                f"this driver does not lead job {self._name!r} any more: {reason}; it stops, and the driver "
                "that leads now, or the next one that is started, goes on from the last completed checkpoint"
            )
        return self._error


class LedStore:
    """A store of completed checkpoints that changes `store` only while this driver leads the job. Else
    claims, writes and reserved ids raise FencedError (leadership lost) or StorageError (not proved at
    present).
    """

    def __init__(self, store: CompletedCheckpointStore, leadership: Leadership) -> None:
        self._store, self._leadership = store, leadership
        self._permit: CommitPermit | None = None

    def claim(self) -> CommitPermit:
        self._leadership.require()
        self._permit = self._store.claim()
        return self._permit

    def generation(self) -> int:
        return self._store.generation()

    def forget(self) -> None:
        """Remove all entries and close the store, as the job has ended; without a claim do nothing."""
        if self._permit is not None:
            self.close(self._permit, terminal=True)

    def append(self, permit: CommitPermit, checkpoint: CheckpointId, metadata: str, sha256: str) -> None:
        self._leadership.require()
        self._store.append(permit, checkpoint, metadata, sha256)

    def check(self, permit: CommitPermit) -> None:
        self._leadership.require()
        self._store.check(permit)

    def completed(self) -> list[Completed]:
        return self._store.completed()

    def latest(self) -> Completed | None:
        return self._store.latest()

    def trim(self, permit: CommitPermit, oldest: CheckpointId) -> None:
        self._leadership.require()
        self._store.trim(permit, oldest)

    def first_checkpoint_id(self, at_least: CheckpointId) -> CheckpointId:
        self._leadership.require()
        return self._store.first_checkpoint_id(at_least)

    def reserve_ids(self, permit: CommitPermit, end: CheckpointId) -> None:
        self._leadership.require()
        self._store.reserve_ids(permit, end)

    def close(self, permit: CommitPermit, *, terminal: bool) -> None:
        if terminal:
            self._leadership.require()
        self._store.close(permit, terminal=terminal)
