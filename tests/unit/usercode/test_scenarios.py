"""The scenarios of class loading under their ids: each with the checks of our programs that show it.

`docs/user-code-tests.md` has the table of all scenarios, also of those that need real packages or Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

NAMESPACE, LOADING, CLOSING = "namespace_program.py", "loading_program.py", "closing_program.py"

SCENARIOS: dict[str, dict[str, tuple[str, ...]]] = {
    "sJ1": {
        LOADING: (
            "sJ1 parent-first: one class for all",
            "sJ1 child-first: a class for each",
            "sJ1 pattern: the parent's class",
        ),
    },
    "sJ3": {
        LOADING: ("sJ3 two jobs have two loaders", "sJ3 a job keeps its loader", "sJ3 no lease, no job"),
        CLOSING: ("leases are counted", "other artifacts are refused", "release hooks run once"),
    },
    "5": {
        NAMESPACE: (
            *("lazy", "lazy outside", "lazy_from", "lazy_from outside", "in_thread", "in_thread outside"),
            *("by_name_in_pool", "executed", "executed outside"),
        ),
        LOADING: ("lazy import in a pool of the framework's",),
    },
    "6": {
        NAMESPACE: (
            *("by_name", "by_name outside", "by_name_in_thread", "relative_by_name", "dunder"),
            *("pkgutil_resolve", "pkgutil_walk", "found_spec", "reloaded", "run_module", "event_loop"),
            *("mocked", "mocked elsewhere"),
        ),
    },
    "7": {
        NAMESPACE: ("resources", "pkgutil_data", "metadata_version", "metadata_entry_points", "wheel"),
        LOADING: ("zip", "a parent-first distribution has the framework's version"),
    },
    "8": {NAMESPACE: ("namespace", "namespace_of_framework", "missing_part")},
    "9": {NAMESPACE: ("hints", "hints outside", "identity", "dispatched", "source", "cloned", "logger_name")},
    "10": {
        NAMESPACE: (
            *("pickled", "pickled_in_python", "C pickle from a framework frame", "function by value", "main"),
            "pickle written in one, read in the other",
        ),
    },
    "11": {
        NAMESPACE: ("identity",),
        LOADING: ("an API of both by a pattern is one", "the framework itself is one without asking"),
    },
    "12": {NAMESPACE: ("parent first", "parent first, only the user has it")},
    "13": {
        NAMESPACE: (
            *("pattern with a dot", "pattern without one", "pattern of a longer name"),
            "mandatory patterns",
        ),
    },
    "14": {
        NAMESPACE: ("standard library cannot be shadowed",),
        LOADING: ("a file named logging.py",),
        "hostile_program.py": (
            "files that shadow the standard library",
            "nor in a process that the job spawns",
        ),
    },
    "15": {
        NAMESPACE: (
            "framework's own lazy import",
            "framework's static import below user code",
            "framework module first imported by user code",
        ),
        LOADING: ("not imported before", "a standard module that user code imports first is executed once"),
    },
    "16": {NAMESPACE: ("forked", "spawned")},
    "17": {NAMESPACE: ("two threads",), LOADING: ("six threads open twenty-five namespaces each",)},
    "18": {CLOSING: ("a hundred cycles",)},
    "19": {
        CLOSING: (
            "a thread that imports is refused and named",
            "without the check it loads on",
            "a call through it is refused",
        ),
    },
    "20": {
        CLOSING: (
            *("registry", "signal handler", "kept exception", "timer", "atexit runs", "logging"),
            *("excepthook", "patched standard module", "patch is taken back"),
        ),
    },
    "23": {
        LOADING: (
            "the namespace's objects do not leave",
            "plain values and objects of other copies leave",
            "only a copy of its own is looked for",
            "objects of a shared copy leave",
        ),
    },
}
"""Scenario -> program -> the checks of that program."""


def _cases() -> Iterator[Any]:
    for scenario, programs in SCENARIOS.items():
        for program, checks in programs.items():
            for check in checks:
                # The end of namespaces takes its program a quarter of a minute.
                marks = (pytest.mark.ci,) if program == CLOSING else ()
                name = f"{scenario} {check.removeprefix(scenario).strip()}"
                yield pytest.param(program, check, id=name, marks=marks)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("program", "check"), list(_cases()))
def test_scenario(program: str, check: str, findings: Callable[[str], dict[str, Any]]) -> None:
    """sJ1, sJ3: a check that the scenario of its id asks for holds; so do the checks of isolation."""
    assert findings(program)[check] == "ok"
