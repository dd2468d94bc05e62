"""What `execute()` does where only the plan is asked for: write it as plain values, and end the program."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from headgate.common.process.interruptions import PastAllHandlers
from headgate.common.settings.config import Config
from headgate.graph.logical import Node
from headgate.graph.physical import PhysicalPlan

CAPTURE_FORMAT: Final = 1
"""Version of the captured structure."""

INSPECTION_VARIABLE: Final = "HEADGATE_INSPECTION"
"""Environment variable that holds an inspector and its request as JSON."""


class CaptureComplete(PastAllHandlers):
    """Ends the program once its plan is written; no ``except Exception`` of the program's holds it up."""


def inspected(nodes: Sequence[Node], plan: PhysicalPlan, config: Config) -> dict[str, Any]:
    """What the inspection found, under ``inspection``; nothing where none was asked for."""
    asked = os.environ.get(INSPECTION_VARIABLE)
    if asked is None:
        return {}
    inspector, request = json.loads(asked)
    module, _, function = inspector.partition(":")
    return {"inspection": getattr(importlib.import_module(module), function)(request, nodes, plan, config)}


def write_captured(file: Path, facts: Mapping[str, Any], *, ends: bool = True) -> None:
    """Write the plan; called in the child.

    Args:
        file: where to.
        facts: the plan.
        ends: whether this is ``execute()``, which ends the program. A look at a stream before it counts only
            where the program comes to none.

    Raises:
        CaptureComplete: it ends.
    """
    file.write_text(json.dumps({"format": CAPTURE_FORMAT, **facts}), encoding="utf-8")
    if ends:
        raise CaptureComplete
