"""`import headgate` is cheap: it loads nothing but the standard library and itself."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from source_tree import PACKAGE, ROOT

HEAVY = ["pyspark", "py4j", "pyarrow", "numpy", "pandas", "polars", "rocksdict", "kazoo", "confluent_kafka",
         "fastavro", "typer", "rich", "obstore", "starlette", "uvicorn"]  # fmt: skip

MODULES = ["headgate"] + [
    f"headgate.api.{path.stem}" for path in sorted((PACKAGE / "api").glob("*.py")) if path.stem != "__init__"
]


def loaded_by(statement: str) -> set[str]:
    """Top-level packages in a fresh interpreter after one statement."""
    report = "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    code = f"import sys, json; {statement}; {report}"
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("module", MODULES)
def test_importing_loads_nothing_heavy(module: str) -> None:
    """No package of others that is large, optional or not fork-safe comes with the first import."""
    assert loaded_by(f"import {module}") & set(HEAVY) == set()


def test_the_test_kit_needs_no_test_runner() -> None:
    """`headgate.testing` works without pytest; only the suites are made of its classes."""
    assert loaded_by("import headgate.testing") & {"pytest", "_pytest", "hypothesis"} == set()


def test_the_measurement_notices_a_heavy_import() -> None:
    """A heavy import would be seen."""
    assert "numpy" in loaded_by("import numpy")
