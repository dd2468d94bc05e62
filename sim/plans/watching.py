"""What came of a run, and the comparison of what a sink shows with DuckDB's answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headgate.testing.simulation.invariants import Violation
from sim.plans.plan import Plan
from sim.plans.queries import Answers
from sim.plans.stories import STORIES, Entry, Shown


@dataclass(slots=True)
class PlanOutcome:
    """How one run ended.

    Attributes:
        seed: that decided everything.
        plan: what ran.
        mode: the way of taking checkpoints.
        marks: how many answers were compared at marks.
        different: how many of them differed from the one before.
        restores: how often the job began anew.
        checkpoints: how many completed.
        violation: what was wrong.
    """

    seed: int
    plan: Plan
    mode: str
    marks: int = 0
    different: int = 0
    restores: int = 0
    checkpoints: int = 0
    violation: str | None = None

    def tell(self) -> str:
        """A failure with everything that is needed to look into it."""
        return (
            f"seed {self.seed}, {self.mode}, {self.restores} restores, {self.checkpoints} checkpoints:\n"
            f"  {self.violation}\n{self.plan.describe()}\n"
            f"again: python -m sim.plans --seed {self.seed}"
        )


class Watch:
    """Compares what one sink shows with the answers; `alone`: it has one subtask, so each mark is whole."""

    def __init__(self, outcome: PlanOutcome, uid: str, answers: Answers, *, alone: bool) -> None:
        self.uid, self._outcome, self._answers = uid, outcome, answers
        self._alone = alone
        self._before: Counter[str] | None = None

    def begins(self, committed: list[list[Entry]]) -> None:
        """A new attempt goes on from what was committed; its first mark names the counts of all splits."""
        self._shown, _, _ = _added(self.uid, committed)
        self._read, self._looked = dict[str, dict[int, int]](), 0

    def look(self) -> None:
        """Compare at every mark that came since the last call."""
        story = STORIES[self.uid].get(0)
        if story is None or not self._alone:
            return
        fresh, self._looked = story.entries[self._looked :], len(story.entries)
        self.follow(fresh)

    def follow(self, entries: Iterable[Entry]) -> None:
        """Take in what came next, and compare at every mark in it."""
        for entry in entries:
            if isinstance(entry, list):
                self._shown.add(entry)
            else:
                note(self._read, entry)
                self._compare(self._shown, self._read, "at a mark")

    def committed(self, parts: list[list[Entry]], *, whole: bool) -> None:
        """Compare what is visible after a commit; `whole`: all subtasks were at a mark."""
        if not (self._alone or whole):
            return
        shown, read, rest = _added(self.uid, parts)
        if rest:  # only at the end
            read = self._everything()
        self._compare(shown, read, f"committed{' with a rest' if rest else ''}")

    def ended(self, parts: list[list[Entry]]) -> None:
        """Compare what is visible at the end."""
        shown, _, _ = _added(self.uid, parts)
        self._compare(shown, self._everything(), "at the end")

    def _everything(self) -> dict[str, dict[int, int]]:
        plan = self._outcome.plan
        return {
            uid: {
                at // size: min(size, len(plan.rows[uid]) - at) for at in range(0, len(plan.rows[uid]), size)
            }
            for uid, size in plan.splits.items()
        }

    def _compare(self, shown: Shown, read: dict[str, dict[int, int]], when: str) -> None:
        got, right = shown.rows(), self._answers.of(self.uid, read)
        self._outcome.marks += 1
        if right != self._before:
            self._outcome.different += 1
            self._before = right
        if got != right:
            raise Violation(
                f"sink {self.uid!r} {when} of rows {read}: missing {_some(right - got)}, "
                f"too many {_some(got - right)}"
            )


def _added(uid: str, parts: Iterable[list[Entry]]) -> tuple[Shown, dict[str, dict[int, int]], bool]:
    shown, read, rest = Shown(uid), dict[str, dict[int, int]](), False
    for part in parts:
        rest = False
        for entry in part:
            rest = isinstance(entry, list)
            if isinstance(entry, list):
                shown.add(entry)
            else:
                note(read, entry)
    return shown, read, rest


def note(read: dict[str, dict[int, int]], rows: Any) -> None:
    """Add the counts of a mark to what was read."""
    for (uid, split), count in rows.items():
        read.setdefault(uid, {})[int(split)] = count


def _some(rows: Counter[str]) -> str:
    return f"{sorted(rows.items())[:4]}{'...' if len(rows) > 4 else ''}"
