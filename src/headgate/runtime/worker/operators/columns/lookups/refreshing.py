"""Looks rows up in a table that a function of the program loads, again and again, in a thread."""

from __future__ import annotations

import contextvars
import threading
from typing import Final, NamedTuple

import pyarrow as pa

from headgate.common.errors import HeadgateError, UsageError
from headgate.common.process.system import BackgroundThread
from headgate.records.batch import Batch
from headgate.relational.joins.loading import Loading
from headgate.relational.plan_text import function_text
from headgate.relational.relations import Lookup
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import user_error
from headgate.runtime.worker.operators.columns.lookups.looked_up_rows import LookedUpRows
from headgate.runtime.worker.operators.columns.lookups.looking_up import LookupOperator

_LOOKED_AT_MS: Final = 20
"""So often it is looked whether a call has returned, where no rows come."""

_PAUSE_S, _PAUSE_MAX_S = 1.0, 60.0


class _Loaded(NamedTuple):
    """What a call came to: rows, or why there are none."""

    rows: LookedUpRows | None
    failure: BaseException | None


class _Caller(BackgroundThread):
    """The thread that calls the function."""

    def leave(self) -> None:
        """Have the thread end once the call that is under way has returned, without waiting for it."""
        self._queue.put(None)


class RefreshingLookupOperator(LookupOperator):
    """Uses the rows of one call of the function until the next call has returned.

    The thread calls the function, and sorts its rows by key; the loop takes them over between two batches.
    """

    def __init__(self, context: OperatorContext, plan: Lookup, loading: Loading) -> None:
        super().__init__(context, plan)
        self._loading = loading
        self._thread: _Caller | None = None
        self._closed = threading.Event()
        self._called_at: int | None = None  # wall clock, ms; None: no call is under way
        self._due: int | None = None  # when it is looked whether it has returned, or when the next one begins
        self._loaded: list[_Loaded] = []  # of the thread

    def open(self) -> None:
        # User code finds its modules by the context of the thread that opens its operators.
        call = contextvars.copy_context().run
        self._thread = _Caller("headgate-lookup", call)
        came = threading.Event()
        self._begin(came)
        came.wait()
        self._settle()

    def _begin(self, came: threading.Event | None = None) -> None:
        assert self._thread is not None
        self._called_at = int(self.context.clock.now_ms())
        self._due = self._called_at + _LOOKED_AT_MS

        def done(rows: LookedUpRows | None, failure: BaseException | None) -> None:
            self._loaded.append(_Loaded(rows, failure))
            if came is not None:
                came.set()

        self._thread.submit(self._load, done)

    def _load(self) -> LookedUpRows:
        return LookedUpRows(self._checked(self._called()), self._plan.keys)

    def _called(self) -> object:
        for attempt in range(self._loading.retries):
            try:
                return self._loading.function()
            except Exception:
                if self._closed.wait(min(_PAUSE_S * 2**attempt, _PAUSE_MAX_S)):
                    raise
        return self._loading.function()

    def _checked(self, found: object) -> pa.Table:
        called = f"{self.context.label}: {function_text(self._loading.function)}"
        if not isinstance(found, pa.Table):
            raise UsageError(f"{called} returned {type(found).__name__}; expected a pyarrow.Table")
        wanted = self._loading.schema
        missing = [name for name in wanted.names if name not in found.column_names]
        if missing:
            raise UsageError(
                f"{called} returned a table without the column {missing[0]!r}; expected "
                f"{', '.join(wanted.names)}"
            )
        try:
            whole = found.select(wanted.names).cast(wanted)
        except (pa.ArrowException, ValueError) as error:
            raise UsageError(f"{called} returned columns that are not those of schema=: {error}") from None
        return pa.table({name: whole.column(name).cast(kind) for name, kind in self._columns()})

    def _columns(self) -> list[tuple[str, pa.DataType]]:
        return [(field.name, field.type) for field in self._plan.table.schema]

    def _settle(self) -> None:
        """Take over what the thread has loaded, or fail as it has failed."""
        if not self._loaded:
            return
        assert self._called_at is not None
        loaded, self._loaded = self._loaded[-1], []
        if loaded.failure is not None:
            raise self._failed(loaded.failure)
        assert loaded.rows is not None
        self._rows = loaded.rows
        every, now = self._loading.refresh_ms, int(self.context.clock.now_ms())
        self._due = None if every is None else max(self._called_at + every, now)
        self._called_at = None

    def _failed(self, failure: BaseException) -> BaseException:
        if isinstance(failure, HeadgateError):
            return failure
        tried = self._loading.retries + 1
        times = "once" if tried == 1 else f"{tried} times"
        return user_error(self.context, failure, _Words(f"of the table that is looked up, called {times}"))

    def next_processing_time(self) -> int | None:
        return self._due

    def fire_processing_time(self, now_ms: int) -> None:
        self._settle()
        if self._due is None or now_ms < self._due:
            return
        if self._called_at is None:
            self._begin()
        else:
            self._due = now_ms + _LOOKED_AT_MS

    def process(self, batch: Batch) -> None:
        self._settle()
        super().process(batch)

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.leave()


class _Words(str):
    """Words that messages show as they are, without quotes, in place of a record."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
