"""Results of Spark's tasks: rows, errors of Headgate's as rows, and Spark's own errors as text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NotRequired, TypedDict

import pyarrow as pa

from headgate.common import errors
from headgate.common.errors import HeadgateError

HEAD: Final = 6
TAIL: Final = 24
"""Lines of a long text that are shown from its begin and its end, where a Python traceback ends."""

_ARROW_TYPES: Final = {
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
}
_FRAME: Final = re.compile(r"\s*(at [\w.$/<>]+\(.*\)|\.\.\. \d+ more|Driver stacktrace:|JVM stacktrace:)\s*")
_CAUSE: Final = "Caused by: "


class ReportedError(TypedDict):
    """Columns by which a row that a Spark task returns reports a HeadgateError: class name and message.

    An exception instead would be tried again several times, and shown by Spark as pages of text.
    """

    error: NotRequired[str | None]
    text: NotRequired[str | None]


class RowFormat:
    """The rows that tasks give back to the driver: some columns, and those of :class:`ReportedError`.

    Example:
        >>> rows = RowFormat("index int, file string")
        >>> rows.ddl
        'index int, file string, error string, text string'
        >>> rows.batch([{"index": 1}]).to_pylist()
        [{'index': 1, 'file': None, 'error': None, 'text': None}]
    """

    def __init__(self, columns: str) -> None:
        self.ddl = f"{columns}, error string, text string"  # as Spark takes a schema
        fields = (column.split() for column in self.ddl.split(", "))
        self._schema = pa.schema([(name, _ARROW_TYPES[kind]) for name, kind in fields])

    def batch(self, rows: Iterable[ReportedError]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(list(rows), schema=self._schema)

    def error(self, error: HeadgateError, where: str = "", **columns: int | str) -> pa.RecordBatch:
        """Return a batch of one row that reports `error` by its class and its text, which `where` begins.
        `columns` are other cells of the row; what is not given is null.
        """
        row = {**columns, "error": type(error).__name__, "text": f"{where}{error}"}
        return pa.RecordBatch.from_pylist([row], schema=self._schema)


def raise_reported(row: ReportedError) -> None:
    """Raise the HeadgateError that a row reports, of the class that it names; do nothing if it has none."""
    name = row.get("error")
    if name is not None:
        kind: type[HeadgateError] = getattr(errors, name, HeadgateError)
        raise kind(row.get("text"))


def readable(error: BaseException) -> str:
    r"""Return an error of Spark's as text: the cause, then at most 31 lines, without stack frames of Java.

    Example:
        >>> print(readable(ValueError("An exception was thrown from the Python worker.\nTraceback:\n"
        ...                       '  File "users.py", line 7, in rate\nZeroDivisionError: division by zero')))
        ZeroDivisionError: division by zero
          An exception was thrown from the Python worker.
          Traceback:
            File "users.py", line 7, in rate
          ZeroDivisionError: division by zero
        >>> readable(ValueError("no such table: t\n\tat java.lang.Thread.run(Thread.java:840)"))
        'no such table: t'
    """
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip() and not _FRAME.fullmatch(line)]
    if not lines:
        return type(error).__name__
    first = _cause(lines)
    if len(lines) == 1:
        return first
    if len(lines) > HEAD + TAIL:
        left_out = len(lines) - HEAD - TAIL
        lines = [*lines[:HEAD], f"... {left_out} more lines ...", *lines[-TAIL:]]
    return "\n  ".join([first, *lines])


def _cause(lines: list[str]) -> str:
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    python = next((at for at, line in enumerate(lines) if line.startswith("Traceback (most recent")), None)
    if python is not None:
        # A traceback's last line is the first one after its begin that is not indented.
        raised = [line for line in lines[python + 1 :] if not line[0].isspace()]
        if raised:
            return raised[0]
    if causes:
        return causes[-1]
    return lines[-1] if "Python worker" in lines[0] else lines[0].strip()
