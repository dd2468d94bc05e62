"""The port to a thread in which an operator calls user code while its subtask goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from headgate.common.ports import Background


class CallThread(Background, Protocol):
    """A thread of one subtask; `done` of :meth:`submit` is called in the worker's loop, which it wakes."""

    def leave(self) -> None:
        """Have the thread end, and report nothing from now on. A call that is under way is not waited for."""


OpenThread: TypeAlias = Callable[[str], CallThread]
"""Begins the thread of one subtask, by its name. The worker reports one that outlives its job."""
