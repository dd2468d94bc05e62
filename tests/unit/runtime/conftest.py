"""Puts this folder on the import path, so that the tests of every room find the samples that lie in it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
