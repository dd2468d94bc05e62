"""Sorts tests into tiers by the folders they lie in, quick tiers first; makes random tests repeatable.

The tiers themselves are defined in `pyproject.toml`.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TIER_OF_FOLDER = {
    "unit": "unit",
    "compat": "unit",
    "architecture": "architecture",
    "typing": "architecture",
    "jobs": "jobs",
    "integration": "integration",
}
TIMEOUT_S = {"jobs": 120, "integration": 240}
ORDER = ["unit", "architecture", "jobs", "integration"]
"""Quick ones first: they fail sooner, and Spark in the process slows down every collection of garbage."""

LINES_OF_A_FAILURE = 15
SLOW_FILES = Path(__file__).with_name("slow_files.txt")

settings.register_profile(
    "repeatable",
    derandomize=True,  # the same examples on every machine: a red run can be repeated
    database=None,
    deadline=None,  # a busy machine is no failure
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")

_is_main = threading.current_thread() is threading.main_thread()
if _is_main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As when a script started the tests with `&`: what they start would never hear of a Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()
"""Until all tests are collected: nothing of what is imported meanwhile is ever garbage."""
_writes_no_bytecode = sys.dont_write_bytecode
sys.dont_write_bytecode = False  # rewriting the assertions of all tests takes longer than to import them

if "HEADGATE_HOME" not in os.environ:
    # Drivers that tests kill must not be listed among the user's own jobs.
    os.environ["HEADGATE_HOME"] = tempfile.mkdtemp(prefix="headgate-tests-")
    atexit.register(shutil.rmtree, os.environ["HEADGATE_HOME"], ignore_errors=True)


class Failures:
    """Shows each failure at once: a run that is ended from outside never comes to its summary.

    Args:
        config: of the process that shows the results.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the test, and the last lines of what went wrong."""
        if report.failed:
            lines = report.longreprtext.splitlines()[-LINES_OF_A_FAILURE:]
            self._config.get_terminal_writer().write(
                "\n" + "\n".join([f"failed: {report.nodeid}", *lines, ""])
            )


def pytest_configure(config: pytest.Config) -> None:
    """Show failures as they come, in the one process that all tests report to."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(Failures(config), "failures")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test with its tier; one outside the tiers is an error, not a test without rules."""
    root = Path(__file__).parent
    seconds = seconds_of_files(SLOW_FILES.read_text(encoding="utf-8"))
    places: dict[str, tuple[int, float]] = {}
    for item in items:
        if not item.path.is_relative_to(root):
            continue
        folder = item.path.relative_to(root).parts[0]
        if folder not in TIER_OF_FOLDER:
            raise pytest.UsageError(
                f"{item.nodeid} lies in no tier; move it below one of {sorted(TIER_OF_FOLDER)}"
            )
        tier = TIER_OF_FOLDER[folder]
        places[item.nodeid] = (ORDER.index(tier), -seconds[item.path.relative_to(root.parent).as_posix()])
        item.add_marker(getattr(pytest.mark, tier))
        if tier in TIMEOUT_S and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S[tier]))
    items.sort(key=lambda item: places.get(item.nodeid, (0, 0.0)))


def seconds_of_files(text: str) -> defaultdict[str, float]:
    """File -> seconds that its tests take; 0 of those that are not listed."""
    rows = [line.split() for line in text.splitlines() if line and line[0] != "#"]
    return defaultdict(float, {path: float(seconds) for seconds, path in rows})


def pytest_collection_finish() -> None:
    """Tests run as without all those other tests: no collection of garbage looks at what they consist of."""
    gc.freeze()
    gc.enable()
    sys.dont_write_bytecode = _writes_no_bytecode
