"""Mistakes in functions are told in the program's words: no keys, state in open(), missing time, outputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from mini_jobs import Count, environment

import headgate as hg
from headgate.testing import OperatorHarness

ONCE = {"restart-strategy.type": "none"}


def refused(build: Callable[[hg.Environment], Any], parallelism: int = 1, **config: Any) -> hg.HeadgateError:
    """How the job ends that somebody builds."""
    with pytest.raises(hg.HeadgateError) as caught:
        build(environment(parallelism, {**ONCE, **config})).collect()
    return caught.value


# -- keys


def listed(record: Any) -> Any:
    """A key selector that gives no key."""
    return [record]


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(
    ("selector", "named", "kind"),
    [
        (listed, "listed", "list"),
        (lambda record: {"n": record}, "<lambda>", "dict"),
        (lambda record: {record}, "<lambda>", "set"),
        (lambda record: (1, [record]), "<lambda>", "tuple"),
    ],
)
def test_a_key_that_is_none_is_the_key_selectors(
    selector: Any, named: str, kind: str, parallelism: int
) -> None:
    """Not the function's: named are the selector with its line, the operator, the key and the record."""
    error = refused(lambda e: e.from_collection([5]).key_by(selector).process(Count(), uid="c"), parallelism)
    assert isinstance(error, hg.UsageError)
    assert not isinstance(error, hg.UserFunctionError)
    for word in ("key selector", "(uid 'c')", f"{named} ({__file__}:", f"of type {kind}", "for record 5"):
        assert word in str(error), error
    assert "unhashable" not in str(error)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_field_that_holds_a_list_is_named(parallelism: int) -> None:
    """As the program wrote it."""
    error = refused(lambda e: e.from_collection([{"k": [1]}]).key_by("k").process(Count()), parallelism)
    assert "key_by('k')" in str(error)
    assert "give a tuple" in str(error)


class Stateless(hg.KeyedProcessFunction[Any, Any, Any]):
    """Needs no state, so that nobody looks its keys up."""

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        yield ctx.key


@dataclass(frozen=True)
class Place:
    """It can be looked up in a dict, and is no key all the same."""

    x: int


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("selector", [listed, lambda record: (1, [record]), lambda record: Place(record)])
def test_it_is_none_without_state_as_well(selector: Any, parallelism: int) -> None:
    """A program that runs at parallelism 1 runs at every other, too."""

    def build(env: hg.Environment) -> Any:
        return env.from_collection([5]).key_by(selector).process(Stateless(), uid="c")

    told = str(refused(build, parallelism))
    assert "key selector of operator 'Stateless' (uid 'c')" in told
    assert "for record 5" in told


def test_a_key_selector_that_raises_is_told_once() -> None:
    """The traceback has the error, and not that it was met a second time."""
    error = refused(lambda e: e.from_collection([0]).key_by(lambda r: 1 // r).process(Count(), uid="c"))
    assert isinstance(error, hg.UserFunctionError)
    assert error.traceback_text.count("ZeroDivisionError") == 1


# -- functions that take something else


class Short(hg.ProcessFunction[Any, Any]):
    """Forgets the context."""

    def process(self, record: Any) -> Any:  # type: ignore[override]
        return [record]


class Shut(hg.KeyedProcessFunction[Any, Any, Any]):
    """Takes nothing where it is given something."""

    def open(self) -> None:  # type: ignore[override]
        pass

    def process(self, record: Any, ctx: Any) -> Any:
        return [record]


class NoContext(hg.Source[int]):
    """Makes its reader of nothing."""

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        raise NotImplementedError

    def create_reader(self) -> hg.SourceReader[int]:  # type: ignore[override]
        raise NotImplementedError


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda e: e.generate(lambda: 5, count=1), "expected a function of an index"),
        (lambda e: e.from_collection([1]).map(lambda: 5), "map() ("),
        (lambda e: e.from_collection([1]).map(lambda a, b: 5), "which takes (a, b)"),
        (lambda e: e.from_collection([1]).filter(lambda: 5), "expected a function of one record"),
        (lambda e: e.from_collection([1]).flat_map(lambda: 5), "flat_map() ("),
        (lambda e: e.from_collection([1]).key_by(lambda: 5).process(Count()), "key_by() ("),
        (lambda e: e.from_collection([1]).with_event_time(lambda: 5), "with_event_time() ("),
        (lambda e: e.from_collection([1]).process(Short()), "process() of Short takes (record)"),
        (lambda e: e.from_collection([1]).key_by(str).process(Shut()), "open() of Shut takes ()"),
        (lambda e: e.from_source(NoContext()), "create_reader() of NoContext takes ()"),
    ],
)
def test_a_function_that_takes_something_else_is_refused(build: Any, said: str) -> None:
    """Before anything starts, with what it takes and what it will get."""
    error = refused(build)
    assert isinstance(error, hg.PlanError)
    assert said in str(error)
    assert "test_told_in_a_sentence.py:" in str(error)


def test_whatever_can_be_called_with_a_record_is_taken() -> None:
    """More arguments with defaults, classes, built-in functions, partial ones."""
    numbers = environment(1).from_collection([1, 2])
    assert numbers.map(lambda r, by=2: r * by).collect() == [2, 4]
    assert numbers.map(str).map(Place).map(lambda p: p.x).collect() == ["1", "2"]
    assert numbers.map(functools.partial(pow, 2)).collect() == [2, 4]


# -- something else in the place of a state


class Replacing(hg.KeyedProcessFunction[Any, Any, Any]):
    """Forgets `.value`."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    items: hg.ListState[int] = hg.list_state()

    def __init__(self, name: str) -> None:
        self.name = name

    def process(self, record: Any, ctx: Any) -> None:
        setattr(self, self.name, record)


@pytest.mark.parametrize(
    ("name", "how"), [("count", "write self.count.value = ..."), ("items", "by the methods of self.items")]
)
def test_a_state_cannot_be_replaced(name: str, how: str) -> None:
    """What is assigned to the attribute would live in this process only, and be lost in silence."""
    error = refused(lambda e: e.from_collection([7]).key_by(str).process(Replacing(name), uid="r"))
    assert isinstance(error, hg.PlanError)
    for word in (f"Replacing assigns 7 to its state {name!r}", "test_told_in_a_sentence.py:", how):
        assert word in str(error), error
    with pytest.raises(hg.PlanError, match="no longer be stored"):
        OperatorHarness(Replacing(name), key=str).process(7)


# -- keyed state in open()


class Eager(hg.KeyedProcessFunction[Any, Any, Any]):
    """Does what it is told in open()."""

    value: hg.ValueState[int] = hg.value_state(default=0)
    items: hg.ListState[int] = hg.list_state()
    pairs: hg.MapState[str, int] = hg.map_state()
    total: hg.ReducingState[int] = hg.reducing_state(lambda a, b: a + b)

    def __init__(self, doing: Callable[[Any], Any]) -> None:
        self.doing = doing

    def open(self, context: hg.RuntimeContext) -> None:
        self.kept = self.doing(self)

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        yield record


def write(function: Any) -> None:
    """Set a value."""
    function.value.value = 5


def put(function: Any) -> None:
    """By square brackets."""
    function.pairs["a"] = 1


WRONG = {
    "value": write,
    "items": lambda f: f.items.add(1),
    "pairs": put,
    "total": lambda f: f.total.add(1),
}


@pytest.mark.parametrize("name", WRONG)
def test_keyed_state_in_open_is_refused(name: str) -> None:
    """It would belong to no key, and be lost in silence; the refusal is final and names the line."""
    error = refused(lambda e: e.from_collection([1]).key_by(lambda r: r).process(Eager(WRONG[name]), uid="e"))
    assert isinstance(error, hg.PlanError)
    for word in ("(uid 'e')", repr(name), "in open()", "test_told_in_a_sentence.py:"):
        assert word in str(error), error


@pytest.mark.parametrize("ask", [lambda f: f.value.value, lambda f: list(f.items), lambda f: "a" in f.pairs])
def test_reading_it_there_is_refused_as_well(ask: Any) -> None:
    """There is nothing to be read without a key; the harness says the same."""
    with pytest.raises(hg.PlanError, match=r"in open\(\)"):
        OperatorHarness(Eager(ask), key=lambda record: record)


def test_what_is_kept_in_open_lives_afterwards() -> None:
    """A state, or a method of it, that `open` gives another name."""

    class Keeping(Eager):
        def process(self, record: Any, ctx: Any) -> Iterator[Any]:
            state, add = self.kept
            state.value += record
            add(record)
            yield self.value.value, list(self.items.get())

    env = environment(1)
    keeping = Keeping(lambda f: (f.value, f.items.add))
    found = env.from_collection([2, 3, 2]).key_by(lambda r: r % 2).process(keeping).collect()
    assert found == [(2, [2]), (3, [3]), (4, [2, 2])]


# -- event time that is not there


class Ticking(hg.KeyedProcessFunction[Any, Any, Any]):
    """Registers a timer."""

    def __init__(self, ahead: int | None) -> None:
        self.ahead = ahead

    def process(self, record: Any, ctx: Any) -> None:
        ctx.timers.register_event_time(ctx.timestamp if self.ahead is None else ctx.timestamp + self.ahead)


@pytest.mark.parametrize("ahead", [None, 5])
def test_a_timer_without_event_time_says_what_is_missing(ahead: int | None) -> None:
    """The sentence begins with the cause, whatever the function made of the missing time."""
    error = refused(lambda e: e.from_collection([1]).key_by(lambda r: r).process(Ticking(ahead), uid="t"))
    assert isinstance(error, hg.UserFunctionError)
    assert "(uid 't')" in error.operator
    headline = str(error).partition("\n")[0]
    assert "the stream has no event time" in headline
    assert "with_event_time()" in headline


@pytest.mark.parametrize("timed", [False, True])
def test_timers_of_a_stream_without_event_time_are_told_once(
    caplog: pytest.LogCaptureFixture, timed: bool
) -> None:
    """They fire at the end of the input, as all do that are left then; nothing else brings them there."""

    class Late(hg.KeyedProcessFunction[Any, Any, Any]):
        def process(self, record: Any, ctx: Any) -> None:
            ctx.timers.register_event_time(record + 5)

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            yield timestamp

    stream: Any = environment(1).from_collection([1, 2, 3])
    stream = stream.with_event_time(lambda r: r) if timed else stream
    assert stream.key_by(lambda r: r).process(Late(), uid="late").collect() == [6, 7, 8]
    told = [text for text in caplog.messages if "registers timers in event time" in text]
    assert len(told) == (0 if timed else 1)
    assert all("(uid 'late')" in text and "call with_event_time()" in text for text in told)


def test_other_wrong_nones_are_not_blamed_on_time() -> None:
    """Where the record has a time, a None is the function's own."""

    class Own(hg.KeyedProcessFunction[Any, Any, Any]):
        def process(self, record: Any, ctx: Any) -> Any:
            return [None + 1]  # type: ignore[operator]

    def build(env: hg.Environment) -> Any:
        timed = env.from_collection([{"t": 1}]).with_event_time("t")
        return timed.key_by("t").process(Own())

    assert "event time" not in str(refused(build))


# -- what functions return


@dataclass
class Point:
    """A record with fields."""

    x: int


class Pair(NamedTuple):
    """A record that can be gone through."""

    x: int


class Giving(hg.ProcessFunction[Any, Any]):
    """Returns what a function gives."""

    def __init__(self, give: Callable[[Any], Any]) -> None:
        self.give = give

    def process(self, record: Any, ctx: Any) -> Any:
        return self.give(record)


class GivingKeyed(hg.KeyedProcessFunction[Any, Any, Any]):
    """As `Giving`, by key."""

    def __init__(self, give: Callable[[Any], Any]) -> None:
        self.give = give

    def process(self, record: Any, ctx: Any) -> Any:
        return self.give(record)


SERIES: list[tuple[Any, list[Any]]] = [
    (lambda r: (), []),
    (lambda r: None, []),
    (lambda r: [], []),
    (lambda r: [r, r], [1, 1, 2, 2]),
    (lambda r: [(r, 1)], [(1, 1), (2, 1)]),
    (lambda r: [Pair(r)], [Pair(1), Pair(2)]),
    (lambda r: iter([r]), [1, 2]),
]


@pytest.mark.parametrize("kind", [Giving, GivingKeyed])
@pytest.mark.parametrize(("give", "expected"), SERIES)
def test_series_of_outputs_are_taken_one_by_one(kind: Any, give: Any, expected: list[Any]) -> None:
    """Nothing, a list of records, an iterator."""
    stream: Any = environment(1).from_collection([1, 2])
    stream = stream.key_by(lambda r: r) if kind is GivingKeyed else stream
    assert sorted(stream.process(kind(give)).collect()) == expected


ONE_RECORD = [
    lambda r: (r, r),
    lambda r: Pair(r),
    lambda r: {"a": r},
    lambda r: "ab",
    lambda r: "",
    lambda r: b"a",
    lambda r: 5,
    lambda r: True,
    lambda r: Point(r),
    lambda r: () if r == 1 else (r,),
]


@pytest.mark.parametrize("kind", [Giving, GivingKeyed])
@pytest.mark.parametrize("give", ONE_RECORD)
def test_one_record_that_is_returned_is_refused(kind: Any, give: Any) -> None:
    """In a sentence that says what to write; also behind empty tuples."""

    def build(env: hg.Environment) -> Any:
        stream: Any = env.from_collection([1, 2])
        return (stream.key_by(lambda r: 0) if kind is GivingKeyed else stream).process(kind(give))

    error = refused(build)
    assert "process() returned one" in str(error)
    assert "yield it, or return a list of outputs" in str(error)


@pytest.mark.parametrize(
    ("give", "told"), [(lambda r: None, "returned None"), (lambda r: 5, "returned one int")]
)
def test_a_flat_map_that_gives_no_series_is_told(give: Any, told: str) -> None:
    """Not in the words of Python's loop."""
    assert told in str(refused(lambda e: e.from_collection([1]).flat_map(give)))
