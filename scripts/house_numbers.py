"""Prints the sizes of checkouts beside each other: lines, files, import circles, untyped places.

    scripts/house_numbers.py BEFORE [AFTER ...]
    scripts/house_numbers.py BEFORE AFTER --page docs/decisions/0205-the-house-in-order.md

A checkout is a folder with `src/headgate`; what is counted is read as text, nothing is imported. The rows are
a Markdown table; with --page the table of that page is written anew.

Counted as untyped are the names `Any`, `object` and `cast` wherever code uses them, and names that stand for
`Any` or `object` (`Plain = Any`); not their imports, nor words in comments and docstrings.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "architecture"))

from source_tree import Module  # noqa: E402
from test_circles import circles, import_graph  # noqa: E402

LONG: Final = 450
"""Lines of a file that no file should have more of."""

UNTYPED: Final = frozenset({"Any", "object", "cast"})

WORD: Final = re.compile(r"\w+")


def modules_of(checkout: Path) -> tuple[Module, ...]:
    """The files of the package."""
    paths = sorted((checkout / "src" / "headgate").rglob("*.py"))
    texts = {path.relative_to(checkout).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    return tuple(Module(path, text, ast.parse(text, path)) for path, text in texts.items())


def lines_of(module: Module) -> int:
    """Its lines, blank ones and docstrings included."""
    return len(module.text.splitlines())


def aliases(modules: Sequence[Module]) -> set[str]:
    """Names that stand for `Any` or `object`."""
    found = set()
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                target, value = node.target.id, node.value
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                target, value = node.targets[0].id, node.value
            else:
                continue
            if isinstance(value, ast.Name) and value.id in UNTYPED - {"cast"}:
                found.add(target)
    return found


def untyped(modules: Sequence[Module], names: Set[str] = UNTYPED) -> int:
    """How often code says that it does not know a type."""
    if names is UNTYPED:
        names = names | aliases(modules)
    return sum(name in names for module in modules for name in _names(module.tree))


def _names(tree: ast.AST) -> Iterator[str]:
    """Every name that code uses, those in annotations that are strings included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in ("typing", "t"):
            yield node.attr
        elif isinstance(node, ast.arg | ast.AnnAssign):
            yield from _names_in_text(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _names_in_text(node.returns)


def _names_in_text(annotation: ast.expr | None) -> Iterator[str]:
    for node in () if annotation is None else ast.walk(annotation):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from WORD.findall(node.value)


def docstring_lines(modules: Sequence[Module]) -> int:
    """Lines of docstrings, those of attributes included."""
    return sum(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def long_files(modules: Sequence[Module]) -> dict[str, int]:
    """Files of more lines than a file should have, below `src/headgate`."""
    return {module.inside: lines for module in modules if (lines := lines_of(module)) > LONG}


def numbers(checkout: Path) -> dict[str, int | str]:
    """Row -> figure."""
    modules = modules_of(checkout)
    lines: Counter[str] = Counter()
    folders: Counter[str] = Counter()
    for module in modules:
        lines[module.package or "(top)"] += lines_of(module)
        folders[module.inside.rpartition("/")[0] or "(top)"] += 1
    found = circles(import_graph(modules))
    folder, files = folders.most_common(1)[0]
    largest = max(modules, key=lines_of)
    return {
        "lines of `src`": sum(lines.values()),
        "of them in docstrings": docstring_lines(modules),
        "files": len(modules),
        "folders": len(folders),
        "files in the largest folder": f"{files} (`{folder}`)",
        "largest file": f"{lines_of(largest)} (`{largest.inside}`)",
        f"files of more than {LONG} lines": len(long_files(modules)),
        "import circles": len(found),
        "files in circles": sum(map(len, found)),
        "`Any` alone": untyped(modules, frozenset({"Any"})),
        "untyped (`Any`, `object`, `cast`)": untyped(modules),
        **{f"lines of `{name}`": count for name, count in sorted(lines.items())},
    }


def table(columns: Sequence[tuple[str, dict[str, int | str]]]) -> Iterator[str]:
    """The rows of all checkouts beside each other."""
    yield f"| | {' | '.join(name for name, _ in columns)} |"
    yield f"| --- |{' ---: |' * len(columns)}"
    rows = dict.fromkeys(row for _, figures in columns for row in figures)
    packages = sorted(row for row in rows if row.startswith("lines of `") and row != "lines of `src`")
    for row in [*(row for row in rows if row not in packages), *packages]:
        cells = [figures.get(row, 0) for _, figures in columns]
        shown = (f"{cell:,}" if isinstance(cell, int) else cell for cell in cells)
        yield f"| {row} | {' | '.join(shown)} |"


def with_table(page: str, rows: Sequence[str]) -> str:
    """A page whose table of sizes is written anew: the one that begins with `| | before |`."""
    lines = page.splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("| | before |"))
    old = len(list(itertools.takewhile(lambda line: line.startswith("|"), lines[first:])))
    return "\n".join([*lines[:first], *rows, *lines[first + old :], ""])


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Sizes of checkouts beside each other.")
    parser.add_argument("checkout", nargs="+", type=Path)
    parser.add_argument("--page", type=Path, help="page whose table is written anew")
    options = parser.parse_args(arguments)
    names = ["before", "after"] if len(options.checkout) == 2 else [path.name for path in options.checkout]
    columns = [(name, numbers(path)) for name, path in zip(names, options.checkout, strict=True)]
    rows = list(table(columns))
    print(*rows, sep="\n")
    if options.page is not None:
        options.page.write_text(with_table(options.page.read_text(encoding="utf-8"), rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
