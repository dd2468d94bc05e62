"""Runs cells as a kernel of Jupyter does, without Jupyter: one by one, in a `__main__` that has no file.

    python -m proof.types.notebook CELLS.json

The compiler is the one that IPython's is made of: it keeps what `__future__` says from cell to cell.
"""

from __future__ import annotations

import codeop
import json
import linecache
import sys
import types
from pathlib import Path


def run(cells: list[str]) -> None:
    """Run them in order, in one namespace."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv = ["ipykernel_launcher.py"]
    compiler = codeop.Compile()
    for number, cell in enumerate(cells, 1):
        name = f"<ipython-input-{number}-cell>"
        linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
        exec(compiler(cell, name, "exec"), vars(main))


if __name__ == "__main__":
    run(json.loads(Path(sys.argv[1]).read_text()))
