"""Samples the stack of a worker's loop, so that its job's page can show where user code spends its time.

Nothing is sampled unless the job master asks for it, in its answers to heartbeats: it numbers the samplings,
and the worker's heartbeats carry what has been found in the one of that number.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path, PurePath
from types import FrameType
from typing import Final

from headgate.common.refusals.users_frames import is_of_program, is_users_file
from headgate.core.bottleneck.areas import (
    CHECKPOINT,
    FRAMEWORK,
    IDLE,
    ROCKSDB,
    SENDING,
    SERIALIZATION,
    stack_name,
)
from headgate.runtime.worker.operators.operator_contract import call_of_operator, frames_outward

EVERY_S: Final = 0.02
LONGEST_S: Final = 120.0  # a sampling ends by itself then, whatever the job master says
STACKS_MAX: Final = 400  # different ones; what comes after them counts as "(more)"
FRAMES_MAX: Final = 40

_ROOT: Final = f"{Path(__file__).resolve().parents[2]}/"
_AREAS: Final = {
    **dict.fromkeys(("runtime/worker/snapshot/", "state/rocksdb/snapshot.py", "checkpoint/"), CHECKPOINT),
    "state/rocksdb/": ROCKSDB,
    **dict.fromkeys(("serde/", "runtime/protocol/", "records/detach.py"), SERIALIZATION),
    **dict.fromkeys(("runtime/worker/exchange/", "runtime/transport/"), SENDING),
}
"""What the framework does in its files. The first that fits names a call, with all that is called in it."""


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
    """Return a stack, given with the innermost frame first, as text with semicolons between: the operator
    that is called, then the functions of the user's code and of the libraries that it uses, outermost first.
    What Headgate does there is an area in parentheses, if it is a special one, or the innermost.
    """
    called = call_of_operator(frames)
    if called is not None:
        where, inner = called
        return ";".join([stack_name(where.label), *_calls(inner)])
    if any(frame.f_code.co_qualname == "Mailbox.wait" for frame in frames):
        return IDLE
    return area_of([frame.f_code.co_filename for frame in frames])


def _calls(frames: Sequence[FrameType]) -> list[str]:
    found: list[str] = []
    for users, group in groupby(frames[:FRAMES_MAX], lambda frame: is_users_file(frame.f_code.co_filename)):
        if users:
            found += map(_name, group)
            continue
        area = area_of([frame.f_code.co_filename for frame in group])
        if area != FRAMEWORK or not found:
            found.append(area)
    return found[::-1] or [FRAMEWORK]


def area_of(files: Sequence[str]) -> str:
    """Return what the framework does in calls whose code is in `files`.

    Example:
        >>> area_of([f"{_ROOT}serde/codecs/rows.py", f"{_ROOT}state/rocksdb/state_table.py"])
        '(state in RocksDB)'
        >>> area_of([f"{_ROOT}runtime/worker/operators/fused.py"])
        '(Headgate)'
    """
    inside = [file.removeprefix(_ROOT) for file in files]
    for place, area in _AREAS.items():
        if any(file.startswith(place) for file in inside):
            return area
    return FRAMEWORK


def _name(frame: FrameType) -> str:
    code = frame.f_code
    path = PurePath(code.co_filename)
    # The folder tells a library from the program's own files.
    file = path.name if is_of_program(code.co_filename) else f"{path.parent.name}/{path.name}"
    return stack_name(f"{code.co_qualname} ({file}:{code.co_firstlineno})")
