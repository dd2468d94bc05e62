"""The request for the newest log lines of a job, and what may be asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from headgate.common.errors import UsageError
from headgate.runtime.driver.endpoint.page.log_book import LEVELS, SHOWN_MAX, WantedLines

TEXT_MAX: Final = 200
_NAMES: Final = ("process", "level", "text", "after", "limit")
_PROCESS: Final = re.compile(r"driver|workers|worker-\d{1,6}", re.ASCII)


def wanted_lines(query: Mapping[str, str]) -> WantedLines:
    """Return which lines the parameters of a request ask for; UsageError for what they cannot be.

    Example:
        >>> wanted_lines({"process": "worker-1", "level": "warning"})
        WantedLines(process='worker-1', level='warning', text='', after=0, limit=2000)
    """
    for name in query:
        if name not in _NAMES:
            raise UsageError(f"there is no parameter {name[:40]!r}; expected one of: {', '.join(_NAMES)}")
    process, level, text = query.get("process"), query.get("level"), query.get("text", "")
    if process is not None and not _PROCESS.fullmatch(process):
        raise UsageError(f"process is {process[:40]!r}; expected driver, workers, or worker-0 and the like")
    if level is not None and level not in LEVELS:
        raise UsageError(f"level is {level[:40]!r}; expected one of: {', '.join(LEVELS)}")
    if len(text) > TEXT_MAX:
        raise UsageError(f"text has {len(text):,} characters; expected at most {TEXT_MAX}")
    return WantedLines(process, level, text, _number(query, "after", 0), _number(query, "limit", SHOWN_MAX))


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise UsageError(f"{name} is {text[:40]!r}; expected a whole number")
    return int(text)
