"""Remembers the newest log lines of a job: those of its driver, and those that its workers have sent.

A process has room of its own, so that one that logs much does not push out what the others have said.
"""

from __future__ import annotations

import heapq
import logging
import os
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headgate.common.plain_data import Json
from headgate.common.process.kept_lines import LogLine, line_of

DRIVER: Final = "driver"
LINES_MAX: Final = 800
WARNINGS_MAX: Final = 200
"""Lines of each process that are kept: those below a warning, and warnings and errors, which a storm of other
lines does not push out."""
BYTES_MAX: Final = 8_000_000
"""Bytes of all lines that are kept; beyond it, the process with the most of them loses its oldest."""
SHOWN_MAX: Final = 2_000
SHOWN_BYTES_MAX: Final = 2_000_000
"""The newest lines of one answer; the rest is counted as `older`."""

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


@dataclass(slots=True)
class _OfProcess:
    lines: deque[tuple[int, LogLine]] = field(default_factory=deque)  # with their numbers
    warnings: deque[tuple[int, LogLine]] = field(default_factory=deque)  # and errors
    size: int = 0
    left_out: int = 0  # lines that it has dropped before they came here


@dataclass(frozen=True, slots=True)
class WantedLines:
    """Which lines are asked for; by default all. `after` is the number of a line that is known already."""

    process: str | None = None  # "driver", "workers", or "worker-0" and the like
    level: str | None = None  # the least one, a name in `LEVELS`
    text: str = ""  # that message, exception, logger or uid contains, in upper or lower case
    after: int = 0
    limit: int = SHOWN_MAX

    def take(self, line: Mapping[str, Json]) -> bool:
        """Return whether a line, as fields by name, is one of these."""
        process = line.get("process")
        if _whole(line.get("number")) <= self.after:
            return False
        if self.process not in (None, process) and not (self.process == "workers" and process != DRIVER):
            return False
        if self.level is not None and level_number(str(line.get("level"))) < LEVELS[self.level]:
            return False
        wanted = self.text.lower()
        return not wanted or any(
            wanted in str(line.get(name) or "").lower() for name in ("message", "exception", "logger", "uid")
        )


def level_number(name: str) -> int:
    """Return the number of a level by its name as a log line has it; 0 for one that is not known."""
    found = logging.getLevelName(name)
    return found if isinstance(found, int) else 0


class LogBook:
    """The newest log lines of one job, by process; any thread may use it.

    Attributes:
        ever: how many lines there were, with those that were dropped.
        newest: number of the newest line; they are numbered from 1 as they come.
    """

    def __init__(self) -> None:
        # What is collected as garbage while it is held may log something, in the same thread.
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._processes: dict[str, _OfProcess] = {}
        self._size = self.ever = self.newest = 0

    def heard(self, record: logging.LogRecord) -> None:
        """Take a record of this process's log, which has passed a `ContextFilter`."""
        if os.getpid() != self._pid:
            return  # a child of this process: another thread may have held the lock when it was forked
        line = line_of(record)
        # Workers may be threads of this process.
        self._take(DRIVER if line.worker is None else f"worker-{line.worker}", [line], 0)

    def sent(self, slot: int, lines: Iterable[LogLine], left_out: int) -> None:
        """Take lines that the worker of a slot has sent; it has dropped `left_out` lines meanwhile."""
        self._take(f"worker-{slot}", [line.cut() for line in lines], left_out)

    def _take(self, process: str, lines: Sequence[LogLine], left_out: int) -> None:
        with self._lock:
            kept = self._processes.setdefault(process, _OfProcess())
            kept.left_out += left_out
            self.ever += len(lines) + left_out
            for line in lines:
                severe = level_number(line.level) >= logging.WARNING
                group, most = (kept.warnings, WARNINGS_MAX) if severe else (kept.lines, LINES_MAX)
                self.newest += 1
                group.append((self.newest, line))
                kept.size += line.size
                self._size += line.size
                if len(group) > most:
                    self._drop(kept, group)
            while self._size > BYTES_MAX:
                largest = max(self._processes.values(), key=lambda each: each.size)
                self._drop(largest, largest.lines or largest.warnings)

    def _drop(self, kept: _OfProcess, group: deque[tuple[int, LogLine]]) -> None:
        _, line = group.popleft()
        kept.size -= line.size
        self._size -= line.size

    def facts(self, wanted: WantedLines | None = None) -> dict[str, Json]:
        """Return the wanted lines of all processes, sorted by time, as `docs/page.md` describes them."""
        with self._lock:
            kept = {name: [*each.lines, *each.warnings] for name, each in list(self._processes.items())}
            processes: list[Json] = [
                {"process": name, "lines": len(kept[name]), "left_out": each.left_out}
                for name, each in sorted(self._processes.items(), key=lambda item: _place(item[0]))
            ]
            ever, newest = self.ever, self.newest
        all_lines = (
            {"number": number, "process": name, **_fields(line)}
            for name, lines in kept.items()
            for number, line in lines
        )
        return {"processes": processes, "newest": newest, "ever": ever, **chosen(all_lines, wanted)}


def chosen(lines: Iterable[dict[str, Json]], wanted: WantedLines | None = None) -> dict[str, Json]:
    """Return as `lines` those of `lines` (fields by name) that are wanted, sorted by time; and as `older` how
    many older ones would fit, too.
    """
    asked = wanted or WantedLines()
    fitting = [line for line in lines if asked.take(line)]
    most = min(asked.limit, SHOWN_MAX)
    newest = sorted(heapq.nlargest(most, fitting, key=_moment), key=_moment)
    size = 0
    for place, line in reversed(list(enumerate(newest))):
        size += len(str(line.get("message"))) + len(str(line.get("exception"))) + 300
        if size > SHOWN_BYTES_MAX:
            newest = newest[place + 1 :]
            break
    shown: list[Json] = list(newest)
    return {"lines": shown, "older": len(fitting) - len(newest)}


def _moment(line: Mapping[str, Json]) -> tuple[int, int]:
    return _whole(line.get("time_ms")), _whole(line.get("number"))


def _whole(value: Json) -> int:
    return value if isinstance(value, int) else 0


def _fields(line: LogLine) -> dict[str, Json]:
    return {name: getattr(line, name) for name in LogLine.__struct_fields__}


def _place(process: str) -> tuple[bool, int, str]:
    _, _, slot = process.partition("worker-")
    return process != DRIVER, int(slot) if slot.isdigit() else -1, process
