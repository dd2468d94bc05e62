"""Patterns over the records of a keyed stream, whose conditions are functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.common.time import duration_ms
from headgate.relational.patterns.shapes import Pattern as Rules
from headgate.relational.patterns.shapes import Repeat, Series, Shape, Skip, Variable, check_shape

Matched: TypeAlias = "Mapping[str, Sequence[Any]]"
"""The records of a match, or of its beginning, by the names of the stages, in the order of event time."""
Condition: TypeAlias = "Callable[[Any], object] | Callable[[Any, Matched], object]"
"""Says of a record whether it fits; with two parameters it gets the records that were matched before, too."""

GAP: Final = "gap before "
"""What the name of a variable begins with that stands for the records between two stages."""


@dataclass(frozen=True)
class Stage:
    """One step of a pattern. `gap`: which records may lie before it, and between its own: "none", those that
    do not fit it ("other"), or "any". `tests`: a record fits if all functions of one of these lists say so.
    """

    name: str
    gap: Literal["none", "other", "any"]
    tests: tuple[tuple[Condition, ...], ...] = ((),)
    low: int = 1
    high: int | None = 1
    optional: bool = False
    greedy: bool = False
    consecutive: bool = False

    @property
    def shape(self) -> Shape:
        """The stage as a part of a pattern."""
        one, gap = Variable(self.name), Repeat(Variable(GAP + self.name), 0, None, greedy=False)
        more = one if self.consecutive else Series((gap, one))
        found: Shape = one
        if (self.low, self.high) != (1, 1):
            high = None if self.high is None else self.high - 1
            found = Series((one, Repeat(more, self.low - 1, high, self.greedy)))
        if self.gap != "none":
            found = Series((gap, found))
        return Repeat(found, 0, 1, self.greedy) if self.optional else found


class Pattern:
    """A series of stages that records of one key pass, in the order of event time; names are those of Flink.

    Of all matches that begin with a record one counts, as in :meth:`Table.match`. Quantifiers take as few
    records as they can, unless :meth:`greedy` follows them.

    Example:
        >>> import headgate as hg
        >>> import headgate.patterns as P
        >>> from headgate.testing import MiniCluster
        >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
        >>> logins = [("ada", 1, "bad"), ("ada", 2, "bad"), ("bob", 2, "bad"), ("ada", 3, "good")]
        >>> stream = env.from_collection(logins).with_event_time(lambda login: login[1], "1s")
        >>> guessed = P.Pattern.begin("bad").where(lambda login: login[2] == "bad").times(2).consecutive()
        >>> guessed = guessed.next("good").where(lambda login: login[2] == "good").within("1min")
        >>> found = stream.key_by(lambda login: login[0]).match(guessed)
        >>> found.select(lambda match: (match["good"][0][0], len(match["bad"])), uid="guessed").collect()
        [('ada', 2)]
    """

    def __init__(
        self, stages: tuple[Stage, ...], within_ms: int | None, skip: Skip, skip_to: str | None
    ) -> None:
        self.stages, self._within_ms, self._skip, self._skip_to = stages, within_ms, skip, skip_to

    @staticmethod
    def begin(name: str) -> Pattern:
        """Return a pattern whose first stage is `name`."""
        return Pattern((Stage(name, "none"),), None, Skip.PAST_LAST_ROW, None)

    def next(self, name: str) -> Pattern:
        """Add a stage whose first record comes right after the last one of the stage before."""
        return self._added(name, "none")

    def followed_by(self, name: str) -> Pattern:
        """Add a stage before which records may lie that do not fit it."""
        return self._added(name, "other")

    def followed_by_any(self, name: str) -> Pattern:
        """Add a stage before which any records may lie, as few as the rest of the pattern allows."""
        return self._added(name, "any")

    def where(self, condition: Condition) -> Pattern:
        """Let only records into this stage for which `condition` is true, and those given before are. It gets
        the record, and, if it has two parameters, the records matched so far by the names of stages.
        """
        _parameters(condition, "where")
        *others, last = self.stages[-1].tests
        return self._changed(tests=(*others, (*last, condition)))

    def or_where(self, condition: Condition) -> Pattern:
        """Let also records into this stage for which `condition` is true, whatever those before say."""
        _parameters(condition, "or_where")
        return self._changed(tests=(*self.stages[-1].tests, (condition,)))

    def times(self, low: int, high: int | None = None) -> Pattern:
        """Let this stage have `low` records, or `low` to `high`; PlanError for numbers without meaning."""
        high = low if high is None else high
        if low < 1 or high < low:
            raise PlanError(f"times() ({user_site()}) got {low} to {high}; expected 1 or more, and not fewer")
        return self._changed(low=low, high=high)

    def one_or_more(self) -> Pattern:
        """Let this stage have one record or more."""
        return self._changed(low=1, high=None)

    def times_or_more(self, low: int) -> Pattern:
        """Let this stage have `low` records or more."""
        return self.times(low)._changed(high=None)

    def optional(self) -> Pattern:
        """Let this stage be left out."""
        return self._changed(optional=True)

    def greedy(self) -> Pattern:
        """Let this stage have as many records as it can."""
        return self._changed(greedy=True)

    def consecutive(self) -> Pattern:
        """Let no record lie between those of this stage; without it others may that do not fit the stage."""
        return self._changed(consecutive=True)

    def within(self, duration: str | int) -> Pattern:
        """Let the last record come less than `duration` ("5s", or ms) after the first one."""
        try:
            within_ms = duration_ms(duration, "within")
        except (TypeError, ValueError) as error:
            raise PlanError(f"within() ({user_site()}): {error}") from None
        if within_ms <= 0:
            raise PlanError(f"within() ({user_site()}) got {duration!r}; expected a duration above 0")
        return Pattern(self.stages, within_ms, self._skip, self._skip_to)

    def skip_past_last_event(self) -> Pattern:
        """Let the next match begin after the last record of a match, which it does by default."""
        return Pattern(self.stages, self._within_ms, Skip.PAST_LAST_ROW, None)

    def skip_to_next(self) -> Pattern:
        """Let the next match begin after the first record of a match."""
        return Pattern(self.stages, self._within_ms, Skip.TO_NEXT_ROW, None)

    def skip_to_first(self, name: str) -> Pattern:
        """Let the next match begin with the first record of stage `name`, if that is not its own first."""
        return Pattern(self.stages, self._within_ms, Skip.TO_FIRST, self._known(name))

    def skip_to_last(self, name: str) -> Pattern:
        """Let the next match begin with the last record of stage `name`, if that is not the match's first."""
        return Pattern(self.stages, self._within_ms, Skip.TO_LAST, self._known(name))

    def rules(self, where: str) -> Rules:
        """Return the pattern's shape, time and skipping; PlanError, after `where`: it may match no record."""
        shape = Series(tuple(stage.shape for stage in self.stages))
        try:
            check_shape(shape)
        except PlanError as error:
            raise PlanError(f"{where}: {error}") from None
        return Rules(shape, self._within_ms, self._skip, self._skip_to)

    def _added(self, name: str, gap: Literal["none", "other", "any"]) -> Pattern:
        if name in [stage.name for stage in self.stages]:
            raise PlanError(f"two stages of a pattern ({user_site()}) are called {name!r}; rename one")
        stages = (*self.stages, Stage(name, gap))
        return Pattern(stages, self._within_ms, self._skip, self._skip_to)

    def _changed(self, **changes: Any) -> Pattern:
        stages = (*self.stages[:-1], replace(self.stages[-1], **changes))
        return Pattern(stages, self._within_ms, self._skip, self._skip_to)

    def _known(self, name: str) -> str:
        names = [stage.name for stage in self.stages]
        if name not in names:
            raise PlanError(f"a pattern ({user_site()}) has no stage {name!r}, only {', '.join(names)}")
        return name


def _parameters(condition: Condition, verb: str) -> int:
    if not callable(condition):
        raise PlanError(f"{verb}() ({user_site()}) got {condition!r:.80}; expected a function of a record")
    return takes(condition)


def takes(condition: Condition) -> int:
    """Return how many parameters a condition has, 1 or 2."""
    try:
        found = list(inspect.signature(condition).parameters.values())
    except (TypeError, ValueError):  # a built-in function
        return 1
    needed = [each for each in found if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    return 2 if len(needed) == 2 else 1
