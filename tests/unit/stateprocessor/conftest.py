"""Puts the folder of the runtime's samples on the import path: savepoints are made with them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "runtime"))
