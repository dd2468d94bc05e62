"""Decides what becomes of a record on which a function failed, and bounds how many there may be."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from headgate.api.holding import Holding
from headgate.api.on_error import ERRORS, FailedCall, OnError, Quarantined
from headgate.common.errors import UsageError, UserFunctionError
from headgate.common.refusals.texts import encodable
from headgate.common.refusals.users_frames import users_line, users_traceback
from headgate.metrics import metric_table as table
from headgate.records.row import Row
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import NoRecord, shorten, user_error
from headgate.runtime.worker.operators.outputs import SideBuffer
from headgate.serde.codecs.dynamic import as_plain, encode_tagged

TEXT_MAX: Final = 10_000
"""Characters of a record, a message or a traceback that are kept."""

SHARE_FROM: Final = 1_000
"""So many records must have come before their share counts."""

Place = tuple[str, str, str, int]
"""Where a record was read: uid of the source, split, a position in it as JSON, and how many records after."""

Policy = OnError | Holding | Callable[[FailedCall], str]


class BadRecords:
    """What one operator's subtask does with records on which its function fails, by `policy`. Those that are
    quarantined go to `side`.
    """

    def __init__(self, context: OperatorContext, policy: Policy, side: SideBuffer) -> None:
        self._context, self._policy, self._side = context, policy, side
        self._failed, self._seen = 0, 0
        self._counts = dict.fromkeys((OnError.SKIP, OnError.QUARANTINE), 0)

    def measured(self) -> dict[str, int]:
        """Return how many records were left out, by series."""
        return {table.FAILED_RECORDS.at(action.value): count for action, count in self._counts.items()}

    def begin(self) -> None:
        """Count anew: a checkpoint is taken."""
        self._failed = self._seen = 0

    def seen(self, records: int) -> None:
        """Note that so many records have come."""
        self._seen += records

    def met(
        self,
        call: FailedCall,
        time: int | None,
        mark: int | None,
        read_at: Place | None = None,
        *,
        renewed: bool = False,
    ) -> OnError:
        """Leave out the record of a failed call, whose effects are undone, or raise its error. Return which
        of both ways of leaving it out was taken. `time` and `mark` are event time and watermark (ms) of the
        side output; None: there is no event time. `read_at` is where the record was read, as far as that is
        known. `renewed`: it failed before, so it is none of the records that the bounds are about.
        """
        shown = NoRecord(f"timer of key {call.key!r} at {call.timestamp}") if call.timer else call.record
        found = user_error(self._context, call.error, shown)
        # Others are about the framework, the disk or the process, and not about the record.
        about_record = isinstance(call.error, Exception) and not isinstance(call.error, MemoryError)
        if not about_record or not isinstance(found, UsageError):
            raise found from None
        action = self._decided(call)
        self._failed += not renewed
        if action is OnError.FAIL or (self._too_many and not renewed):
            raise found from None
        self._counts[action] += 1
        if action is OnError.QUARANTINE:
            kept = self._quarantined(call, found)
            if read_at is not None:
                source, split, position, skip = read_at
                kept = kept._replace(source=source, split=split, position=position, skip=skip)
            self._side.add(ERRORS, kept, time, None if time is None else mark)
        return action

    @property
    def _too_many(self) -> bool:
        records, share = self._context.failing_records
        return self._failed > records or (self._seen >= SHARE_FROM and self._failed > share * self._seen)

    def _decided(self, call: FailedCall) -> OnError:
        if isinstance(self._policy, OnError):
            return self._policy
        if isinstance(self._policy, Holding):
            return OnError.QUARANTINE
        try:
            return OnError(self._policy(call))
        except BaseException as error:
            raise user_error(self._context, error, call.record) from None

    def _quarantined(self, call: FailedCall, found: UsageError) -> Quarantined:
        context, error = self._context, call.error
        line, trace = users_line(error) or "", ""
        if isinstance(found, UserFunctionError):
            line, trace = found.line, found.traceback_text
        return Quarantined(
            operator=context.uid,
            subtask=context.subtask,
            attempt=context.attempt,
            failed_ms=context.clock.now_ms(),
            kind=type(error).__name__,
            message=shorten_text(str(error)),
            line=encodable(line),
            traceback=shorten_text(trace or users_traceback(error)),
            key=_text_of(call.key),
            record=None if call.timer else encodable(shorten(call.record, TEXT_MAX)),
            timestamp=call.timestamp,
            timer=call.timer,
            data=None if call.timer else _data_of(call.record),
            held=isinstance(self._policy, Holding),
        )


def shorten_text(text: str) -> str:
    return encodable(text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}...")


def _text_of(value: object) -> str | None:
    return None if value is None else encodable(shorten(value, TEXT_MAX))


def _data_of(record: Any) -> str | None:
    with suppress(TypeError, ValueError, UsageError, OverflowError):
        return base64.b64encode(encode_tagged(record)).decode()
    with suppress(TypeError, ValueError, UsageError, OverflowError):
        fields = as_plain(record.as_dict() if isinstance(record, Row) else record)
        return base64.b64encode(encode_tagged(fields)).decode()
    return None
