"""Patterns over keyed streams, by functions: against trying all ways, and across savepoints."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from mini_jobs import TINY, environment, json_lines
from running_jobs import Valve, wait_until

import headgate.patterns as P  # noqa: N812
from headgate.api.patterns.pattern import GAP
from headgate.common.errors import PlanError
from headgate.nexmark.all_ways import Match, all_ways_matches
from headgate.relational.patterns.shapes import variables_of

NUMBERS = count(9600)
Row = dict[str, Any]
begin = P.Pattern.begin


def low(row: Row) -> bool:
    """The value is small."""
    return bool(row["v"] < 2)


def high(row: Row) -> bool:
    """The value is large."""
    return bool(row["v"] > 2)


def rises(row: Row, matched: Any) -> bool:
    """The value is above that of the last record of stage "a"."""
    return bool(row["v"] > matched["a"][-1]["v"])


PATTERNS: dict[str, P.Pattern] = {
    "next": begin("a").where(low).next("b").where(high),
    "followed by": begin("a").where(low).followed_by("b").where(high).within("40ms"),
    "any": begin("a").where(low).followed_by_any("b").where(high).next("c").where(low).within("60ms"),
    "loop": begin("a").where(low).one_or_more().next("b").where(high).skip_to_next(),
    "greedy": begin("a").where(low).one_or_more().greedy().followed_by("b").where(high).within("50ms"),
    "consecutive": begin("a").where(low).times(2, 3).consecutive().greedy().next("b").where(high),
    "optional": begin("a").where(low).next("b").where(low).optional().next("c").where(rises),
    "or": begin("a").where(low).or_where(high).next("b").where(rises).skip_to_last("b"),
    "times": begin("a").times_or_more(3).within("30ms").skip_to_first("a"),
}


def rows_of(seed: int) -> list[Row]:
    """Records up to 20 ms out of order, of which none has the time of another one."""
    chance = random.Random(seed)
    rows = [{"at": 4 * n, "k": chance.randrange(3), "v": chance.randrange(5)} for n in range(200)]
    return sorted(rows, key=lambda row: row["at"] + chance.randrange(20))


def answer(pattern: P.Pattern, rows: list[Row]) -> list[tuple[Any, ...]]:
    """(key, times of each stage's records) of all matches."""
    stages, rules, found = {stage.name: stage for stage in pattern.stages}, pattern.rules("x"), []
    for key in sorted({row["k"] for row in rows}):
        mine = sorted((row for row in rows if row["k"] == key), key=lambda row: row["at"])

        def fits(name: str, at: int, before: Match, mine: list[Row] = mine) -> bool:
            known = {
                each: [mine[row] for other, row in before if other == each]
                for each in variables_of(rules.shape)
            }
            tests = stages[name].tests
            return any(
                all(each(mine[at], known) if each is rises else each(mine[at]) for each in some)  # type: ignore[operator, call-arg]
                for some in tests
            )

        def holds(name: str, at: int, before: Match, fits: Callable[..., bool] = fits) -> bool:
            stage = stages[name.removeprefix(GAP)]
            gap = name.startswith(GAP)
            return (stage.gap == "any" and gap) or fits(stage.name, at, before) is not gap

        for match in all_ways_matches(rules, [row["at"] for row in mine], holds):
            found.append((key, tuple((name, mine[row]["at"]) for name, row in match if GAP not in name)))
    return sorted(found)


def shown(match: dict[str, list[Row]]) -> Row:
    """A match as a record."""
    times = [[name, row["at"]] for name, rows in match.items() for row in rows]
    return {"k": next(iter(match.values()))[0]["k"], "times": times}


def job(
    folder: Path, pattern: P.Pattern, parallelism: int, rows: list[Row], limit: float = float("inf")
) -> Any:
    """A job that finds a pattern."""
    env = environment(parallelism, {**TINY, "restart-strategy.type": "none"})
    env.checkpoints(every="10ms", storage=str(folder / "checkpoints"))
    stream = env.from_source(Valve(next(NUMBERS), limit, rows), uid="rows")
    timed = stream.with_event_time("at", "30ms")
    timed.key_by("k").match(pattern).select(shown, uid="found").write_json(str(folder / "out"), uid="out")
    return env


def published(folder: Path) -> list[tuple[Any, ...]]:
    """What the sink has committed."""
    rows = json_lines(folder / "out")
    return sorted((row["k"], tuple((name, at) for name, at in row["times"])) for row in rows)


@pytest.mark.parametrize("name", PATTERNS)
def test_matches_are_those_of_all_ways(tmp_path: Path, name: str) -> None:
    """Records come out of order; and there are some matches."""
    rows = rows_of(len(name))
    job(tmp_path, PATTERNS[name], 2, rows).execute("patterns")
    expected = answer(PATTERNS[name], rows)
    assert published(tmp_path) == expected
    assert expected


@pytest.mark.parametrize("name", ["greedy", "optional", "times"])
def test_partial_matches_are_in_a_savepoint(tmp_path: Path, name: str) -> None:
    """Half of the records before it, half after it, at another parallelism."""
    rows = rows_of(7)
    env = job(tmp_path, PATTERNS[name], 2, rows, 100)
    with env.execute_async("patterns") as handle:
        wait_until(lambda: handle.done or _read(handle) == 100, "the valve's records came")
        uri = handle.stop(str(tmp_path / "savepoints"))
        handle.result()
    again = job(tmp_path, PATTERNS[name], 3, rows)
    again.execute("patterns", restore_from=unquote(urlsplit(uri).path))
    assert published(tmp_path) == answer(PATTERNS[name], rows)


def _read(handle: Any) -> int:
    return sum(vertex.records_in for vertex in handle.status().vertices if "rows" in vertex.uids)


@pytest.mark.parametrize(("made", "said"), [
    (lambda: begin("a").next("a"), "called 'a'"),
    (lambda: begin("a").times(3, 2), "not fewer"),
    (lambda: begin("a").within(0), "above 0"),
    (lambda: begin("a").skip_to_first("b"), "no stage 'b'"),
    (lambda: begin("a").where(3), "a function"),  # type: ignore[arg-type]
    (lambda: begin("a").optional().rules("match()"), "without any row"),
])  # fmt: skip
def test_patterns_without_meaning_are_refused(made: Callable[[], object], said: str) -> None:
    """When they are written."""
    with pytest.raises(PlanError, match=said):
        made()
