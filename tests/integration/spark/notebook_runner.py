"""Runs the code of a notebook in one process, without Jupyter, and says what each cell gives.

    python notebook_runner.py NOTEBOOK           the outputs as JSON, in order of the cells
    python notebook_runner.py NOTEBOOK --write   puts them into the notebook

A cell gives what it prints, and what its last expression is: its SVG, or else its repr, as Jupyter would.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

Outputs = list[dict[str, Any]]


def run(notebook: dict[str, Any]) -> list[Outputs]:
    """What the code cells give, in order."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [_run("".join(cell["source"]), names, number) for number, cell in enumerate(cells, 1)]


def _run(code: str, names: dict[str, Any], number: int) -> Outputs:
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"<cell {number}>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"<cell {number}>", "eval"), names)
    outputs: Outputs = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        outputs.append(_shown(value, number))
    return outputs


def _shown(value: Any, number: int) -> dict[str, Any]:
    drawn = getattr(value, "_repr_svg_", None)
    data = {"text/plain": [repr(value)]}
    if drawn is not None:
        data = {"image/svg+xml": drawn().splitlines(keepends=True), "text/plain": [repr(value)]}
    return {"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"}


def stored(notebook: dict[str, Any]) -> list[Outputs]:
    """What the notebook says that they give."""
    return [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]


def main() -> None:
    """The program."""
    path = Path(sys.argv[1]).resolve()
    notebook = json.loads(path.read_text())
    os.chdir(path.parent)  # where Jupyter runs it
    found = run(notebook)
    if "--write" in sys.argv:
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for number, (cell, outputs) in enumerate(zip(code, found, strict=True), 1):
            cell["outputs"], cell["execution_count"] = outputs, number
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
