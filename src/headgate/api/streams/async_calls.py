"""Asynchronous functions: their contract, how failed calls are repeated, and the state that they need."""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeAlias

from headgate.api.checking import inference
from headgate.api.checking.arguments import refuse_arity, refuse_blocking
from headgate.api.declared.declarations import generic_arguments
from headgate.api.declared.operator_state import OperatorListState, operator_list_state
from headgate.api.functions import I, O, R, RichFunction, RuntimeContext, T
from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.common.hints import Hint
from headgate.common.time import duration_ms
from headgate.graph.async_nodes import AsyncNode
from headgate.graph.logical import NEW

IN_FLIGHT: Final = "in_flight"
"""Name of the operator state with the records that are called for: in order, each with its event time."""

Duration: TypeAlias = str | int
Errors: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]


class AsyncFunction(ABC, Generic[I, O]):
    """A function for ``map_async`` and ``flat_map_async`` with something that it opens once for each subtask,
    such as a session or a pool of connections. All its methods run in the event loop of its subtask, which
    is a thread of its own; so nothing in it needs a lock.

    Example:
        >>> import asyncio
        >>> import headgate as hg
        >>> from headgate.testing import MiniCluster
        >>> class Doubled(hg.AsyncFunction[int, int]):
        ...     async def open(self, context):
        ...         self.permits = asyncio.Semaphore(10)
        ...     async def call(self, record: int) -> int:
        ...         async with self.permits:
        ...             return 2 * record
        >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
        >>> env.from_collection([1, 2, 3]).map_async(Doubled()).collect()
        [2, 4, 6]
    """

    async def open(self, context: RuntimeContext) -> None:
        """Set up what cannot be shipped, before the first record."""

    @abstractmethod
    async def call(self, record: I) -> Any:
        """Return the one output of a record; for ``flat_map_async`` an iterable of outputs, or None."""

    def on_timeout(self, record: I) -> Any:
        """Return what stands for the answer of a record whose time is over; it may be an ``async def``. A
        class that does not define it has the job fail.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Release what `open` set up; also called after a failure, when calls have been cancelled."""


@dataclass(frozen=True, slots=True)
class Retry:
    """When and how often a failed call is made again; :func:`retry` makes it."""

    attempts: int  # at most, the first one included
    delay_ms: int  # before the second attempt
    factor: float  # by which each further delay is longer than the one before
    delay_max_ms: int  # no delay is longer
    on: Errors  # exceptions after which it is made again
    if_result: Callable[[Any], object] | None  # whether an answer is to be asked for once more; None: none


def retry(
    attempts: int = 3,
    delay: Duration = "100ms",
    factor: float = 1.0,
    max_delay: Duration = "1h",
    *,
    on: Errors = Exception,
    if_result: Callable[[Any], object] | None = None,
) -> Retry:
    """Say that calls of an asynchronous function, or of one that loads a table for ``lookup()``, are repeated
    when they fail.

    Args:
        attempts: how many calls at most for one record, the first one included.
        delay: between a failure and the next attempt, as ``"100ms"`` or in ms.
        factor: each further delay is so many times longer: 1 for equal delays, 2 for doubled ones.
        max_delay: no delay is longer than that.
        on: an exception class, or a tuple of them: other errors fail the job at once.
        if_result: a function of the answer; where it returns something true the call is repeated. After the
            last attempt the answer is taken as it is.

    Raises:
        PlanError: fewer than 1 attempt, a factor below 1, a wrong duration, or `on` is no exception class.

    Example:
        >>> import headgate as hg
        >>> patient = hg.retry(attempts=5, delay="50ms", factor=2, on=(ConnectionError, TimeoutError))
        >>> patient.attempts, patient.delay_ms
        (5, 50)
    """
    if attempts < 1:
        raise PlanError(f"attempts of retry() ({user_site()}) is {attempts}; expected at least 1")
    if not 1 <= factor < float("inf"):
        raise PlanError(f"factor of retry() ({user_site()}) is {factor}; expected 1 or more")
    classes: tuple[object, ...] = on if isinstance(on, tuple) else (on,)
    if not all(isinstance(each, type) and issubclass(each, BaseException) for each in classes):
        raise PlanError(f"on of retry() ({user_site()}) is {on!r}; expected exception classes")
    if if_result is not None:
        if not callable(if_result):
            raise PlanError(f"if_result of retry() ({user_site()}) is {if_result!r}; expected a function")
        refuse_arity(f"if_result of retry() ({user_site()})", if_result, "one answer")
    delays = [_ms("retry", "delay", delay), _ms("retry", "max_delay", max_delay)]
    return Retry(attempts, delays[0], factor, delays[1], on, if_result)


class AsyncCalls(RichFunction):
    """An asynchronous function with what the program said of its calls; as an operator's function it declares
    the state `IN_FLIGHT` in a class of its own.
    """

    function: Callable[[Any], Awaitable[Any]] | AsyncFunction[Any, Any]
    record_type: Any  # a hint: of the records that come in; None: not known
    many: bool  # an answer is an iterable of outputs, else the one output
    capacity: int
    timeout_ms: int | None
    ordered: bool
    retry: Retry | None
    timed_out: Callable[[Any], Any] | None  # gives what stands for an answer that did not come
    site: str  # the user's line

    def of_a_subtask(self) -> AsyncCalls:
        """Return a copy with a function instance of its own."""
        made = copy.copy(self)
        if isinstance(self.function, AsyncFunction):
            made.function = copy.copy(self.function)
        return made


class CallSettings(NamedTuple):
    """What the program says of the calls of an asynchronous function, not checked yet."""

    capacity: int
    timeout: Duration | None
    ordered: bool
    retry: Retry | None
    on_timeout: Callable[[Any], Any] | None


def async_node(
    verb: str,
    function: Callable[[T], Awaitable[R]] | AsyncFunction[T, R],
    record_type: Hint | None,
    uid: str | None,
    given: CallSettings,
) -> AsyncNode:
    """Return the node that the call `verb` adds to a stream of `record_type` (None: not known). PlanError: an
    argument is wrong; the message names it.
    """
    where = f"{verb}() ({user_site()})"
    _check_function(verb, where, function)
    if given.capacity < 1:
        raise PlanError(f"capacity of {where} is {given.capacity}; expected at least 1 record in flight")
    timeout_ms = None if given.timeout is None else _ms(verb, "timeout", given.timeout)
    if timeout_ms == 0:
        raise PlanError(f"timeout of {where} is 0; expected a time above 0, or None for no limit")
    if given.on_timeout is not None:
        refuse_arity(f"on_timeout of {where}", given.on_timeout, "one record")
    made, many = _declaring(record_type), verb.startswith("flat")
    made.function, made.record_type, made.many, made.site = function, record_type, many, user_site()
    made.capacity, made.timeout_ms, made.ordered = given.capacity, timeout_ms, given.ordered
    made.retry, made.timed_out = given.retry, given.on_timeout
    called = function.call if isinstance(function, AsyncFunction) else function
    output = _output_type(function, called, many=many)
    return AsyncNode(NEW, verb, uid=uid, record_type=output, function=made)


def _output_type(function: object, called: Callable[..., Any], *, many: bool) -> Hint | None:
    if isinstance(function, AsyncFunction):
        arguments = generic_arguments(type(function), AsyncFunction)
        if arguments and (found := inference.known(arguments[-1])) is not None:
            return found
    return inference.flat_map_output(called) if many else inference.map_output(called)


def _check_function(verb: str, where: str, function: Any) -> None:
    if isinstance(function, AsyncFunction):
        if not inspect.iscoroutinefunction(function.call):
            raise PlanError(f"{where} got {type(function).__name__}, whose call() is no `async def`")
        return
    if isinstance(function, type) or not callable(function):
        raise PlanError(
            f"{where} got {function!r}; expected an `async def` of one record, or an instance of a subclass "
            "of AsyncFunction"
        )
    refuse_arity(where, function, "one record")
    refuse_blocking(verb, function)
    name = getattr(function, "__name__", type(function).__name__)
    if inspect.isasyncgenfunction(function):
        raise PlanError(f"{where} got {name}, which yields; return a list of the outputs to flat_map_async()")
    plain = inspect.isfunction(function) and name != "<lambda>" and not hasattr(function, "__wrapped__")
    if plain and not inspect.iscoroutinefunction(function) and _says_no_awaitable(function):
        raise PlanError(
            f"{where} got {name}, which is no `async def`; give an ordinary function to "
            f"{verb.removesuffix('_async')}(), and mark it with hg.blocking if it waits"
        )


def _says_no_awaitable(function: object) -> bool:
    # A function without an annotation may well return a coroutine that another one has made.
    returned = getattr(function, "__annotations__", {}).get("return")
    return returned is not None and "wait" not in str(returned) and "Coroutine" not in str(returned)


def _ms(verb: str, name: str, duration: Duration) -> int:
    try:
        return duration_ms(duration, f"{name} of {verb}() ({user_site()})")
    except ValueError as error:
        raise PlanError(str(error)) from None


def _declaring(record_type: Hint | None) -> AsyncCalls:
    from headgate.records.row import Row  # it loads NumPy

    kind = Any if record_type is None or record_type is Row else record_type  # a row is stored as a dict
    fields = [("record", kind), ("row", bool), ("timestamp", int | None)]
    request: type = NamedTuple("InFlight", fields)  # type: ignore[misc]
    request.__module__ = "headgate"
    hints = {IN_FLIGHT: OperatorListState[request]}
    body = {"__annotations__": hints, IN_FLIGHT: operator_list_state(), "__module__": __name__}
    made: AsyncCalls = type("AsyncCalls", (AsyncCalls,), body)()
    return made
