"""The public words of a job's state: each is reached, and an end stays an end."""

from __future__ import annotations

from headgate.core.execution import JobState
from headgate.core.job.questions import word
from headgate.core.job.state import Cause, OutcomeKind
from headgate.core.job.table import MOVES, Phase

LIVING = [(phase, None) for phase in Phase if phase not in (Phase.LEAVING, Phase.OVER)]
ENDING = [(phase, kind) for phase in (Phase.LEAVING, Phase.OVER) for kind in OutcomeKind]


def test_every_word_is_said_and_no_other() -> None:
    """Each public word belongs to some phase, cause and outcome."""
    said = {word(phase, cause, kind) for phase, kind in [*LIVING, *ENDING] for cause in Cause}
    assert said == set(JobState)


def test_words_of_the_end_are_those_of_the_outcome() -> None:
    """Whatever the attempt was begun for; only over is an end, and nothing leads away from it."""
    for phase, kind in ENDING:
        words = {word(phase, cause, kind) for cause in Cause}
        assert len(words) == 1
        (said,) = words
        assert (said.terminal, said.ending) == (phase is Phase.OVER, phase is Phase.LEAVING)
    assert {after for (before, _), after in MOVES.items() if before is Phase.OVER} == {Phase.OVER}
    assert {after for (before, _), after in MOVES.items() if before is Phase.LEAVING} == {
        Phase.LEAVING,
        Phase.OVER,
    }


def test_what_lies_between_two_attempts_is_called_by_its_cause() -> None:
    """A first start, a rescale, and everything else."""
    for phase in (Phase.QUIESCING, Phase.RESTORING):
        assert [word(phase, cause, None) for cause in Cause] == [
            JobState.STARTING,
            JobState.RECOVERING,
            JobState.RESCALING,
            JobState.RECOVERING,
        ]
