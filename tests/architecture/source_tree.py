"""The project's own source as the architecture tests see it: files, syntax trees, imports."""

from __future__ import annotations

import ast
import gc
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "headgate"


@dataclass(frozen=True, eq=False)
class Module:
    """One Python file: its path below the root, and what is in it. Each is one object, and is kept."""

    path: str
    text: str
    tree: ast.Module

    @property
    def inside(self) -> str:
        """The path below `src/headgate`."""
        return self.path.removeprefix("src/headgate/")

    @property
    def package(self) -> str:
        """The top-level package of ours that the file belongs to; empty for `headgate/__init__.py`."""
        first, _, rest = self.inside.partition("/")
        return first if rest else ""


@dataclass(frozen=True)
class Import:
    """One imported name: the dotted target, where, and whether it happens when the module is imported."""

    target: str
    where: str
    at_import: bool


@cache
def modules(*folders: str) -> tuple[Module, ...]:
    """All Python files below the folders, given relative to the root; absent folders are empty."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    with _kept_for_ever():
        return tuple(_module(path) for path in paths)


@contextmanager
def _kept_for_ever() -> Iterator[None]:
    """Keep collections of garbage from looking at a million nodes: most of the time went there."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@cache
def _module(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    return Module(path.relative_to(ROOT).as_posix(), text, ast.parse(text, str(path)))


def source() -> tuple[Module, ...]:
    """All files of the package."""
    return modules("src/headgate")


@cache
def imports(module: Module) -> tuple[Import, ...]:
    """Every import of a file; ``from a import b`` counts as ``a.b``."""
    return tuple(_imports(module))


def _imports(module: Module) -> Iterator[Import]:
    lazy = _nodes_not_run_at_import(module.tree)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.path}:{node.lineno} imports relatively; write the whole name"
            targets = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for target in targets:
            yield Import(target, f"{module.path}:{node.lineno}", id(node) not in lazy)


def _nodes_not_run_at_import(tree: ast.Module) -> set[int]:
    lazy: set[int] = set()
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        types_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if function or types_only:
            lazy.update(id(inner) for inner in ast.walk(node))
        else:
            waiting += ast.iter_child_nodes(node)
    return lazy


Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def functions(module: Module) -> tuple[tuple[str, Function], ...]:
    """Every function of a file with its dotted name inside it, in the order of the file."""
    found: list[tuple[str, Function]] = []

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                continue  # has no statement in it, and is most of a tree
            if isinstance(child, Function):
                found.append((prefix + child.name, child))
            named = isinstance(child, Function | ast.ClassDef)
            walk(child, f"{prefix}{child.name}." if named else prefix)

    walk(module.tree, "")
    return tuple(found)


def docstrings(tree: ast.Module) -> set[int]:
    """Ids of the nodes that are docstrings, also those of attributes (a bare string after an assignment)."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


@cache
def project_files() -> tuple[Path, ...]:
    """All files that belong to the project: tracked, or new and not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())
