"""The namespace loader in interpreters of its own: names, imports of every kind, options, the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from interpreters import VERSIONS

Findings = Callable[[str, str], dict[str, Any]]

pytestmark = [pytest.mark.ci, pytest.mark.timeout(240)]
EACH = pytest.mark.parametrize("version", VERSIONS)
"""The quick tier has the checks of the scenarios, in the first of these."""


def wrong(found: dict[str, Any]) -> dict[str, Any]:
    """The checks that do not hold."""
    return {name: said for name, said in found.items() if said != "ok"}


@EACH
def test_two_jobs_and_the_framework_keep_apart(version: str, findings: Findings) -> None:
    """Whatever way a module is asked for, each gets its own; nothing of a job reaches the others."""
    found = findings("namespace_program.py", version)
    assert wrong(found) == {}
    assert len(found) >= 74


@EACH
def test_classes_data_threads_and_objects_of_several_loaders(version: str, findings: Findings) -> None:
    """Whose class, whose resource, whose version; many namespaces at once; and what may cross."""
    found = findings("loading_program.py", version)
    assert wrong(found) == {}
    assert len(found) >= 19


@EACH
def test_the_end_of_a_namespace(version: str, findings: Findings) -> None:
    """What is released, what refuses, and who is named as the holder of the rest."""
    found = findings("closing_program.py", version)
    assert wrong(found) == {}
    assert len(found) >= 25


@EACH
def test_a_hostile_bundle_runs_nothing(version: str, findings: Findings) -> None:
    """What Python runs by itself elsewhere."""
    found = findings("hostile_program.py", version)
    assert wrong(found) == {}
    assert len(found) >= 7
