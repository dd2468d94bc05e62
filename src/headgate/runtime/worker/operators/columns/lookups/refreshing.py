"""Looks rows up in a table that a function of the program loads, again and again, in a thread."""

from __future__ import annotations

import pyarrow as pa

from headgate.common.errors import HeadgateError, InternalError, UsageError
from headgate.records.batch import Batch
from headgate.relational.joins.loading import Loading
from headgate.relational.plan_text import function_text
from headgate.relational.relations import Lookup
from headgate.runtime.job.call_threads import CallThread
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import NoRecord, user_error
from headgate.runtime.worker.operators.columns.lookups.looked_up_rows import LookedUpRows
from headgate.runtime.worker.operators.columns.lookups.looking_up import LookupOperator


class RefreshingLookupOperator(LookupOperator):
    """Uses the rows of one call of the function until the next call has returned. It is the head of its
    chain: no input is taken before the first rows are there.

    The thread calls the function, and sorts its rows by key; the loop decides when, and takes rows over.
    """

    def __init__(self, context: OperatorContext, plan: Lookup, loading: Loading) -> None:
        super().__init__(context, plan)
        self._loading = loading
        self._thread: CallThread | None = None
        self._began = 0  # the first attempt of the last call; monotonic ms, as the next one
        self._due: int | None = None  # when the function is to be called; None: it is now, or no more
        self._failed = 0  # attempts of this call
        self._ended: tuple[LookedUpRows | None, BaseException | None] | None = None
        self._there = False  # whether the first rows are

    def open(self) -> None:
        context = self.context
        if context.thread is None:
            raise InternalError(f"{context.label} was given no thread; please report this")
        self._now_ms = context.clock.monotonic_ms
        self._thread = context.thread(f"lookup of {context.uid}-{context.subtask}")
        self._call()

    @property
    def waits(self) -> bool:
        return not self._there

    @property
    def busy(self) -> bool:
        return self._ended is not None or (self._due is not None and self._due <= self._now_ms())

    def next_wakeup(self) -> int | None:
        return self._due

    def go_on(self) -> None:
        if self._ended is not None:
            (rows, error), self._ended = self._ended, None
            if rows is None:
                self._note_failure(error)
            else:
                self._take_over(rows)
        elif self._due is not None:
            self._call()

    def process(self, batch: Batch) -> None:
        if not self._there:
            raise InternalError(f"{self.context.label} is not the head of its chain; please report this")
        super().process(batch)

    def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.leave()

    def _call(self) -> None:
        assert self._thread is not None
        self._due = None
        if not self._failed:
            self._began = self._now_ms()
        self._thread.submit(self._load, self._note_end)

    def _note_end(self, rows: LookedUpRows | None, error: BaseException | None) -> None:
        self._ended = rows, error

    def _take_over(self, rows: LookedUpRows) -> None:
        self._rows, self._there, self._failed = rows, True, 0
        every = self._loading.refresh_ms
        self._due = None if every is None else max(self._began + every, self._now_ms())

    def _note_failure(self, error: BaseException | None) -> None:
        assert error is not None
        if isinstance(error, HeadgateError):
            raise error
        self._failed += 1
        retries = self._loading.retries
        if self._failed < retries.attempts and isinstance(error, self._loading.on):
            self._due = self._now_ms() + retries.delay_after(self._failed)
            return
        times = "once" if self._failed == 1 else f"{self._failed} times"
        doing = f"{self._words} was called {times}"
        raise user_error(self.context, error, NoRecord(doing))

    # -- in the thread

    def _load(self) -> LookedUpRows:
        return LookedUpRows(self._checked(self._loading.function()), self._plan.keys)

    def _checked(self, found: object) -> pa.Table:
        called = f"{self.context.label}: {self._words}"
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

    @property
    def _words(self) -> str:
        return f"{function_text(self._loading.function)} of lookup() ({self._loading.site})"

    def _columns(self) -> list[tuple[str, pa.DataType]]:
        return [(field.name, field.type) for field in self._plan.table.schema]
