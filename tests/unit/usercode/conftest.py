"""What programs of checks have found: each is run once for all tests that ask."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from interpreters import VERSIONS, run_program


@pytest.fixture(scope="session")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Gives, for a program and a version of Python, check -> "ok" or what came instead."""

    @cache
    def found(program: str, version: str = VERSIONS[0]) -> dict[str, Any]:
        return run_program(program, tmp_path_factory.mktemp("program"), version)

    return found
