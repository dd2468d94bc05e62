"""Searches every interleaving of the job model, up to a number of events or to the last new state."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from job_model import Case, Node, first, moves, step

from headgate.core.job.table import MOVES, Phase, Row


@dataclass
class Found:
    """What a search has met.

    Attributes:
        states: how many different ones; a state is known by the hash of all that decides.
        phases: of the machine.
        rows: (phase, row) that were taken.
        deep: most events that led to a new state.
    """

    states: int
    phases: set[Phase]
    rows: set[tuple[Phase, Row]]
    deep: int = 0


def search(case: Case, start: Node, depth: int | None) -> Found:
    """Every state that is reachable within `depth` events; None: until there is no new one."""
    seen, found = {hash(start.key())}, Found(1, {start.core.phase}, set())
    queue = deque([(start, 0)])
    # Without a limit the newest state goes first: there are never many that wait.
    take = queue.pop if depth is None else queue.popleft
    while queue:
        node, deep = take()
        if depth is not None and deep == depth:
            continue
        for move in moves(node, case):
            try:
                after = step(node, case, move)
            except Exception as error:
                path = ", ".join("/".join(each) for each in (*node.path, move))
                raise AssertionError(f"after {path}: {error}") from error
            found.rows |= {(node.core.phase, row) for row in after.core.rows}
            key = hash(after.key())
            if key not in seen:
                seen.add(key)
                found.phases.add(after.core.phase)
                found.deep = max(found.deep, deep + 1)
                queue.append((after, deep + 1))
    found.states = len(seen)
    return found


def whole(case: Case) -> None:
    """Search until there is no new state, and check that nearly every row was taken."""
    found = search(case, first(case), None)
    assert found.states > 200_000
    assert len(found.rows) > 0.9 * len(MOVES)
