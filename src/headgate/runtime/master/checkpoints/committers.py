"""The sinks' committers, which run in the driver: they publish the output of completed checkpoints.

A commit is ordered by `core.checkpoint.publishing` once its checkpoint is in the log.

Before the first commit the lineage of the job's output is decided: if an old snapshot is restored after newer
output was committed, the user's choice says what happens to that. Output is only removed (taken back) once
the restore is certain, when all subtasks run; until then nothing is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from headgate.api.sink import Fork, Lineage, SinkCommitter, SinkCommitterContext
from headgate.common.errors import OperatingError, UsageError
from headgate.common.ids import Generation, JobId
from headgate.common.settings.options import OLDER_SNAPSHOT, OlderSnapshot
from headgate.graph.logical import SinkNode
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.job.lineage import lineage_of
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import blamed
from headgate.runtime.master.checkpoints.commit_times import CommitTimes
from headgate.state.snapshots import CheckpointMetadata, OperatorSubtaskState

Operators = Mapping[str, Sequence[OperatorSubtaskState]]

_LOG: Final = logging.getLogger("headgate.checkpoints")

_CHOICES: Final = (
    f"begin from a newer snapshot, or set {OLDER_SNAPSHOT.key} to take-back (what was committed after the "
    "snapshot is removed) or to new-lineage (output goes on beside it)"
)


class Committers:
    """The committers of a job's two-phase sinks. For the background thread only (but :meth:`interrupt`).

    `older` is the user's choice for output that was committed after the restored snapshot: refuse the
    restore, take that output back, or begin a new lineage. The first :meth:`recommit` decides the lineage of
    the job's output. Errors that a sink's committer raises name the sink.
    """

    def __init__(
        self,
        job: JobId,
        generation: Generation | int,
        plan: PhysicalPlan,
        older: OlderSnapshot,
        times: CommitTimes | None = None,
    ) -> None:
        self._job, self._generation, self._older = job, generation, older
        self._times = times
        self.lineage, self._begun = Lineage(job), False
        self._owed: tuple[Lineage, CheckpointMetadata] | None = None
        self._names = {node.known_as: node.name for node in _sinks_in(plan)}
        self._by_uid = committers_in(plan)

    def recommit(
        self, restored: CheckpointMetadata | None, others: Sequence[CheckpointMetadata] = ()
    ) -> None:
        """Commit the restored snapshot's output again, and have sinks abandon all other pending output.

        Called before each attempt begins; the first call decides the lineage. If output must be taken
        back, that and the commit wait for :meth:`settle`. Output of `others`, checkpoints of other jobs of
        the lineage, is kept, since they may be restored, too.

        Raises UsageError if `older` refuses the restore because sinks have committed output after `restored`,
        or a sink cannot take it back; OperatingError if that cannot be found out, or done, now.
        """
        if not self._begun:
            self._begin(restored)
        owed = self._owed
        if owed is not None and restored is not None and restored.job == self._job != owed[1].job:
            self.settle()  # from its own checkpoint: the restore was sure
        operators = {} if restored is None else restored.operators
        if self._owed is None:
            self.commit(operators)
        for uid, committer in self._by_uid.items():
            kept = [each for other in others for each in committables_of(other, uid)]
            with self._blamed(uid, "in abandon()"):
                committer.abandon([*_committables(operators.get(uid, ())), *kept])

    @property
    def owes(self) -> bool:
        """Whether output must be taken back (removed) as soon as the restore is certain."""
        return self._owed is not None

    def settle(self) -> None:
        """Take back (remove) output committed after the restored snapshot, then commit the snapshot's output.
        Called when the restore is certain. Raises OperatingError if it could not be done yet; call it again.
        """
        if self._owed is None:
            return
        lineage, restored = self._owed
        for uid, committer in self._by_uid.items():
            with self._blamed(uid, "in take_back()"):
                committer.take_back(self._context(uid, lineage))
        self._owed = None
        self.commit(restored.operators)

    def require_settled(self) -> None:
        """Raise OperatingError while output must still be taken back (removed): nothing may be committed."""
        if self._owed is not None:
            raise OperatingError(
                "output that came after the restored snapshot is not yet taken back; nothing is committed "
                "before that"
            )

    def check(self, restored: CheckpointMetadata) -> None:
        """Raise the errors that :meth:`recommit` would raise for this snapshot, but change nothing."""
        lineage, own = lineage_of(self._job, restored), restored.job == self._job
        if not own:
            lineage = self._decided(lineage, restored)
        for uid, committer in self._by_uid.items():
            with self._blamed(uid, "in check_restore()"):
                committer.check_restore(self._context(uid, lineage), committables_of(restored, uid), own)

    def go_back(self, restored: CheckpointMetadata) -> None:
        """Prepare the restore of an older snapshot, newer ones being damaged, by the user's choice, `older`.
        The lineage stays: by `new-lineage` output committed since stays next to new output. Raises UsageError
        if the choice is to refuse and there is output newer than `restored`, or a sink cannot take it back.
        """
        lineage = lineage_of(self._job, restored)
        history = Lineage(lineage.id, (*lineage.forks, fork_of(restored)))
        self._settled(history, restored)

    def require_nothing_newer(
        self, restored: CheckpointMetadata | None, perhaps: Sequence[CheckpointMetadata]
    ) -> list[str]:
        """Check whether sinks committed output of checkpoints that the job's log does not list (any more).

        If so, the log has lost entries: the user's choice applies as in :meth:`go_back`, and UsageError is
        raised if it is to refuse, or to take back with nothing restored. `perhaps`: checkpoints that are in
        the storage and not in the log. Return the uids of sinks that do not know what they committed.
        """
        lineage = lineage_of(self._job, restored)
        # Of what this job has committed only what it restores is history.
        own = restored is not None and restored.job == self._job
        fork = fork_of(restored) if restored is not None and own else Fork(self._job, 0, 0, 0)
        history = Lineage(lineage.id, (*lineage.forks, fork))
        newer = self._newer(history)
        if newer and self._older is OlderSnapshot.TAKE_BACK and restored is not None:
            self._settled(history, restored)
        elif newer and self._older is not OlderSnapshot.NEW_LINEAGE:
            uid, found = next(iter(newer.items()))
            begins = "nothing" if restored is None else f"{restored.kind} {restored.checkpoint}"
            raise UsageError(
                f"sink {uid!r} holds {found}, and {self._lost(restored, perhaps)}; to begin from {begins} "
                f"would publish that part twice, which {OLDER_SNAPSHOT.key}=new-lineage allows"
            )
        return [uid for uid, committer in self._by_uid.items() if not committer.tells_commits]

    def _lost(self, restored: CheckpointMetadata | None, perhaps: Sequence[CheckpointMetadata]) -> str:
        if not perhaps:
            return (
                f"nothing is left of the checkpoints of job {self._job!r}: is the disk of the checkpoint "
                "storage mounted, and is it the one of before"
            )
        ids = ", ".join(str(each.checkpoint) for each in perhaps)
        back = (
            "" if restored is None else f", or set {OLDER_SNAPSHOT.key}=take-back, which removes that output"
        )
        return (
            f"the log of job {self._job!r} has lost its newest entry: it does not name checkpoint {ids}; "
            f"begin another job from that one, by --from{back}"
        )

    def commit(self, operators: Operators) -> None:
        """Publish the output prepared in `operators` (a checkpoint's states by uid); published output stays.
        OperatingError: output must be taken back first (:meth:`settle`), or a sink cannot commit now.
        """
        self.require_settled()
        for uid, committer in self._by_uid.items():
            committables = _committables(operators.get(uid, ()))
            if committables:
                with self._timed(uid), self._blamed(uid, "in commit()"):
                    committer.commit(committables)

    def finish(self) -> None:
        for uid, committer in self._by_uid.items():
            with self._blamed(uid, "in finish()"):
                committer.finish()

    def hold(self, savepoint: CheckpointMetadata) -> None:
        """Have sinks keep `savepoint`'s pending output for a restore; called before the savepoint completes.
        Raises a sink's error: then the savepoint fails, and :meth:`release` is called.
        """
        for uid, committer in self._by_uid.items():
            committables = committables_of(savepoint, uid)
            if committables:
                with self._blamed(uid, "in hold()"):
                    committer.hold(committables, fork_of(savepoint))

    def release(self, savepoint: CheckpointMetadata) -> None:
        """Have sinks stop holding output for a failed savepoint; errors, which do no harm, are logged."""
        for uid, committer in self._by_uid.items():
            committables = committables_of(savepoint, uid)
            if committables:
                try:
                    committer.release(committables, fork_of(savepoint))
                except Exception as error:
                    _LOG.warning("sink %r keeps what a failed savepoint held: %s", uid, error)

    def interrupt(self) -> None:
        """Ask committers to end a running commit soon, as another driver took over; from any thread."""
        for committer in self._by_uid.values():
            committer.interrupt()

    def close(self) -> None:
        for committer in self._by_uid.values():
            committer.close()

    def _begin(self, restored: CheckpointMetadata | None) -> None:
        lineage = lineage_of(self._job, restored)
        if restored is not None and restored.job != self._job:
            lineage = self._settled(lineage, restored)
        for uid, committer in self._by_uid.items():
            with self._blamed(uid, "in begin()"):
                committer.begin(self._context(uid, lineage))
        self.lineage, self._begun = lineage, True

    def _blamed(self, uid: str, doing: str) -> AbstractContextManager[None]:
        return blamed(OperatorContext(uid, self._names[uid], 0, 1, 0, self._job, 0, clock=None), doing)

    def _timed(self, uid: str) -> AbstractContextManager[None]:
        return nullcontext() if self._times is None else self._times.measured(uid)

    def _context(self, uid: str, lineage: Lineage) -> SinkCommitterContext:
        return SinkCommitterContext(uid, self._job, self._generation, lineage)

    def _settled(self, lineage: Lineage, restored: CheckpointMetadata) -> Lineage:
        decided = self._decided(lineage, restored)
        if self._older is OlderSnapshot.TAKE_BACK:
            self._owed = lineage, restored
        return decided

    def _decided(self, lineage: Lineage, restored: CheckpointMetadata) -> Lineage:
        # The lineage that the user's choice leads to; refused where it leads nowhere.
        if self._older is OlderSnapshot.TAKE_BACK:
            self._refuse_unable()
            return lineage
        newer = self._newer(lineage)
        if not newer:
            return lineage
        if self._older is OlderSnapshot.NEW_LINEAGE:
            return Lineage(self._job, lineage.forks)
        uid, found = next(iter(newer.items()))
        raise UsageError(
            f"sink {uid!r} holds more than {restored.kind} {restored.checkpoint} of job {restored.job!r} "
            f"knows of: {found}; to begin from it would publish that part twice; {_CHOICES}"
        )

    def _newer(self, lineage: Lineage) -> dict[str, str]:
        return {
            uid: found
            for uid, committer in self._by_uid.items()
            if (found := committer.committed_after(self._context(uid, lineage))) is not None
        }

    def _refuse_unable(self) -> None:
        for uid, committer in self._by_uid.items():
            if not committer.takes_back:
                raise UsageError(
                    f"sink {uid!r} ({type(committer).__name__}) cannot take back what it has committed, and "
                    f"{OLDER_SNAPSHOT.key} is {OlderSnapshot.TAKE_BACK.value}; choose "
                    f"{OlderSnapshot.REFUSE.value} or {OlderSnapshot.NEW_LINEAGE.value}"
                )


def committers_in(plan: PhysicalPlan) -> dict[str, SinkCommitter]:
    """Return a new committer by uid for each sink of the plan that has one; other sinks are left out."""
    made = {node.known_as: node.sink.create_committer() for node in _sinks_in(plan)}
    return {uid: committer for uid, committer in made.items() if committer is not None}


def _sinks_in(plan: PhysicalPlan) -> list[SinkNode]:
    return [node for vertex in plan.vertices for node in vertex.chain if isinstance(node, SinkNode)]


def committables_of(snapshot: CheckpointMetadata, uid: str) -> list[Any]:
    """Return the committables (pending output) of sink `uid` in a snapshot; []: it has none there."""
    return _committables(snapshot.operators.get(uid, ()))


def fork_of(snapshot: CheckpointMetadata) -> Fork:
    """Return a snapshot's identity as sinks record it with committed output: job, generation, attempt, id."""
    return Fork(snapshot.job, snapshot.generation, snapshot.attempt, snapshot.checkpoint)


def _committables(states: Sequence[OperatorSubtaskState]) -> list[Any]:
    return [entry for state in states for entry in state.committables]
