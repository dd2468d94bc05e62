"""What cannot be replayed is refused by name, and the refusal says what to do instead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest
from replayed_jobs import Visits, environment, kept, replay_here, sink, visit

import headgate as hg
from headgate.connectors.generator import GeneratorSource, generator_source

COUNT = 300


class Dropped(GeneratorSource):
    """Stands for a source whose input is dropped once it is in a checkpoint."""

    rereadable = False


class Opened(Visits):
    """Counts how often it is opened."""

    opened: ClassVar[list[int]] = []

    def open(self, context: Any) -> None:
        self.opened.append(context.subtask)


class Measured(Visits):
    """Has metrics of its own, and an attribute."""

    def open(self, context: Any) -> None:
        self.seen = context.metrics.counter("seen")
        self.sizes, self.words = context.metrics.histogram("sizes"), {}


class Misleading(Visits):
    """Has a method that is called as metrics are, and is none."""

    def counter(self, name: str) -> None:
        Opened.opened.append(7)

    def open(self, context: Any) -> None:
        self.counter("seen")


def program(
    folder: Path, function: Any = None, source: Any = None, uid: str = "visits", **changes: Any
) -> hg.Environment:
    env = environment(folder)
    made = source or generator_source(visit, COUNT, 600, splits=1)
    visits = env.from_source(made, uid="in", **changes).with_event_time("t")
    if function == "async":
        visits = visits.map_async(answer, uid="asked")
    given = Visits() if isinstance(function, (str, type(None))) else function
    sink(visits.key_by("user").process(given, uid=uid))
    return env


@hg.blocking
class Waiting(Visits):
    """Waits for something."""


async def answer(record: dict) -> dict:
    return record


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job that has run."""
    folder = tmp_path_factory.mktemp("refused")
    program(folder).execute("visits")
    return folder


def test_an_operator_that_is_not_there(job: Path) -> None:
    """The keyed operators are listed."""
    with pytest.raises(hg.UsageError, match=r"no operator with uid 'visit'.*'visits'"):
        replay_here(program(job), "visit", "a", kept(job)[0])


def test_an_operator_without_keys(job: Path) -> None:
    """A source has no keys."""
    with pytest.raises(hg.UsageError, match=r"uid 'in'\) has no keys"):
        replay_here(program(job), "in", "a", kept(job)[0])


class Typed(hg.KeyedProcessFunction[int, dict, str]):
    """Declares numbers as its keys."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: dict, ctx: hg.KeyedContext[int]) -> Iterator[str]:
        yield str(ctx.key)


def test_a_key_of_another_type(job: Path) -> None:
    """Text where keys are numbers would find no state, and say nothing."""
    with pytest.raises(hg.UsageError, match=r"--key is of type str, .* keys of type int"):
        replay_here(program(job, Typed()), "visits", "42", kept(job)[0])


def test_a_snapshot_that_is_no_later_one(job: Path) -> None:
    """The end has to come after the beginning."""
    first, second, *_ = kept(job)
    with pytest.raises(hg.UsageError, match=r"expected a later one of the same run"):
        replay_here(program(job), "visits", "a", second, first)


def test_a_source_without_end(job: Path) -> None:
    """Something else has to end the replay; a number of records does."""
    endless = generator_source(visit, None, 3_000, split_size=1_000)
    with pytest.raises(hg.UsageError, match=r"uid 'in'\) has no end; .* --to, --count or --until failure"):
        replay_here(program(job, source=endless), "visits", "a", kept(job)[0])
    report = replay_here(program(job, source=endless), "visits", "a", kept(job)[0], count=3)
    assert report.ended == "stopped after 3 records"


def test_input_that_is_another_one(job: Path) -> None:
    """A source that does not know its recorded positions says why."""
    env = environment(job)
    sink(env.from_collection([visit(1)], uid="in").key_by("user").process(Visits(), uid="visits"))
    with pytest.raises(hg.UsageError, match=r"cannot go on from checkpoint .*; or give its records"):
        replay_here(env, "visits", "a", kept(job)[0])


def test_records_of_a_file_take_the_place_of_input_that_is_gone(job: Path, tmp_path: Path) -> None:
    """The source is named with the way out; with the records since the snapshot it gets the next state."""
    gone = Dropped(visit, COUNT, None, False, COUNT, None)
    exact, (first, second) = next(
        (report, pair)
        for pair in pairwise(kept(job))
        if (report := replay_here(program(job), "visits", "a", *pair)).steps
    )
    with pytest.raises(hg.UsageError, match=r"uid 'in'\) cannot go back .*--records FILE"):
        replay_here(program(job, source=gone), "visits", "a", first, second)
    records = tmp_path / "records.jsonl"
    times = [step.timestamp for step in exact.steps if step.kind == "record"]
    begun = min(time for time in times if time is not None)
    last = max(time for time in times if time is not None)
    records.write_text("".join(json.dumps(visit(n)) + "\n" for n in range(begun - 2, last + 3)))
    report = replay_here(program(job, source=gone), "visits", "a", first, second, records=str(records))
    of_records = [step.what for step in report.steps if step.kind == "record"]
    assert of_records == [step.what for step in exact.steps if step.kind == "record"]
    assert report.differences == []


def test_records_that_do_not_decode(job: Path, tmp_path: Path) -> None:
    """The line is named."""
    records = tmp_path / "records.jsonl"
    records.write_text('{"user": "a"}\n{"user"\n')
    with pytest.raises(hg.UsageError, match=r"records.jsonl, line 2: .*expected a JSON value"):
        replay_here(program(job), "visits", "a", kept(job)[0], records=str(records))


def test_metrics_of_ones_own_reach_nothing(job: Path) -> None:
    """A function that opens nothing else is replayed without leave."""
    assert replay_here(program(job, Measured()), "visits", "a", kept(job)[0]).steps


def test_functions_that_reach_outside_need_leave(job: Path) -> None:
    """`open()` and blocking functions run only if allowed; then once, for the subtask that owns the key."""
    first = kept(job)[0]
    with pytest.raises(hg.UsageError, match=r"runs Opened.open\(\).*--allow-side-effects"):
        replay_here(program(job, Opened()), "visits", "a", first)
    with pytest.raises(hg.UsageError, match=r"runs Misleading.open\(\).*--allow-side-effects"):
        replay_here(program(job, Misleading()), "visits", "a", first)
    Opened.opened.clear()
    assert replay_here(program(job, Opened()), "visits", "a", first, side_effects=True).steps
    assert Opened.opened == [0]
    with pytest.raises(hg.UsageError, match=r"uid 'visits'\) has a function that is marked as blocking"):
        replay_here(program(job, Waiting()), "visits", "a", first)
    report = replay_here(program(job, Waiting()), "visits", "a", first, side_effects=True)
    assert report.steps


class Closed(Visits):
    """Cannot be opened here."""

    def open(self, context: Any) -> None:
        raise OSError("no such server")


def test_a_function_that_cannot_be_opened_is_told(job: Path) -> None:
    """With the operator and the user's own words."""
    with pytest.raises(hg.UsageError, match=r"(?s)operator 'Closed' .*no such server"):
        replay_here(program(job, Closed()), "visits", "a", kept(job)[0], side_effects=True)


def test_asynchronous_functions_are_refused(job: Path) -> None:
    """Their answers are not recorded anywhere."""
    with pytest.raises(hg.UsageError, match=r"uid 'asked'\) calls an asynchronous function.*--records"):
        replay_here(program(job, "async"), "visits", "a", kept(job)[0], side_effects=True)
