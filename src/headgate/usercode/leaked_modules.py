"""Watches for modules of closed namespaces that stay in memory, and for too many of them in a process.

A leak of one namespace is a warning. A worker that runs one job after the other and keeps each of them would
run out of memory at an arbitrary time and place; so it ends earlier, says why, and Spark starts another one.
"""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from headgate.common.files.durable import clock
from headgate.common.process.processes import resident_bytes
from headgate.usercode.exhaustion import LoaderBounds
from headgate.usercode.namespaces.leaks import LeakReport, examine
from headgate.usercode.namespaces.loader import Namespace, Token

BUILTINS: Final = "builtins"
"""Not counted: a namespace's builtins live as long as any one function of it, and hold no module."""
_log = logging.getLogger("headgate.usercode")


@dataclass(slots=True)
class _Left:
    tokens: Mapping[str, weakref.ref[Token]]
    grown: int
    closed_s: float = 0.0
    report: Callable[[], LeakReport] | None = None  # makes its report; None once it is logged

    def modules(self) -> int:
        return sum(token() is not None for name, token in self.tokens.items() if name != BUILTINS)


class LeakedModules:
    """Counts modules of closed namespaces still in memory; logs those that stay over `release_s` seconds."""

    def __init__(self, clock: Callable[[], float] = clock.monotonic) -> None:
        self.release_s = 0.0  # grace period after a namespace's end: its running code may end by itself
        self._clock = clock
        self._opened: dict[str, _Left] = {}
        self._left: list[_Left] = []

    @property
    def modules(self) -> int:
        return sum(one.modules() for one in self._left)

    def opening(self, namespace: Namespace) -> None:
        """Record the process's memory before a namespace loads modules: later growth counts as its own."""
        self._opened[namespace.name] = _Left(namespace.tokens, resident_bytes())

    def ended(self, report: LeakReport) -> None:
        """Record by its `report` that a worker's namespace closed; warn if modules stay for `release_s` s."""
        before = self._opened.pop(report.namespace, None)
        if before is None or not before.modules():
            if report.leaked:
                _log.warning("%s", report)
            return
        grown = max(0, resident_bytes() - before.grown)
        self._left.append(_Left(before.tokens, grown, self._clock(), lambda: report))
        self._judge()

    def closed(self, namespace: Namespace) -> None:
        """Record that a program's isolated namespace has closed on the driver, to be examined later.

        Its last callers are still on the stack. The growth of the process means nothing here: it holds Spark,
        results, and what other programs do meanwhile.
        """
        self._left.append(_Left(namespace.tokens, 0, self._clock(), lambda: examine(namespace)))

    def exceeded(self, bounds: LoaderBounds) -> str | None:
        """Return why this process has leaked too much, as part of a sentence; None: it is within `bounds`.
        It logs each namespace that stays, once, and collects garbage before it tells a reason.
        """
        if self._exceeds(bounds) is None:
            return None
        gc.collect()
        return self._exceeds(bounds)

    def _exceeds(self, bounds: LoaderBounds) -> str | None:
        leaked = self._judge()
        return bounds.exceeded(len(leaked), sum(one.grown for one in leaked))

    def _judge(self) -> list[_Left]:
        leaked = self._overdue()
        if any(one.report is not None for one in leaked):
            gc.collect()  # modules are cycles: what is not referenced any more may still be there
            leaked = self._overdue()
        for one in leaked:
            report, one.report = None if one.report is None else one.report(), None
            if report is not None and report.leaked:
                _log.warning("%s", report)
        return leaked

    def _overdue(self) -> list[_Left]:
        self._left = [one for one in self._left if one.modules()]
        return [one for one in self._left if self._clock() - one.closed_s >= self.release_s]
