"""What Spark says of a failed computation: the cause first, then the rest without the frames of Java."""

from __future__ import annotations

import re
from typing import Final, NotRequired, TypedDict

from headgate.common import errors
from headgate.common.errors import HeadgateError

HEAD: Final = 6
TAIL: Final = 24
"""So many lines of a long text are shown from its begin and its end, where a Python traceback ends."""

_FRAME: Final = re.compile(r"\s*(at [\w.$/<>]+\(.*\)|\.\.\. \d+ more|Driver stacktrace:|JVM stacktrace:)\s*")
_CAUSE: Final = "Caused by: "


class ToldError(TypedDict):
    """The columns by which a task of Spark tells an error of Headgate's: its class and its message."""

    error: NotRequired[str | None]
    text: NotRequired[str | None]


def refuse_told(row: ToldError) -> None:
    """Raise the error that a task has told in its row, if any."""
    name = row.get("error")
    if name is not None:
        kind: type[HeadgateError] = getattr(errors, name, HeadgateError)
        raise kind(row.get("text"))


def told(error: BaseException) -> str:
    r"""The text of an error of Spark's.

    Example:
        >>> print(told(ValueError("An exception was thrown from the Python worker.\nTraceback:\n"
        ...                       '  File "users.py", line 7, in rate\nZeroDivisionError: division by zero')))
        ZeroDivisionError: division by zero
          An exception was thrown from the Python worker.
          Traceback:
            File "users.py", line 7, in rate
          ZeroDivisionError: division by zero
        >>> told(ValueError("no such table: t\n\tat java.lang.Thread.run(Thread.java:840)"))
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
    """The line that says why: the innermost of Java's, or the end of Python's traceback."""
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    python = next((at for at, line in enumerate(lines) if line.startswith("Traceback (most recent")), None)
    if python is not None:
        # A traceback's last line is the first behind its begin that is not indented.
        raised = [line for line in lines[python + 1 :] if not line[0].isspace()]
        if raised:
            return raised[0]
    if causes:
        return causes[-1]
    return lines[-1] if "Python worker" in lines[0] else lines[0].strip()
