"""Names that tests and examples import from the package exist: those of them that the type checker does not
read would fail one by one, after minutes of other tests.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("folder", ["tests", "sim", "examples"])
def test_imported_names_exist(folder: str) -> None:
    """A name that is gone is told here, and not by the import of a test that nobody ran."""
    missing = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "headgate":
                module = importlib.import_module(node.module)
                names = [alias.name for alias in node.names if not _has(module, alias.name)]
                missing += [f"{path.relative_to(ROOT)}:{node.lineno}: {node.module}.{name}" for name in names]
    assert missing == []


def _has(module: ModuleType, name: str) -> bool:
    if hasattr(module, name):
        return True
    return hasattr(module, "__path__") and importlib.util.find_spec(f"{module.__name__}.{name}") is not None
