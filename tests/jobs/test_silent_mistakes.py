"""Mistakes of user code that would be silent losses, or be told in the names of the runtime's own classes."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from mini_jobs import Count, environment

import headgate as hg
from headgate.common.errors import UsageError
from headgate.testing import OperatorHarness, ProcessCluster

ONCE = {"restart-strategy.type": "none"}


def refused(build: Callable[[hg.Environment], Any], parallelism: int = 1) -> hg.HeadgateError:
    """How the job ends that somebody builds."""
    with pytest.raises(hg.HeadgateError) as caught:
        build(environment(parallelism, ONCE)).collect()
    return caught.value


def exhausted(record: Any) -> Any:
    """Asks an empty series for its first element."""
    return next(iter([]))


# -- StopIteration, which Python's own loops take for their end


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("columns", [False, True])
def test_a_key_selector_that_runs_out_loses_no_record(parallelism: int, columns: bool, tmp_path: Any) -> None:
    """It fails the job as any other error does; the records are not dropped."""
    if columns:
        pa.parquet.write_table(pa.table({"n": [1, 2]}), tmp_path / "in.parquet")

    def build(env: hg.Environment) -> Any:
        stream = env.read_parquet(str(tmp_path)) if columns else env.from_collection([1, 2])
        return stream.key_by(exhausted).process(Count(), uid="c")

    error = refused(build, parallelism)
    assert isinstance(error, hg.UserFunctionError)
    assert error.raised == "StopIteration"
    assert "(uid 'c')" in error.operator
    assert error.record != ""


# -- functions that are called and do not run


async def waits(record: Any) -> Any:
    """Nobody awaits it."""
    return False


class WaitsWhenCalled:
    """The same as an object."""

    async def __call__(self, record: Any) -> bool:
        return False


async def series(record: Any) -> AsyncIterator[Any]:
    """Nobody goes through it."""
    yield record


class Awaited(hg.ProcessFunction[Any, Any]):
    """Nobody awaits its outputs."""

    async def process(self, record: Any, ctx: Any) -> Any:
        return [record]


class OpenedLater(hg.KeyedProcessFunction[Any, Any, Any]):
    """Nobody awaits its preparation."""

    async def open(self, context: Any) -> None:  # type: ignore[override]
        self.ready = True

    def process(self, record: Any, ctx: Any) -> Any:
        return [record]


@pytest.mark.parametrize(
    ("build", "verb"),
    [
        (lambda s: s.map(waits), "map()"),
        (lambda s: s.filter(waits), "filter()"),
        (lambda s: s.filter(WaitsWhenCalled()), "filter()"),
        (lambda s: s.flat_map(series), "flat_map()"),
        (lambda s: s.with_event_time(waits), "with_event_time()"),
        (lambda s: s.key_by(waits).process(Count()), "key_by()"),
        (lambda s: s.process(Awaited(), uid="a"), "process() of Awaited"),
        (lambda s: s.key_by(str).process(OpenedLater(), uid="o"), "open() of OpenedLater"),
    ],
)
def test_what_nobody_awaits_is_refused_before_the_start(build: Any, verb: str) -> None:
    """As a filter it would be true for every record."""
    error = refused(lambda env: build(env.from_collection([1, 2])))
    assert isinstance(error, hg.PlanError)
    assert verb in str(error)
    assert "`async def`, which nothing here awaits" in str(error)
    assert "test_silent_mistakes.py:" in str(error)


def test_a_generator_as_a_filter_is_refused() -> None:
    """It is true whatever it gives."""

    def odd(record: int) -> Iterator[bool]:
        yield record % 2 == 1

    assert "a generator is true whatever it gives" in str(
        refused(lambda e: e.from_collection([1]).filter(odd))
    )


def test_a_coroutine_that_process_returns_all_the_same_is_told() -> None:
    """Of a function that hides it."""

    class Hidden(hg.ProcessFunction[Any, Any]):
        def process(self, record: Any, ctx: Any) -> Any:
            return waits(record)

    assert "`async def`, which nothing here awaits" in str(
        refused(lambda e: e.from_collection([1]).process(Hidden()))
    )


@pytest.mark.parametrize(
    "table", [lambda: pd.DataFrame({"a": [1]}), lambda: pa.table({"a": [1]})], ids=["pandas", "arrow"]
)
def test_a_table_that_process_returns_is_no_list_of_outputs(table: Callable[[], Any]) -> None:
    """Gone through, it gives its columns or their names."""

    class Tables(hg.ProcessFunction[Any, Any]):
        def process(self, record: Any, ctx: Any) -> Any:
            return table()

    assert "the columns would be taken for outputs" in str(
        refused(lambda e: e.from_collection([1]).process(Tables()))
    )


# -- state outside of any key


class Placed(hg.KeyedProcessFunction[Any, Any, Any]):
    """Uses its state at a place where there is no key."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    pairs: hg.MapState[str, int] = hg.map_state()

    def __init__(self, place: str, do: Callable[[Any], Any]) -> None:
        self.place, self.do = place, do
        if place == "init":
            do(self)

    def open(self, context: Any) -> None:
        if self.place == "open, caught":
            try:
                self.do(self)
            except Exception:
                logging.getLogger(__name__).debug("the program goes on")
        if self.place == "open, in a thread":
            thread = threading.Thread(target=self.do, args=(self,))
            thread.start()
            thread.join()

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        yield record

    def close(self) -> None:
        if self.place == "close":
            self.do(self)


def set_value(function: Any) -> None:
    """Set it."""
    function.count.value = 5


def raise_value(function: Any) -> None:
    """Read it and set it."""
    function.count.value += 1


def put_entry(function: Any) -> None:
    """By square brackets."""
    function.pairs["a"] = 1


def put_entry_by_name(function: Any) -> None:
    """By its method."""
    function.pairs.put("a", 1)


@pytest.mark.parametrize("do", [set_value, raise_value, put_entry, put_entry_by_name])
def test_state_in_the_constructor_is_refused(do: Callable[[Any], Any]) -> None:
    """What is set there would be the declaration's own, and lost."""
    with pytest.raises(
        hg.PlanError, match=r"before its function runs in a job, so what is set would be lost"
    ):
        Placed("init", do)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("place", ["open, caught", "open, in a thread"])
def test_a_refusal_that_open_does_not_let_out_counts(place: str) -> None:
    """What was to be written is lost in any case."""
    error = refused(lambda e: e.from_collection([1]).key_by(str).process(Placed(place, set_value), uid="p"))
    assert isinstance(error, hg.PlanError)
    assert "(uid 'p') uses its keyed state 'count' in open() (test_silent_mistakes.py:" in str(error)


@pytest.mark.parametrize("do", [set_value, put_entry])
def test_state_in_close_is_told(do: Callable[[Any], Any], caplog: pytest.LogCaptureFixture) -> None:
    """The records have been processed, so the job ends in order; the loss is not silent."""
    found = environment(1).from_collection([1]).key_by(str).process(Placed("close", do), uid="p").collect()
    assert found == [1]
    (told,) = [text for text in caplog.messages if text.startswith("closing ")]
    assert "(uid 'p') uses its keyed state" in told
    assert "in close() (test_silent_mistakes.py:" in told
    assert "nothing is stored" in told
    assert "\\n" not in told


# -- wrong calls of what functions are given


class Asking(hg.KeyedProcessFunction[Any, Any, Any]):
    """Does what it is told with what it is given."""

    value: hg.ValueState[int] = hg.value_state(default=0)
    free: hg.ValueState[Any] = hg.value_state()
    items: hg.ListState[int] = hg.list_state()
    pairs: hg.MapState[str, int] = hg.map_state()
    total: hg.ReducingState[int] = hg.reducing_state(lambda a, b: a + b)

    def __init__(self, ask: Callable[[Any, Any], Any]) -> None:
        self.ask = ask

    def process(self, record: Any, ctx: Any) -> Any:
        self.ask(self, ctx)


TIMES = "register_event_time() of TimerService takes"
ASKED: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda f, ctx: ctx.timers.register_event_time(at=3), f"{TIMES} no argument 'at'; did you mean 'timest"),
    (lambda f, ctx: ctx.timers.register_event_time(), f"{TIMES} timestamp; the call missing 1"),
    (lambda f, ctx: ctx.timers.register_event_timer(3), "did you mean 'register_event_time'?"),
    (lambda f, ctx: ctx.timer_service, "a keyed function has no 'timer_service'; did you mean 'timers'?"),
    (lambda f, ctx: ctx.timers.watermark, "has no 'watermark'; did you mean 'current_watermark'?"),
    (lambda f, ctx: f.value.update(3), "ValueState has no 'update'; did you mean 'value'?"),
    (lambda f, ctx: f.free.get(), "ValueState has no 'get'"),
    (lambda f, ctx: f.items.append(3), "ListState has no 'append'; did you mean 'add'?"),
    (lambda f, ctx: f.pairs.get("a", fallback=1), "get() of MapState takes no argument 'fallback'"),
    (lambda f, ctx: f.pairs.setdefault("a", 1), "MapState has no 'setdefault'"),
    (lambda f, ctx: f.total.add(1, 2), "add() of ReducingState takes value; the call takes 2"),
    (lambda f, ctx: ctx.side_output("late", 1), "got 'late' of type str as its tag; expected an OutputTag"),
]  # fmt: skip


@pytest.mark.parametrize(("ask", "said"), ASKED)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_wrong_calls_are_told_with_the_names_of_the_documentation(
    ask: Callable[[Any, Any], Any], said: str, backend: str, tmp_path: Any
) -> None:
    """Operator, line and the nearest valid name; none of the runtime's own classes."""
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    env = environment(
        1, {**ONCE, "state.backend.type": backend, "state.backend.rocksdb.localdir": str(tmp_path)}
    )
    with pytest.raises(hg.UserFunctionError) as caught:
        env.from_collection([1]).key_by(str).process(Asking(ask), uid="asking").collect()
    error = caught.value
    assert said in error.raised
    assert "(uid 'asking')" in error.operator
    assert error.line.startswith(__file__)
    for own in ("Immutable", "Mutable", "Heap", "Rocks", "KeyContext", "object has no attribute", "'Timers"):
        assert own not in str(error)


class Plain(hg.ProcessFunction[Any, Any]):
    """Wants what only keyed functions have."""

    def __init__(self, place: str) -> None:
        self.place = place

    def open(self, context: Any) -> None:
        if self.place == "open":
            context.timers.register_event_time(3)

    def process(self, record: Any, ctx: Any) -> Any:
        ctx.timers.register_event_time(3)


@pytest.mark.parametrize("place", ["open", "process"])
def test_timers_without_keys_say_where_they_are(place: str) -> None:
    """Not that an object of ours has no such attribute."""
    told = str(refused(lambda e: e.from_collection([1]).process(Plain(place))))
    assert "keys and timers are in process() and on_timer() of a KeyedProcessFunction behind key_by()" in told


def test_an_attribute_error_of_the_programs_own_is_left_alone() -> None:
    """Only what is asked of ours is told anew."""

    def asks(record: Any) -> Any:
        return record.timers

    assert "'int' object has no attribute 'timers'" in str(
        refused(lambda e: e.from_collection([1]).map(asks))
    )


@pytest.mark.parametrize("when", ["soon", None, 1.5])
def test_a_time_that_is_none_names_operator_line_and_record(when: Any) -> None:
    """A refusal of what a function did says whose it is."""
    ask = lambda f, ctx: ctx.timers.register_processing_time(when)  # noqa: E731
    error = refused(lambda e: e.from_collection([7]).key_by(str).process(Asking(ask), uid="t"))
    assert "(uid 't') (" in str(error)
    assert f"{__file__}:" in str(error)
    assert f"for record 7: a timer is registered for {when!r}" in str(error)


@pytest.mark.parametrize(
    "use", [lambda s: s.key_by("b").process(Count(), uid="o"), lambda s: s.with_event_time("b")]
)
def test_a_field_that_is_not_there_names_the_operator(use: Callable[[Any], Any]) -> None:
    """Which of the program's many reads it."""
    told = str(refused(lambda e: use(e.from_collection([{"a": 1}]).map(dict))))
    assert "operator '" in told
    assert "names 'b', but a record is {'a': 1}" in told


# -- what was raised, in one line


class TwoLinesError(ValueError):
    """Its text has two lines."""


def several() -> BaseException:
    """A group."""
    return ExceptionGroup("several", [ValueError("one"), KeyError("two")])


def noted() -> BaseException:
    """With a note."""
    error = ValueError("the text")
    error.add_note("and a note")
    return error


def caused() -> BaseException:
    """With a cause."""
    error = ValueError("the effect")
    error.__cause__ = TwoLinesError("the\ncause")
    return error


@pytest.mark.parametrize(
    ("make", "raised"),
    [
        (lambda: TwoLinesError("first\nsecond"), "TwoLinesError: first"),
        (noted, "ValueError: the text"),
        (several, "ExceptionGroup: several (2 sub-exceptions)"),
        (caused, "ValueError: the effect"),
        (lambda: ValueError(), "ValueError"),
        (lambda: ValueError("\n"), "ValueError:"),
        (lambda: SyntaxError("odd", ("a.py", 1, 1, "x x", 1, 2)), "SyntaxError: odd"),
    ],
)
def test_the_first_line_says_what_was_raised(make: Callable[[], BaseException], raised: str) -> None:
    """Not the last line of its text, a note or the frame of a group."""

    def fails(record: Any) -> Any:
        raise make()

    error = refused(lambda e: e.from_collection([1]).map(fails, uid="m"))
    assert isinstance(error, hg.UserFunctionError)
    assert error.raised.endswith(raised)
    assert str(error).partition("\n")[0].endswith(f"{raised} in attempt 1 for record 1")


class Unloadable:
    """Cannot be made again in a worker."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __setstate__(self, state: dict[str, Any]) -> None:
        raise state["kind"]("not here")

    def __call__(self, record: Any) -> Any:
        return record


@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_an_error_while_the_program_is_loaded_is_the_programs(kind: type[BaseException]) -> None:
    """It is no error of ours, and has its line."""
    env = hg.Environment(parallelism=1, executor=ProcessCluster(), config=ONCE)
    with pytest.raises(hg.UserFunctionError) as caught:
        env.from_collection([1]).map(Unloadable(kind)).collect()
    assert caught.value.raised == f"{kind.__name__}: not here"
    assert caught.value.line.startswith(f"{__file__}:")
    assert "while a worker loaded the program" in caught.value.record


class Uncopied:
    """A record that cannot be taken apart."""

    def __reduce__(self) -> Any:
        raise LookupError("not apart")


def test_a_record_that_cannot_be_sent_is_the_programs() -> None:
    """It is no error of ours: within a worker it has its line, on the way to another one the advice."""

    def build(env: hg.Environment) -> Any:
        return env.from_collection([1, 2]).map(lambda n: Uncopied()).key_by(lambda r: 1).process(Count())

    error = refused(build, 2)  # which of the two depends on the worker that reads
    if isinstance(error, hg.UserFunctionError):
        assert error.raised == "LookupError: not apart"
        assert error.line.startswith(f"{__file__}:")
    else:
        assert isinstance(error, UsageError)
        assert "cannot be sent to another worker (LookupError: not apart); emit plain values" in str(error)


def test_the_harness_says_the_same() -> None:
    """A unit test is where most mistakes are met first."""
    harness = OperatorHarness(Asking(lambda f, ctx: f.items.append(3)), key=str)
    with pytest.raises(hg.UserFunctionError, match="ListState has no 'append'; did you mean 'add'"):
        harness.process(1)
