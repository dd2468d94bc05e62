"""Levels of loggers that are set for a while, such as for as long as a job is looked at."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

LEVELS: Final = ("debug", "info", "warning", "error")


class LogLevels:
    """Sets levels of this process's loggers, and gives them back those that they had before.

    Example:
        >>> levels = LogLevels()
        >>> levels.use({"headgate.example": "debug"})
        >>> logging.getLogger("headgate.example").isEnabledFor(logging.DEBUG)
        True
        >>> levels.use({})
        >>> logging.getLogger("headgate.example").level == logging.NOTSET
        True
    """

    def __init__(self) -> None:
        self._before: dict[str, int] = {}

    def use(self, levels: Mapping[str, str]) -> None:
        """Give the loggers of these names ("" is the root) these levels, of :data:`LEVELS`, and all others
        that were given one back what they had.
        """
        for name in self._before.keys() - levels.keys():
            logging.getLogger(name).setLevel(self._before.pop(name))
        for name, level in levels.items():
            logger = logging.getLogger(name)
            self._before.setdefault(name, logger.level)
            logger.setLevel(level.upper())
