"""The life of a job: every state can be reached, every life ends, and nothing leaves the end."""

from __future__ import annotations

import itertools
import re

import pytest

from headgate.common.errors import InternalError
from headgate.core import execution
from headgate.core.execution import MOVES, JobEvent, JobState, job_machine


def reachable(start: JobState) -> set[JobState]:
    """All states that some sequence of events leads to."""
    seen, ahead = {start}, [start]
    while ahead:
        state = ahead.pop()
        for (source, _), target in MOVES.items():
            if source is state and target not in seen:
                seen.add(target)
                ahead.append(target)
    return seen


def test_every_state_can_be_reached() -> None:
    """The table has no state that no history leads to."""
    assert reachable(JobState.CREATED) == set(JobState)


def test_every_life_can_end_and_the_end_is_final() -> None:
    """From each state some end can be reached; from an end nothing leads away."""
    for state in JobState:
        ends = {end for end in reachable(state) if end.terminal}
        assert ends, state
        if state.terminal:
            assert reachable(state) == {state}


def test_a_job_that_waits_for_its_workers_ends_as_it_was_decided() -> None:
    """Once finishing, a job can only finish; once failing it may still be cancelled, never run again."""
    assert {s for s in reachable(JobState.FINISHING) if s.terminal} == {JobState.FINISHED}
    assert reachable(JobState.FAILING) == {
        JobState.FAILING,
        JobState.FAILED,
        JobState.CANCELLING,
        JobState.CANCELLED,
    }
    assert {s for s in reachable(JobState.CANCELLING) if s.terminal} == {JobState.CANCELLED}
    for state in JobState:
        assert state.ending == (state.value.endswith("ing") and JobEvent.GONE in events_of(state))


def events_of(state: JobState) -> set[JobEvent]:
    """What may happen in a state."""
    return {event for source, event in MOVES if source is state}


def test_failures_and_cancels_are_taken_wherever_something_runs() -> None:
    """Failing, giving up and cancelling are legal in each state in which workers may be at work."""
    for state in (JobState.STARTING, JobState.DEPLOYING, JobState.RUNNING, JobState.RECOVERING):
        assert {JobEvent.FAIL, JobEvent.GIVE_UP, JobEvent.CANCEL} <= events_of(state)
    assert JobEvent.FAIL not in events_of(JobState.FINISHING)


@pytest.mark.parametrize(("state", "event"), list(itertools.product(JobState, JobEvent)), ids=str)
def test_only_listed_moves_are_made(state: JobState, event: JobEvent) -> None:
    """A listed move changes the state as listed; any other raises with the history and changes nothing."""
    machine = job_machine("j")
    for step in path_to(state):
        machine.move(step)
    expected = MOVES.get((state, event))
    if expected is not None:
        assert machine.move(event) is expected
        return
    with pytest.raises(InternalError, match=f"cannot take {event.value} while {state.value}; history"):
        machine.move(event)
    assert machine.state is state


def path_to(state: JobState) -> list[JobEvent]:
    """A shortest history that leads to a state."""
    ahead: list[tuple[JobState, list[JobEvent]]] = [(JobState.CREATED, [])]
    seen = {JobState.CREATED}
    for here, path in ahead:
        if here is state:
            return path
        for (source, event), target in MOVES.items():
            if source is here and target not in seen:
                seen.add(target)
                ahead.append((target, [*path, event]))
    raise AssertionError(f"{state} cannot be reached")


def test_the_documented_table_is_the_table() -> None:
    """The module's drawing lists each event of the table, with the states that it leads to."""
    drawn = execution.__doc__ or ""
    for (_, event), target in MOVES.items():
        pattern = rf"--{re.escape(event.value)}-->\s+{target.value}|stays in {target.value}"
        assert re.search(pattern, drawn) or target.value == "cancelling", (event, target)
