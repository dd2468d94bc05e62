"""Where in the user's program something was written."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType

_OURS = str(Path(__file__).absolute().parents[1]) + os.sep


def user_site() -> str:
    """``file.py:12`` of the nearest caller outside Headgate; empty when there is none."""
    frame = sys._getframe(1)
    while _is_ours(frame):
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    if name == "<string>":  # the generated __init__ of a dataclass
        return str(frame.f_globals.get("__name__")).startswith("headgate.")
    return name.startswith(_OURS)
