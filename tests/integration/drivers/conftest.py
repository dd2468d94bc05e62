"""Drivers of one job for each test; none outlives it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from driver_processes import Drivers


@pytest.fixture
def drivers(tmp_path: Path) -> Iterator[Drivers]:
    """Starts drivers with high availability on files."""
    made = Drivers(tmp_path)
    yield made
    made.close()
