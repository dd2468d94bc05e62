"""Each test has a folder of jobs of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from endpoint_samples import Answering, answering


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def served(home: Path) -> Iterator[Answering]:
    """An endpoint that answers."""
    with answering() as made:
        yield made
