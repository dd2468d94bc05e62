"""Names out of stored bytes become paths in one place, which looks where they lead."""

from __future__ import annotations

import ast

import pytest
from source_tree import source

ASKED = {"asked", "request", "sys.modules"}
"""What one process of a user asks of another, and what the interpreter has: none of it was stored."""


def joined_entries(tree: ast.AST) -> list[int]:
    """Lines where an entry of a mapping, such as a committable, becomes part of a path by itself."""

    def is_entry(node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
            and ast.unparse(node.value) not in ASKED
        )

    def of_path(call: ast.Call) -> bool:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name == "join":  # of texts it is another one
            return ast.unparse(call.func) in ("os.path.join", "path.join")
        return name in ("Path", "PurePath", "joinpath", "glob", "rglob")

    found = []
    for node in ast.walk(tree):
        parts: list[ast.AST] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            parts = [node.right]
        elif isinstance(node, ast.Call) and of_path(node):
            parts = [each for argument in node.args for each in ast.walk(argument)]
        found += [part.lineno for part in parts if is_entry(part)]  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("root / ready['final']", 1),
        ("folder.glob(f\"*/{ready['final']}\")", 1),
        ("Path(root, stored['folder'])", 1),
        ("os.path.join(root, stored['folder'])", 1),
        ("', '.join([stored['folder']])", 0),
        ("inside(root, ready['final'], 'a file')", 0),
        ("total / counts['rows']", 1),
        ("root / name", 0),
    ],
)
def test_the_rule_finds_what_it_is_for(code: str, count: int) -> None:
    """A rule that finds nothing would hold for ever."""
    assert len(joined_entries(ast.parse(code))) == count


def test_stored_names_are_not_joined() -> None:
    """They go through `common.stored_paths`."""
    found = {f"{module.inside}:{line}" for module in source() for line in joined_entries(module.tree)}
    assert found == set()
