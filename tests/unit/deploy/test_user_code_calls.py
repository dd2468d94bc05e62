"""Memory that runs out in a function of a job, in a worker: while it imports, and while it computes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.deploy.spark.user_code.opening_code import OpenedAlone, OpenedCode
from headgate.deploy.spark.user_code.orders import Limits, ShippedCode
from headgate.usercode.bundle.artifacts import UserBundle
from headgate.usercode.loaders import Lease
from headgate.usercode.loading_errors import UserCodeLoadError
from headgate.usercode.namespaces.loader import Namespace, NamespaceSettings

PROGRAM = """
def imports():
    import hungry

def maps():
    raise ImportError("libx.so: failed to map segment from shared object")

def computes():
    raise MemoryError("one array too many")

def fails():
    import nowhere_to_be_found
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Any]:
    """The module, in a namespace."""
    (tmp_path / "hungry.py").write_text("raise MemoryError('no room for this module')")
    (tmp_path / "program.py").write_text(PROGRAM)
    namespace = Namespace("a job", [str(tmp_path)])
    yield namespace, namespace.import_module("program")
    namespace.close()


@pytest.mark.parametrize("tier", ["namespace", "process"])
def test_an_import_that_runs_out_of_memory_within_a_call(program: Any, tier: str) -> None:
    """It is told from a computation that does, and from an import that fails for another reason."""
    namespace, module = program
    shipped = ShippedCode(
        "a job", "k", UserBundle((), ""), (), NamespaceSettings(), limits=Limits(fatal=False)
    )
    code = (
        OpenedCode(shipped, Lease(namespace, lambda: None)) if tier == "namespace" else OpenedAlone(shipped)
    )
    for function in (module.imports, module.maps):
        with pytest.raises(UserCodeLoadError, match="memory ran out while user code loader 'a job'"):
            code.call(function)
    with pytest.raises(MemoryError, match="one array too many"):
        code.call(module.computes)
    with pytest.raises(ImportError, match="nowhere_to_be_found"):
        code.call(module.fails)
