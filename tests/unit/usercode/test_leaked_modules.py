"""What namespaces have left counts once they have had their time to end."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from headgate.usercode.exhaustion import LoaderBounds
from headgate.usercode.leaked_modules import LeakedModules
from headgate.usercode.namespaces.leaks import LeakReport
from headgate.usercode.namespaces.loader import Namespace

BOUNDS = LoaderBounds(loaders=0, bytes=1 << 40)


class Clock:
    """Stands still."""

    now = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


def ended(leftovers: LeakedModules, folder: Path) -> Any:
    """A namespace that has closed; gives what still holds it."""
    (folder / "own.py").write_text("def go(): return 1\n")
    namespace = Namespace("leaking", [str(folder)])
    leftovers.opening(namespace)
    go = namespace.import_module("own").go
    namespace.close()
    leftovers.ended(LeakReport(namespace.name, ("own",), (), (), ()))  # looking for holders takes seconds
    return go


def test_a_namespace_counts_behind_its_timeout(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Until then nothing is said; then it is told of once, and counts as long as it lives."""
    clock = Clock()
    leftovers = LeakedModules(clock)
    leftovers.release_s = 30.0
    with caplog.at_level(logging.WARNING, "headgate.usercode"):
        holder = ended(leftovers, tmp_path)
        clock.now = 29.0
        assert leftovers.exceeded(BOUNDS) is None
        assert caplog.messages == []
        clock.now = 30.0
        assert "classloader.max-leaked-loaders=0" in str(leftovers.exceeded(BOUNDS))
        assert leftovers.exceeded(BOUNDS) is not None
        assert len(caplog.messages) == 1
        assert "'leaking' was not released" in caplog.messages[0]
    del holder
    assert leftovers.exceeded(BOUNDS) is None


def test_what_has_gone_in_time_is_never_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As a thread that needs a moment to end."""
    clock = Clock()
    leftovers = LeakedModules(clock)
    leftovers.release_s = 30.0
    holder = ended(leftovers, tmp_path)
    clock.now = 10.0
    del holder
    leftovers.exceeded(BOUNDS)
    clock.now = 60.0
    assert leftovers.exceeded(BOUNDS) is None
    assert leftovers.modules == 0
    assert caplog.messages == []


@pytest.mark.timeout(300)  # who holds what is searched among all objects of a process full of tests
def test_programs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """One has ended and left nothing; the other still runs in the same driver."""
    leftovers = LeakedModules()
    (tmp_path / "own.py").write_text("def go(): return 1\n")
    one, other = (Namespace("job.py", [str(tmp_path)]) for _ in range(2))
    kept = [namespace.import_module("own").go for namespace in (one, other)]
    one.close()
    leftovers.closed(one)
    assert leftovers.exceeded(BOUNDS) is not None  # `kept` holds it
    del kept[0]
    assert leftovers.exceeded(BOUNDS) is None
    other.close()
    leftovers.closed(other)
    assert "1 loaders" in str(leftovers.exceeded(BOUNDS))
