"""Why a query failed, as one sentence instead of Spark's pages."""

from __future__ import annotations

import re
from typing import Final

REASON_MAX: Final = 1000

_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\):\n(.*?)(?:\n\n|\n\tat |\Z)", re.DOTALL)
_JAVA: Final = re.compile(r"\A[^\n]*\n: ([\w.$]+(?:Exception|Error)\b.*)", re.DOTALL)
_END: Final = re.compile(r"\n\s*(?:at |\n|===|'|[+:]- |Caused by:)")
"""Behind what is said come traces, plans and causes."""


def reason_of(error: Exception) -> str:
    r"""What went wrong: of Python's errors the last line, of Java's all that is said, which may be several.

    Args:
        error: of Spark or Py4J.

    Example:
        >>> reason_of(ValueError("[X]\nTraceback (most recent call last):\n  File 1\nKeyError: 'k'\n"))
        "KeyError: 'k'"
        >>> reason_of(ValueError("calling o1.count.\n: a.LostException: It is gone.\nIt was 7.\n\tat a.B"))
        'a.LostException: It is gone. It was 7'
        >>> reason_of(ValueError("[NO_COLUMN] No column x;\n'Project ['x]\n+- Range"))
        '[NO_COLUMN] No column x'
    """
    desc: str = getattr(error, "desc", None) or str(error) or type(error).__name__
    text = str(desc).strip()
    found = _TRACEBACK.search(text)
    lines = [] if found is None else [line for line in found[1].splitlines() if line and line[0] not in " \t"]
    if lines:
        return lines[-1].strip()
    java = _JAVA.match(text)
    said = _END.split(text if java is None else java[1], maxsplit=1)[0]
    sentence = " ".join(said.split()).rstrip(".;")
    return sentence if len(sentence) <= REASON_MAX else sentence[: REASON_MAX - 3] + "..."
