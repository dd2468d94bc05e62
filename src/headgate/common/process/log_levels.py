"""Levels of loggers that are set for a while, such as for as long as a job is looked at."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Level(StrEnum):
    """The least level that a logger is to log, by name; UNSET is the level that it had before."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    UNSET = "unset"


class LogLevels:
    """Sets levels of this process's loggers for one job; any thread may use it. Where several jobs set one
    logger's level, the newest wish holds; with the last one the logger gets back the level that it had.

    Example:
        >>> levels = LogLevels()
        >>> levels.use({"headgate.example": "debug"})
        >>> logging.getLogger("headgate.example").isEnabledFor(logging.DEBUG)
        True
        >>> levels.use({})
        >>> logging.getLogger("headgate.example").level == logging.NOTSET
        True
    """

    def use(self, levels: Mapping[str, str]) -> None:
        """Give the loggers of these names ("" is the root) these levels, such as "debug", and wish nothing
        any more of all others.
        """
        with _lock:
            for name in [each for each, loggers in _set.items() if self in loggers.wishes]:
                if name not in levels:
                    _drop(name, self)
            for name, level in levels.items():
                _wish(name, self, level)


@dataclass(slots=True)
class _SetLogger:
    before: int  # its level before the first wish
    wishes: dict[LogLevels, str] = field(default_factory=dict)  # the newest one is last


_set: Final[dict[str, _SetLogger]] = {}
"""The loggers of this process whose level somebody has set."""
_lock: Final = threading.Lock()


def _wish(name: str, who: LogLevels, level: str) -> None:
    logger = logging.getLogger(name)
    found = _set.setdefault(name, _SetLogger(logger.level))
    if found.wishes.get(who) == level:
        return  # a wish that is repeated, as with each heartbeat, is no newer one
    found.wishes.pop(who, None)
    found.wishes[who] = level
    logger.setLevel(level.upper())


def _drop(name: str, who: LogLevels) -> None:
    logger, found = logging.getLogger(name), _set[name]
    del found.wishes[who]
    if found.wishes:
        logger.setLevel(list(found.wishes.values())[-1].upper())
    else:
        logger.setLevel(_set.pop(name).before)
