"""The levels of loggers that were asked for while a job runs: in its driver, and in all its workers."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headgate.common.errors import OperatingError
from headgate.common.process.log_levels import LogLevels
from headgate.runtime.master.attempt.members import Members


class JobLogLevels:
    """The levels of one job's loggers, which last until the job ends. `members` are its workers, which get
    them with the answers to their heartbeats, and `post` has the job master's loop run a callback.
    """

    def __init__(self, members: Members, post: Callable[[Callable[[], None]], None]) -> None:
        self._members, self._post = members, post
        self._lock, self._mine = threading.Lock(), LogLevels()
        self._levels: dict[str, str] = {}
        self._over = False

    def set(self, logger: str, level: str | None) -> dict[str, str]:
        """Give `logger` ("": the root) a level, None: the one that it had before. Return all that are set.
        OperatingError: the job is over.
        """
        with self._lock:
            if self._over:
                raise OperatingError(
                    f"the level of logger {logger or 'root'!r} cannot be set, because the job is over; set "
                    "it in the program for what is logged after the job"
                )
            levels = {**self._levels, logger: level}
            self._levels = {name: each for name, each in levels.items() if each is not None}
            found = self._levels
            self._mine.use(found)
        self._post(lambda: setattr(self._members, "log_levels", found))
        return found

    def close(self) -> None:
        """Give the loggers of this process the levels that they had before."""
        with self._lock:
            self._over = True
            self._mine.use({})
