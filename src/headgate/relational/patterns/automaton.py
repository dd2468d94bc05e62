"""Turns a pattern into states, in each of which the next row has to fulfil one variable's condition."""

from __future__ import annotations

from typing import Final, NamedTuple

from headgate.relational.patterns.shapes import Either, Repeat, Series, Shape, Variable

END: Final = -1
"""In place of a state: the pattern has been matched."""


class Automaton(NamedTuple):
    """A pattern as states. Where several are possible, they stand in the order of preference.

    Attributes:
        variables: the names; a variable is known by its index here.
        waits_for: of each state, the variable.
        first: the states before the first row.
        after: of each state, those after a row that fulfils it; `END` among them.
    """

    variables: tuple[str, ...]
    waits_for: tuple[int, ...]
    first: tuple[int, ...]
    after: tuple[tuple[int, ...], ...]


def automaton_of(shape: Shape, variables: tuple[str, ...]) -> Automaton:
    """Return the states of a pattern that `check_shape` has let pass."""
    code = _Code(variables)
    code.add(shape)
    code.steps.append((END,))
    rows = [place for place, step in enumerate(code.steps) if len(step) == 1 and step != (END,)]
    state_at = {place: state for state, place in enumerate(rows)}
    waits_for = tuple(code.steps[place][0] for place in rows)
    after = tuple(_reached(code.steps, place + 1, state_at) for place in rows)
    return Automaton(variables, waits_for, _reached(code.steps, 0, state_at), after)


class _Code:
    # A step is (variable,), or two places to go to, the preferred one first.
    def __init__(self, variables: tuple[str, ...]) -> None:
        self.steps: list[tuple[int, ...]] = []
        self._index = {name: index for index, name in enumerate(variables)}

    def add(self, shape: Shape) -> None:
        match shape:
            case Variable():
                self.steps.append((self._index[shape.name],))
            case Series():
                for part in shape.parts:
                    self.add(part)
            case Either():
                self._add_either(shape)
            case Repeat():
                for _ in range(shape.low):
                    self.add(shape.part)
                if shape.high is None:
                    self._add_loop(shape)
                else:
                    self._add_optional(shape, shape.high - shape.low)

    def _add_either(self, shape: Either) -> None:
        ends = []
        for part in shape.options[:-1]:
            fork = self._hole()
            self.add(part)
            ends.append(self._hole())
            self.steps[fork] = (fork + 1, len(self.steps))
        self.add(shape.options[-1])
        for end in ends:
            self.steps[end] = (len(self.steps), len(self.steps))

    def _add_loop(self, shape: Repeat) -> None:
        fork = self._hole()
        self.add(shape.part)
        self.steps.append((fork, fork))
        self._fill(fork, shape.greedy)

    def _add_optional(self, shape: Repeat, times: int) -> None:
        forks = []
        for _ in range(times):
            forks.append(self._hole())
            self.add(shape.part)
        for fork in forks:
            self._fill(fork, shape.greedy)

    def _hole(self) -> int:
        self.steps.append(())
        return len(self.steps) - 1

    def _fill(self, fork: int, greedy: bool) -> None:
        inside, beyond = fork + 1, len(self.steps)
        self.steps[fork] = (inside, beyond) if greedy else (beyond, inside)


def _reached(steps: list[tuple[int, ...]], place: int, state_at: dict[int, int]) -> tuple[int, ...]:
    found: list[int] = []
    seen, left = set(), [place]
    while left:
        place = left.pop()
        if place in seen:
            continue
        seen.add(place)
        if steps[place] == (END,):
            found.append(END)
        elif place in state_at:
            found.append(state_at[place])
        else:
            left += reversed(steps[place])
    return tuple(found)
