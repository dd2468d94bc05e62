"""The keyed function that matches a pattern against records. State per key:

    rows    (event time in ms, number) -> a record that waits for the watermark, or belongs to a partial match

Partial matches follow from these records, and are made again of them after a restore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Final

from headgate.api.declared.keyed_states import MapState, map_state
from headgate.api.functions import KeyedContext, KeyedProcessFunction, OnTimerContext, RuntimeContext
from headgate.api.patterns.pattern import GAP, Condition, Pattern, Stage, takes
from headgate.api.windows.window_states import Storable, record_of, stored_record
from headgate.common.errors import UsageError
from headgate.common.hints import Hint
from headgate.relational.patterns.matcher import Found, Matcher, Question, Rules
from headgate.relational.patterns.remembered_rows import Wanted

Place = tuple[int, int]
"""Event time (ms) and number of a record, by which it is stored."""
_AT_END: Final = 2**63 - 2
"""The time of a timer that fires at the end of the data."""


class _Machine:
    # What is known of one key: its partial matches, and the records that they need by row number.
    def __init__(self, rules: Rules) -> None:
        self.matcher, self.next_row = Matcher(rules), 0
        self.places: dict[int, Place] = {}
        self.records: dict[int, Any] = {}
        self.timer: int | None = None


class PatternFunction(KeyedProcessFunction[Any, Any, Any]):
    """Matches a pattern for all keys of a subtask, and emits what `select` makes of each match.
    `storable` says how records are stored, `kept` is the type of a stored one.
    """

    rows: ClassVar[Any]  # declared by the class that `pattern_function` makes
    storable: Storable
    kept: Callable[..., Any]

    def __init__(self, pattern: Pattern, where: str, select: Callable[[dict[str, list[Any]]], Any]) -> None:
        self._pattern, self._rules_of, self._select = pattern, pattern.rules(where), select

    def open(self, context: RuntimeContext) -> None:
        self._where = context.uid
        self._stages = {stage.name: stage for stage in self._pattern.stages}
        conditions = [each for stage in self._pattern.stages for tests in stage.tests for each in tests]
        self._two = {id(each) for each in conditions if takes(each) == 2}
        names = Rules(self._rules_of, {}).variables
        wanted = {number: Wanted(all=True) for number in range(len(names))} if self._two else {}
        self._rules = Rules(self._rules_of, wanted)
        self._machines: dict[Any, _Machine] = {}

    def process(self, record: Any, ctx: KeyedContext[Any]) -> Iterable[Any]:
        time = ctx.timestamp
        if time is None:
            raise UsageError(
                f"the pattern {self._where!r} is matched in event time, and its records have none; call "
                "with_event_time() on the stream"
            )
        if time <= ctx.timers.current_watermark:
            return ()
        number = 0
        while (time, number) in self.rows:
            number += 1
        self.rows.put((time, number), self.kept(*self.storable.held(record)))
        ctx.timers.register_event_time(time)
        return ()

    def on_timer(self, timestamp: int, ctx: OnTimerContext[Any]) -> Iterable[Any]:
        machine = self._machines.get(ctx.key)
        known = set() if machine is None else set(machine.places.values())
        machine = machine or _Machine(self._rules)
        found: list[Found] = []
        due = sorted(place for place in self.rows if place[0] <= timestamp and place not in known)
        for place in due:
            found += self._step(machine, place)
        found += machine.matcher.expire(timestamp + 1)
        if timestamp == _AT_END:
            found += machine.matcher.end(timestamp)
        results = [self._select(self._by_stage(machine, each)) for each in found]
        self._forget(machine, ctx)
        return results

    def _step(self, machine: _Machine, place: Place) -> list[Found]:
        row, time = machine.next_row, place[0]
        machine.next_row += 1
        machine.places[row], machine.records[row] = place, record_of(*self.rows[place])
        found = machine.matcher.expire(time)
        questions = machine.matcher.questions(row)
        answers = [self._holds(machine, row, each) for each in questions]
        return found + machine.matcher.step(row, time, questions, answers)

    def _holds(self, machine: _Machine, row: int, question: Question) -> bool:
        name = self._rules.variables[question.variable]
        stage = self._stages[name.removeprefix(GAP)]
        if name.startswith(GAP):
            # Records of a loop are apart as those of a stage that follows.
            return stage.gap == "any" or not self._fits(machine, row, stage, question)
        return self._fits(machine, row, stage, question)

    def _fits(self, machine: _Machine, row: int, stage: Stage, question: Question) -> bool:
        record = machine.records[row]

        def true(condition: Condition) -> object:
            if id(condition) in self._two:
                return condition(record, self._before(machine, row, question))  # type: ignore[call-arg]
            return condition(record)  # type: ignore[call-arg]

        return any(all(map(true, tests)) for tests in stage.tests)

    def _before(self, machine: _Machine, row: int, question: Question) -> dict[str, list[Any]]:
        rows = self._rules.memories.rows
        return {
            name: [machine.records[each] for each in rows(question.memory, number) if each != row]
            for number, name in enumerate(self._rules.variables)
            if not name.startswith(GAP)
        }

    def _by_stage(self, machine: _Machine, found: Found) -> dict[str, list[Any]]:
        match: dict[str, list[Any]] = {}
        for variable, row in found.rows():
            name = self._rules.variables[variable]
            if not name.startswith(GAP):
                match.setdefault(name, []).append(machine.records[row])
        return match

    def _forget(self, machine: _Machine, ctx: OnTimerContext[Any]) -> None:
        kept, deadline = machine.matcher.kept_from, machine.matcher.deadline
        for row in list(_before_row(machine.places, kept)):
            self.rows.remove(machine.places.pop(row))
            del machine.records[row]
        timer = None if kept is None else (_AT_END if deadline is None else deadline - 1)
        if timer is not None and timer != machine.timer:
            ctx.timers.register_event_time(timer)
        machine.timer = timer
        if kept is None:
            self._machines.pop(ctx.key, None)
        else:
            self._machines[ctx.key] = machine


def _before_row(rows: Iterable[int], kept: int | None) -> Iterator[int]:
    for row in rows:
        if kept is not None and row >= kept:
            return
        yield row


def pattern_function(
    pattern: Pattern, hint: Hint | None, where: str, select: Callable[[dict[str, list[Any]]], Any]
) -> PatternFunction:
    """Return the function that matches `pattern` against records of the type `hint`, None if it is unknown.
    PlanError, after `where`: the pattern may match no record.
    """
    storable = Storable(hint, "a pattern")
    kept = stored_record("PatternRows", {"record": storable.hint, "row": bool})
    hints = {"rows": MapState[tuple[int, int], kept]}  # type: ignore[valid-type]
    body = {"__annotations__": hints, "rows": map_state(), "__module__": __name__}
    function: PatternFunction = type("PatternFunction", (PatternFunction,), body)(pattern, where, select)
    function.storable, function.kept = storable, kept
    return function
