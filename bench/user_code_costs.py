"""What a namespace costs: a call into it, and the first import of a package in it.

    python -m bench.user_code_costs calls CALLS
    python -m bench.user_code_costs import namespace|plain MODULES

A call is one of a batch, not of a record. The package is pure, of that many modules, with no bytecode
compiled before; each kind of import is timed in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.jobs.support import result
from headgate.usercode.namespaces.code import NamespaceCode
from headgate.usercode.namespaces.loader import Namespace

ROUNDS = 9


def calls(count: int) -> dict[str, Any]:
    """Microseconds of a bare call and of one through the border, in each round."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "own.py").write_text("def go(batch):\n    return batch\n")
        namespace = Namespace("bench", [folder])
        go = namespace.import_module("own").go
        call = NamespaceCode(namespace, ()).call
        rounds = [(_micros(count, go), _micros(count, call, go)) for _ in range(ROUNDS)]
        namespace.close()
    return {"bare_us": [bare for bare, _ in rounds], "through_us": [crossed for _, crossed in rounds]}


def _micros(count: int, function: Callable[..., Any], *arguments: Any) -> float:
    began = time.perf_counter()
    for _ in range(count):
        function(*arguments, None)
    return (time.perf_counter() - began) / count * 1e6


def first_import(kind: str, modules: int) -> dict[str, Any]:
    """Seconds of one import of all modules."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "many")
        package.mkdir()
        for number in range(modules):
            text = f"import dataclasses\nNUMBER = {number}\n\ndef go(value):\n    return value + NUMBER\n"
            (package / f"part_{number}.py").write_text(text)
        (package / "__init__.py").write_text(
            "\n".join(f"from many import part_{number}" for number in range(modules))
        )
        if kind == "plain":
            sys.path.insert(0, folder)
            load: Callable[[str], Any] = importlib.import_module
        else:
            load = Namespace("bench", [folder]).import_module
        began = time.perf_counter()
        load("many")
        return {"seconds": time.perf_counter() - began, "kind": kind}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.user_code_costs")
    parser.add_argument("what", choices=("calls", "import"))
    parser.add_argument("more", nargs="+")
    asked = parser.parse_args()
    found = (
        calls(int(asked.more[0]))
        if asked.what == "calls"
        else first_import(asked.more[0], int(asked.more[1]))
    )
    result(**found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
