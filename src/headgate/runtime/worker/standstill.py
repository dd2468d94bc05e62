"""What a call of user code is at that has not returned for a while: whose it is, and its stack, sampled.

Looked at by the heartbeat's thread, which nothing but native code that keeps the interpreter's lock holds up.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Final

from headgate.common.refusals.users_frames import is_users_file
from headgate.runtime.protocol import messages as m
from headgate.runtime.worker.operators.operator_contract import operator_called
from headgate.runtime.worker.task.task import Task

STILL_MS: Final = 1_000
"""A call is reported that has lasted this long."""
FRAMES_MAX: Final = 20
LINE_MAX: Final = 300


def standstill_of(task: Task, thread: int, still_ms: int) -> m.Standstill:
    """What a subtask's call is at.

    Args:
        task: whose.
        thread: ident of the thread that is in the call.
        still_ms: how long it has been.
    """
    frames = list(_frames(thread))
    where = operator_called(frames) or task.head.context
    return m.Standstill(*task.id, where.label, still_ms, _told(frames))


def _frames(thread: int) -> Iterator[FrameType]:
    """Innermost first."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _told(frames: Sequence[FrameType]) -> str:
    """The user's frames as a traceback shows them, innermost last; without any, the innermost of all."""
    users: list[FrameType] = []
    for frame in frames:
        if is_users_file(frame.f_code.co_filename):
            users.append(frame)
        elif users:
            break  # what is further out has called Headgate
    return "\n".join(_line(frame) for frame in reversed(users[:FRAMES_MAX] or frames[:1]))


def _line(frame: FrameType) -> str:
    code, number = frame.f_code, frame.f_lineno
    text = linecache.getline(code.co_filename, number, frame.f_globals).strip()
    told = f"{code.co_filename}:{number} in {code.co_qualname}"
    return (f"{told}: {text}" if text else told)[:LINE_MAX]
