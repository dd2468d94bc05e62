"""What is awaited for each call of an asynchronous function; it runs in the event loop of the subtask."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from headgate.api.functions import RuntimeContext
from headgate.api.streams.async_calls import AsyncCalls, AsyncFunction
from headgate.common.errors import UsageError
from headgate.common.refusals.texts import shortened
from headgate.core.async_requests import REPLACEMENT
from headgate.runtime.job.event_loops import Made
from headgate.runtime.worker.operators.operator_contract import R
from headgate.runtime.worker.operators.outputs import checked_kind


class Answer(NamedTuple):
    """The outputs for one record; `wrong`: the program asks for the answer once more."""

    outputs: list[Any]
    wrong: bool


class Calls:
    """Makes what is awaited: calls with a record, and those of `open` and `close`."""

    def __init__(self, settings: AsyncCalls) -> None:
        self._function, self._many, self._timed_out = settings.function, settings.many, settings.timed_out
        self._retry = settings.retry
        whole = self._function
        self._call: Callable[[Any], Awaitable[Any]] = (
            whole.call if isinstance(whole, AsyncFunction) else whole
        )
        if self._timed_out is None and isinstance(whole, AsyncFunction):
            defined = type(whole).on_timeout is not AsyncFunction.on_timeout
            self._timed_out = whole.on_timeout if defined else None

    @property
    def can_replace(self) -> bool:
        """Whether the program gives something for an answer that did not come."""
        return self._timed_out is not None

    def of(self, record: R, attempt: int) -> Made:
        """Return what makes the call for a record, or with `REPLACEMENT` that of its replacement."""
        return partial(self._replacement if attempt == REPLACEMENT else self._answer, record)

    def open(self, context: RuntimeContext) -> Made | None:
        return partial(self._function.open, context) if isinstance(self._function, AsyncFunction) else None

    async def close(self) -> None:
        if isinstance(self._function, AsyncFunction):
            await self._function.close()

    async def _answer(self, record: R) -> Answer:
        made = self._call(record)
        if not inspect.isawaitable(made):
            raise UsageError(
                f"the function returned {shortened(repr(made), 200)}, which nobody can await; write it with "
                "`async def`"
            )
        answer = await made
        asks = None if self._retry is None else self._retry.if_result
        return Answer(self._outputs(answer), asks is not None and bool(asks(answer)))

    async def _replacement(self, record: R) -> Answer:
        assert self._timed_out is not None
        made = self._timed_out(record)
        return Answer(self._outputs(await made if inspect.isawaitable(made) else made), False)

    def _outputs(self, answer: Any) -> list[Any]:
        if not self._many:
            return [answer]
        if answer is None:
            return []
        checked_kind(answer, "the asynchronous function")
        return list(answer)
