"""Each test has a folder of jobs of its own; a browser is opened once for all tests of a process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import real_browser
from opened_page import Opened
from watched_jobs import Watched, watched


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The real one; without one the test is skipped, with the reason, unless a browser is demanded."""
    with ExitStack() as opened:
        try:
            found = opened.enter_context(real_browser.opened())
        except real_browser.NoBrowserError as error:
            if os.environ.get("HEADGATE_TEST_BROWSER_DEMANDED"):
                raise
            pytest.skip(f"no browser: {error}")
        yield found


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Watched]:
    """A job under way."""
    with watched(tmp_path) as running:
        yield running


@pytest.fixture
def window(browser: Any) -> Iterator[Opened]:
    """One of the usual size; nothing may have gone wrong in it."""
    made = Opened(browser)
    yield made
    made.context.close()
    assert made.wrong == []
