"""What every whole job begins with."""

from __future__ import annotations

import pytest
from mini_jobs import Halting


@pytest.fixture(autouse=True)
def nothing_has_crashed_yet() -> None:
    """Sources that crash once do so in each test, whatever names the tests before it gave to theirs."""
    Halting.crashed.clear()
