"""Puts this folder on the import path, so that the tests of every room find the samples that lie in it.

The rooms of worker and job master are there, too: some tests use the fakes of others.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE / "master"), str(HERE / "worker")]
