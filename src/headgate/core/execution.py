"""The life of a job as a table: which state follows which event. Decides nothing else.

::

    created     --submit-->    starting     a gang was asked for; its workers register
    starting    --complete-->  deploying    every slot has a worker; plan and state go out
    deploying   --complete-->  running      every subtask runs
    running     --ended-->     finishing    the last checkpoint or savepoint is committed; workers leave
    finishing   --gone-->      finished
    starting | deploying | running  --fail-->  recovering   the attempt is being ended
    recovering  --submit-->    starting     with a new gang
    recovering  --redeploy-->  deploying    into the living gang
    running     --rescale-->   rescaling    the attempt is being ended behind a checkpoint, on demand
    rescaling   --submit-->    starting     with a new gang of another size
    rescaling   --redeploy-->  deploying    into the living gang, which has the right size
    rescaling   --fail-->      recovering   the checkpoint or the gang was lost; the old size again
    any of these --give up-->  failing      no restart any more
    any of these --cancel-->   cancelling   the user's wish
    failing     --gone-->      failed
    cancelling  --gone-->      cancelled

Failures after "ended" change nothing: the output is committed. A failure while recovering is told, but
changes nothing; only a recovery that fails itself asks the restart strategy again. What makes a
rescaling succeed, or return to the old parallelism, is in `docs/machines/job.md`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from headgate.core.machine import Machine


class JobState(Enum):
    """Where a job is in its life."""

    CREATED = "created"
    STARTING = "starting"
    DEPLOYING = "deploying"
    RUNNING = "running"
    RECOVERING = "recovering"
    RESCALING = "rescaling"
    FINISHING = "finishing"
    FAILING = "failing"
    CANCELLING = "cancelling"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether the job is over."""
        return self in (JobState.FINISHED, JobState.FAILED, JobState.CANCELLED)

    @property
    def ending(self) -> bool:
        """Whether the job only waits for its workers to leave."""
        return self in (JobState.FINISHING, JobState.FAILING, JobState.CANCELLING)

    @property
    def between_attempts(self) -> bool:
        """Whether one attempt is being ended and the next one waits for that."""
        return self in (JobState.RECOVERING, JobState.RESCALING)


class JobEvent(Enum):
    """What moves a job."""

    SUBMIT = "submit"
    COMPLETE = "complete"
    FAIL = "fail"
    RESCALE = "rescale"
    REDEPLOY = "redeploy"
    ENDED = "ended"
    GIVE_UP = "give up"
    CANCEL = "cancel"
    GONE = "gone"


_LIVE: Final = (JobState.STARTING, JobState.DEPLOYING, JobState.RUNNING)
_BETWEEN: Final = (JobState.RECOVERING, JobState.RESCALING)

MOVES: Final[dict[tuple[JobState, JobEvent], JobState]] = {
    (JobState.CREATED, JobEvent.SUBMIT): JobState.STARTING,
    (JobState.STARTING, JobEvent.COMPLETE): JobState.DEPLOYING,
    (JobState.DEPLOYING, JobEvent.COMPLETE): JobState.RUNNING,
    (JobState.RUNNING, JobEvent.ENDED): JobState.FINISHING,
    (JobState.RECOVERING, JobEvent.FAIL): JobState.RECOVERING,
    (JobState.RECOVERING, JobEvent.SUBMIT): JobState.STARTING,
    (JobState.RECOVERING, JobEvent.REDEPLOY): JobState.DEPLOYING,
    (JobState.RUNNING, JobEvent.RESCALE): JobState.RESCALING,
    (JobState.RESCALING, JobEvent.FAIL): JobState.RECOVERING,
    (JobState.RESCALING, JobEvent.SUBMIT): JobState.STARTING,
    (JobState.RESCALING, JobEvent.REDEPLOY): JobState.DEPLOYING,
    (JobState.FINISHING, JobEvent.GONE): JobState.FINISHED,
    (JobState.FAILING, JobEvent.GONE): JobState.FAILED,
    (JobState.CANCELLING, JobEvent.GONE): JobState.CANCELLED,
    (JobState.CANCELLING, JobEvent.CANCEL): JobState.CANCELLING,
    **{(state, JobEvent.FAIL): JobState.RECOVERING for state in _LIVE},
    **{(state, JobEvent.GIVE_UP): JobState.FAILING for state in (JobState.CREATED, *_LIVE, *_BETWEEN)},
    **{
        (state, JobEvent.CANCEL): JobState.CANCELLING
        for state in (JobState.CREATED, *_LIVE, *_BETWEEN, JobState.FAILING)
    },
}


def job_machine(job: str) -> Machine[JobState, JobEvent]:
    """The machine of one job."""
    return Machine(f"job {job}", JobState.CREATED, MOVES)
