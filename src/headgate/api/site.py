"""Finds the line of the user's program that called Headgate, and whether the program is interactive."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType

from headgate.common.refusals.cells import running_shell, short_place

_OURS = str(Path(__file__).absolute().parents[1]) + os.sep


def user_site() -> str:
    """Return file and line, ``job.py:12`` or ``In[3]:2``, of the nearest caller outside Headgate, or ""."""
    frame = sys._getframe(1)
    while _is_ours(frame):
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return short_place(frame.f_code.co_filename, frame.f_lineno)


def interactive() -> bool:
    """Return whether the program is written and run step by step, in a shell or a notebook."""
    if hasattr(sys, "ps1") or sys.flags.interactive:
        return True
    return running_shell() is not None


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    if name == "<string>":  # the generated __init__ of a dataclass
        return str(frame.f_globals.get("__name__")).startswith("headgate.")
    return name.startswith(_OURS)
