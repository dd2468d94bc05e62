"""Whatever the package offers has a caller: in the package itself, or among the users that the docs speak to.

What only tests call proves nothing and has to be read all the same. `uncalled.txt` lists what was so when
this rule began; it may only shrink.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest
from source_tree import ROOT, Module, source

UNCALLED = Path(__file__).with_name("uncalled.txt")
PAGES = ("README.md", "docs/*.md", "pyproject.toml", "examples/**/*.py")
_CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def offered(tree: ast.Module) -> dict[str, Definition]:
    """Public functions, classes and methods of a module by their names in it.

    What is registered by a decorator has its caller there. What overrides a method has that of the other.
    """
    found: dict[str, Definition] = {}
    for node in tree.body:
        if not isinstance(node, Definition) or node.name.startswith("_") or _is_registered(node):
            continue
        found[node.name] = node
        if isinstance(node, ast.ClassDef) and not _is_foreign(node):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {
                f"{node.name}.{each.name}": each
                for each in methods
                if not each.name.startswith(("_", "test_", "pytest_")) and not _overrides(each)
            }
    return found


def _is_registered(node: Definition) -> bool:
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) for each in node.decorator_list
    )


def _overrides(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    said = any(ast.unparse(each).endswith("override") for each in node.decorator_list)
    above = f"super().{node.name}"
    return said or any(
        ast.unparse(each) == above
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and each.attr == node.name
    )


def _is_foreign(node: ast.ClassDef) -> bool:
    """Whether a base is another package's, which calls methods that nobody names here."""
    return any(
        isinstance(base, ast.Attribute) and ast.unparse(base) not in ("msgspec.Struct",)
        for base in node.bases
    )


def mentioned(tree: ast.Module) -> Counter[str]:
    """Names that code uses, how often each: loaded, taken from an object, or in a text that names it."""
    found: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            found[node.id] += 1
        elif isinstance(node, ast.Attribute):
            found[node.attr] += 1
        elif isinstance(node, ast.ImportFrom):
            found.update(alias.name for alias in node.names if alias.asname is not None)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            found.update(_NAME.findall(node.value) if "import " in node.value else node.value.split(":")[-1:])
            found[node.value.rpartition(".")[2]] += 1
    return found


@cache
def read_by_users() -> frozenset[str]:
    """Names in the code of pages, in examples and in `__all__`, and the methods of such classes."""
    files = [path for pattern in PAGES for path in ROOT.glob(pattern)]
    texts = [
        text
        for path in files
        for text in (_CODE.findall(path.read_text()) if path.suffix == ".md" else [path.read_text()])
    ]
    words = {word for text in texts for word in _NAME.findall(text)}
    exported = {
        each.value
        for module in source()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for each in ast.walk(node.value)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }
    classes: dict[str, list[ast.ClassDef]] = defaultdict(list)
    for module in source():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(node)
    methods: set[str] = set()
    waiting, seen = set(exported), set[str]()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        for node in classes.get(name, ()):
            waiting |= _led_to(node) - seen
            methods |= {
                each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return frozenset(words | exported | methods)


def _led_to(node: ast.ClassDef) -> set[str]:
    """Classes whose methods the users of a class have, too: its bases, and what it gives."""
    given = [each.annotation for each in ast.walk(node) if isinstance(each, ast.AnnAssign)]
    given += [each.returns for each in node.body if isinstance(each, ast.FunctionDef) and each.returns]
    return {word for each in (*node.bases, *given) for word in _NAME.findall(ast.unparse(each))}


def _of_itself(node: Definition) -> int:
    """How often a definition calls itself, which makes it no caller."""
    names = [each for each in ast.walk(node) if isinstance(each, ast.Name) and each.id == node.name]
    own = [
        each
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and each.attr == node.name
        and ast.unparse(each) in (f"self.{node.name}", f"cls.{node.name}")
    ]
    return len(names) + len(own)


@cache
def uncalled(modules: tuple[Module, ...]) -> frozenset[str]:
    """What is offered and mentioned nowhere, as `path::name`."""
    everywhere: Counter[str] = Counter()
    for module in modules:
        everywhere.update(mentioned(module.tree))
    return frozenset(
        f"{module.inside}::{where}"
        for module in modules
        for where, node in offered(module.tree).items()
        if node.name not in read_by_users() and everywhere[node.name] == _of_itself(node)
    )


def listed() -> set[str]:
    """The exceptions."""
    lines = UNCALLED.read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def test_everything_that_is_offered_has_a_caller_outside_the_tests() -> None:
    """Or stands in the docs, or in `__all__`; what has none is deleted, with its tests."""
    assert sorted(uncalled(source()) - listed()) == [], "only tests call these; delete them, or call them"


def test_the_list_of_exceptions_shrinks() -> None:
    """What has a caller by now, or is gone, has no line any more."""
    assert sorted(listed() - uncalled(source())) == [], "delete these lines of uncalled.txt"


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("def aaaa(): ...", ["aaaa"]),
        ("def aaaa(): ...\nb = aaaa()", []),
        ("def aaaa():\n  aaaa()", ["aaaa"]),
        ("class Aaaa:\n  def mmmm(self): ...\nAaaa()", ["Aaaa.mmmm"]),
        ("class Aaaa:\n  def mmmm(self): ...\nAaaa().mmmm()", []),
        ("class Aaaa:\n  @override\n  def mmmm(self): ...\nAaaa()", []),
        ("class Aaaa(B):\n  def mmmm(self): super().mmmm()\nAaaa()", []),
        ("class Aaaa(io.RawIOBase):\n  def mmmm(self): ...\nAaaa()", []),
        ("@app.command()\ndef aaaa(): ...", []),
        ("def _aaaa(): ...", []),
        ("LATER = 'package.module:aaaa'\ndef aaaa(): ...", []),
    ],
)
def test_the_rule_finds_what_it_is_for(text: str, without: list[str]) -> None:
    """A rule that finds nothing would hold for ever."""
    found = uncalled((Module("src/headgate/x.py", text, ast.parse(text)),))
    assert sorted(found) == [f"x.py::{name}" for name in without]
