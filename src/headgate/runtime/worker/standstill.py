"""Describes calls of user code that do not return: the operator, and a sample of the stack.

The heartbeat's thread does it; only native code that holds the interpreter lock can delay it.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Final

from headgate.common.refusals.users_frames import is_users_file
from headgate.runtime.protocol import messages as m
from headgate.runtime.worker.operators.operator_contract import frames_outward, operator_called
from headgate.runtime.worker.task.task import Task

STILL_MS: Final = 1_000  # how long a call of user code has lasted when it is first reported
FRAMES_MAX: Final = 20
LINE_MAX: Final = 300


def standstill_of(task: Task, thread: int, still_ms: int) -> m.Standstill:
    """Return the report of a call of user code for `task`, running for `still_ms` in the thread of id
    `thread`. It has the stack as it is now, and the operator called (the chain's head if none is on it).
    """
    frames = list(frames_outward(sys._current_frames().get(thread)))
    where = operator_called(frames) or task.head.context
    return m.Standstill(*task.id, where.label, still_ms, _users_stack(frames))


def _users_stack(frames: Sequence[FrameType]) -> str:
    users: list[FrameType] = []
    for frame in frames:
        if is_users_file(frame.f_code.co_filename):
            users.append(frame)
        elif users:
            break  # the frames further out have called Headgate
    return "\n".join(_line(frame) for frame in reversed(users[:FRAMES_MAX] or frames[:1]))


def _line(frame: FrameType) -> str:
    code, number = frame.f_code, frame.f_lineno
    text = linecache.getline(code.co_filename, number, frame.f_globals).strip()
    place = f"{code.co_filename}:{number} in {code.co_qualname}"
    return (f"{place}: {text}" if text else place)[:LINE_MAX]
