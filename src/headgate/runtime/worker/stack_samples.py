"""Samples the stack of a worker's loop, so that its job's page can show where user code spends its time.

Nothing is sampled unless the job master asks for it, in its answers to heartbeats: it numbers the samplings,
and the worker's heartbeats carry what has been found in the one of that number.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from types import FrameType
from typing import Final

from headgate.common.refusals.users_frames import is_users_file
from headgate.runtime.worker.operators.operator_contract import frames_outward, operator_called

EVERY_S: Final = 0.02
LONGEST_S: Final = 120.0  # a sampling ends by itself then, whatever the job master says
STACKS_MAX: Final = 400  # different ones; what comes after them counts as "(more)"
FRAMES_MAX: Final = 40
NAME_MAX: Final = 120

IDLE: Final = "(idle)"
OURS: Final = "(Headgate)"


class StackSamples:
    """Samples of the thread with the id `thread`; its methods are called by other threads."""

    def __init__(self, thread: int) -> None:
        self._thread, self._number = thread, 0
        self._found: Counter[str] = Counter()
        self._ending = threading.Event()

    def wanted(self, number: int) -> None:
        """Begin the sampling of this number, unless it is under way; 0 ends the one that is."""
        if number == self._number:
            return
        self._ending.set()
        self._number, self._found, self._ending = number, Counter(), threading.Event()
        if number:
            arguments = self._found, self._ending
            threading.Thread(target=self._run, args=arguments, name="headgate-samples", daemon=True).start()

    def found(self) -> tuple[int, dict[str, int]] | None:
        """Return the number of the sampling, and how often each stack was found; None: none is under way."""
        return (self._number, dict(self._found)) if self._number else None

    def _run(self, found: Counter[str], ending: threading.Event) -> None:
        for _ in range(int(LONGEST_S / EVERY_S)):
            if ending.wait(EVERY_S):
                return
            stack = stack_text(list(frames_outward(sys._current_frames().get(self._thread))))
            found[stack if stack in found or len(found) < STACKS_MAX else "(more)"] += 1


def stack_text(frames: Sequence[FrameType]) -> str:
    """Return a stack, given with the innermost frame first, as text: the operator that is called, then the
    functions of the user's code and of the libraries that it uses, outermost first, with semicolons between.
    """
    where = operator_called(frames)
    if where is None:
        waits = any(frame.f_code.co_qualname == "Mailbox.wait" for frame in frames)
        return IDLE if waits else OURS
    users: list[FrameType] = []
    for frame in frames:
        if is_users_file(frame.f_code.co_filename):
            users.append(frame)
        elif users:
            break  # the frames further out have called Headgate
    names = [_name(frame) for frame in reversed(users[:FRAMES_MAX])]
    return ";".join([_plain(where.label), *(names or [OURS])])


def _name(frame: FrameType) -> str:
    code = frame.f_code
    return _plain(f"{code.co_qualname} ({PurePath(code.co_filename).name}:{code.co_firstlineno})")


def _plain(text: str) -> str:
    return text.replace(";", ",")[:NAME_MAX]
