"""The forms of log lines: text for people, and one JSON object a line for machines."""

from __future__ import annotations

import json
import logging
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Final, overload

from typing_extensions import override

from headgate.common.masking import Mask
from headgate.common.plain_data import Json
from headgate.common.refusals.texts import encodable, shortened

FIELDS_MAX: Final = 20
FIELD_CHARS_MAX: Final = 1_000
"""So many fields that a program adds to a line, and so many characters of each, are written."""

WARNINGS_MAX: Final = 100

_USUAL: Final = frozenset(
    {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
    | {"headgate_task", "headgate_job", "headgate_mask"}
    | {"job", "uid", "subtask", "attempt", "checkpoint"}
)


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The subtask that a thread works for; its fields appear in the thread's log lines.

    Attributes:
        job: the job's id or name.
        uid: uid of the operator, or of the first operator of a chain.
        subtask: index of the subtask, from 0.
        attempt: number of the attempt (deployment of the job), from 1.
    """

    job: str | None = None
    uid: str | None = None
    subtask: int | None = None
    attempt: int | None = None


@dataclass(slots=True, eq=False)
class LoggedJob:
    """A job that runs in this process, as log lines name it; its owner sets the fields when they are known.

    Attributes:
        name: the job's name.
        id: the job's id; None as long as there is none.
        attempt: number of the present attempt; None before the first.
        worker: the slot of the worker that this process is; None in the driver.
        mask: hides the job's secrets in the lines.
        warnings: the newest warnings about the job, as fields of log lines, where its driver keeps them.
    """

    name: str
    id: str | None = None
    attempt: int | None = None
    worker: int | None = None
    mask: Mask = field(default_factory=Mask)
    warnings: deque[dict[str, Json]] = field(default_factory=lambda: deque(maxlen=WARNINGS_MAX))


NO_TASK: Final = TaskContext()
_NO_MASK: Final = Mask()


class PlainFormatter(logging.Formatter):
    """Formats log lines for people: time with zone, level, fields, logger, message; secrets are masked."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        context: TaskContext = getattr(record, "headgate_task", NO_TASK)
        mask: Mask = getattr(record, "headgate_mask", _NO_MASK)
        known = {name: value for name, value in asdict(context).items() if value is not None}
        fields = "".join(f"{name}={mask.text(str(value))} " for name, value in known.items())
        message = shortened(mask.text(record.getMessage()))
        time = datetime.fromtimestamp(record.created).astimezone().isoformat(" ", "milliseconds")
        text = f"{time} {record.levelname} {fields}{mask.text(record.name)}: {message}"
        return "\n".join([text, *map(mask.text, _details(self, record))])


class JsonFormatter(logging.Formatter):
    """Formats log lines for machines: one JSON object each, of ASCII characters; what is not known is null.
    Secrets are masked, and long texts are cut, with a note of how much was left out.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(facts_of(self, record))


def facts_of(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, Json]:
    """Return the fields of a log line as plain values, by the names that `docs/cli-output.md` lists."""
    context: TaskContext = getattr(record, "headgate_task", NO_TASK)
    job: LoggedJob | None = getattr(record, "headgate_job", None)
    mask: Mask = getattr(record, "headgate_mask", _NO_MASK)
    in_driver = job is not None and context.subtask is None
    line: dict[str, Json] = {
        "time": _utc(record.created),
        "time_ms": int(record.created * 1000),
        "level": record.levelname,
        "logger": _short(record.name, mask),
        "message": shortened(mask.text(_message(record))),
        "job": _short(context.job, mask),
        "uid": _short(context.uid, mask),
        "subtask": context.subtask,
        "attempt": context.attempt
        or _number(record, "attempt")
        or (job.attempt if job and in_driver else None),
        "checkpoint": _number(record, "checkpoint"),
        "job_name": None if job is None else _short(job.name, mask),
        "job_id": None if job is None else job.id,
        "worker": context.subtask if job is None or job.worker is None else job.worker,
        "pid": record.process,
    }
    if details := _details(formatter, record):
        line["exception"] = mask.text("\n".join(details))
    if extra := _extra(record, mask):
        line["extra"] = extra
    return {name: encodable(value) if isinstance(value, str) else value for name, value in line.items()}


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    # A line that cannot be formatted is written all the same: logging's own report would be no JSON.
    try:
        return record.getMessage()
    except Exception as error:
        return f"{record.msg!r:.{FIELD_CHARS_MAX}} (with arguments that do not fit: {type(error).__name__})"


def _number(record: logging.LogRecord, name: str) -> int | None:
    value = record.__dict__.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        return None
    return int(value)


def _extra(record: logging.LogRecord, mask: Mask) -> dict[str, Json]:
    # What the program gave by `extra=`; names of its own, in their order.
    own: Mapping[str, object] = {name: each for name, each in vars(record).items() if name not in _USUAL}
    return {
        _short(str(name), mask): _plain(str(name), value, mask)
        for name, value in list(own.items())[:FIELDS_MAX]
    }


def _plain(name: str, value: object, mask: Mask) -> Json:
    # JSON has no infinite numbers, and its readers few of more than 64 bits: those are texts.
    if isinstance(value, float) and math.isfinite(value):
        return value
    if value is None or (isinstance(value, int) and -(2**63) <= value < 2**64):
        return value
    return shortened(mask.value(name, _text(value)), FIELD_CHARS_MAX)


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception as error:
        return f"(a {type(value).__name__} without text: {type(error).__name__})"


@overload
def _short(text: str, mask: Mask) -> str: ...
@overload
def _short(text: str | None, mask: Mask) -> str | None: ...
def _short(text: str | None, mask: Mask) -> str | None:
    return None if text is None else shortened(mask.text(text), FIELD_CHARS_MAX)


def _details(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    raised = record.exc_info
    found = [] if not raised or raised[0] is None else [shortened(formatter.formatException(raised))]
    return found if record.stack_info is None else [*found, formatter.formatStack(record.stack_info)]
