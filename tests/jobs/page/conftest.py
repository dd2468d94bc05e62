"""Each test has a folder of jobs of its own; a browser is opened once for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import real_browser


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The real one; without one the test is skipped, with the reason."""
    try:
        opened = real_browser.opened()
        found = opened.__enter__()
    except real_browser.NoBrowserError as error:
        pytest.skip(f"no browser: {error}")
    try:
        yield found
    finally:
        opened.__exit__(None, None, None)
