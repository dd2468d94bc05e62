"""Searches every interleaving of the job model, up to a number of events or to the last new state."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from job_model import Case, Node, Path, clone, first, moves, step
from same_states import SHORT_LIMITS, merged, short_waits

from headgate.core.job.table import MOVES, Phase, Row

Same: TypeAlias = Callable[[Node], Node]


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


def search(case: Case, start: Node, depth: int | None, same: Same = lambda node: node) -> Found:
    """Every state that is reachable within `depth` events; None: until there is no new one.

    `same` puts one state in the place of all that count as one with it.
    """
    seen, found = {hash(start.key())}, Found(1, {start.core.phase}, set())
    queue = deque([(start, 0)])
    # Without a limit the newest state goes first: there are never many that wait.
    take = queue.pop if depth is None else queue.popleft
    while queue:
        node, deep = take()
        if depth is not None and deep == depth:
            continue
        for after in afters(node, case, same, found):
            key = hash(after.key())
            if key not in seen:
                seen.add(key)
                found.phases.add(after.core.phase)
                found.deep = max(found.deep, deep + 1)
                queue.append((after, deep + 1))
    found.states = len(seen)
    return found


def afters(node: Node, case: Case, same: Same, found: Found) -> Iterator[Node]:
    """The nodes after each event that may come next, but for those that are the node itself."""
    own, key = clone(node.core), node.key()
    for move in moves(node, case):
        try:
            after = same(step(node, case, move, own))
        except Exception as error:
            raise AssertionError(f"after {Path(move, node.path)}: {error}") from error
        found.rows |= {(node.core.phase, row) for row in after.core.rows}
        if after.key() != key or after.now != node.now:
            yield after
            own = clone(node.core)  # an event that changed nothing leaves the copy for the next one


def whole(case: Case) -> None:
    """Search until there is no new state, and check that nearly every row was taken."""
    case = replace(case, limits=SHORT_LIMITS, delay_ms=1, symmetric=False)
    with short_waits():
        found = search(case, first(case), None, merged)
    taken = found.rows & set(MOVES)
    print(f"{found.states} states, {len(taken)} of {len(MOVES)} moves, at most {found.deep} events deep")
    assert found.states > 200_000
    assert len(taken) > 0.9 * len(MOVES)
