"""What users may import: the list of public packages, and that their `__all__` tells the truth."""

from __future__ import annotations

import ast
import importlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

import pytest
from source_tree import PACKAGE

PUBLIC = [
    "headgate",
    "headgate.connectors",
    "headgate.serde",
    "headgate.state",
    "headgate.stateprocessor",
    "headgate.testing",
    "headgate.testing.suites",
]
"""Everything else is internal and may change without notice."""

EXISTING = [name for name in PUBLIC if (PACKAGE.parent / name.replace(".", "/") / "__init__.py").is_file()]


def exported(name: str) -> dict[str, Any]:
    """Public names of a package and what they stand for."""
    module = importlib.import_module(name)
    return {key: getattr(module, key) for key in getattr(module, "__all__", [])}


def is_ours(key: str, value: object) -> bool:
    """Whether a name in a module is something it offers: no module, no private name, no tool of typing."""
    helper = isinstance(value, types.ModuleType) or key in ("annotations", "TYPE_CHECKING")
    foreign = not getattr(value, "__module__", "headgate").startswith("headgate")
    return not (key.startswith("_") or helper or foreign)


@pytest.mark.parametrize("name", EXISTING)
def test_all_is_what_is_there(name: str) -> None:
    """`__all__` names exactly what the package offers: no more, no less, nothing twice."""
    module = importlib.import_module(name)
    listed = list(getattr(module, "__all__", []))
    assert len(listed) == len(set(listed))
    assert [key for key in listed if not hasattr(module, key)] == []
    defined = {key for key, value in vars(module).items() if is_ours(key, value)}
    assert defined - set(listed) == set()


def functions_of(cls: type) -> Iterator[tuple[str, types.FunctionType]]:
    """Methods and properties that a class of ours defines itself, but for generated ones."""
    for name, member in vars(cls).items():
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        function = function.fget if isinstance(function, property) else function
        if not inspect.isfunction(function) or not (name == "__init__" or name[0] != "_"):
            continue
        written = inspect.unwrap(function)
        if function.__module__.startswith("headgate") and written.__code__.co_filename != "<string>":
            yield name, function


def callables() -> Iterator[tuple[str, types.FunctionType]]:
    """Public functions, and public methods of public classes, by dotted name."""
    for package in EXISTING:
        for key, value in exported(package).items():
            if inspect.isfunction(value):
                yield f"{package}.{key}", value
            elif inspect.isclass(value) and value.__module__.startswith("headgate"):
                yield from ((f"{package}.{key}.{name}", function) for name, function in functions_of(value))


def test_public_functions_are_annotated() -> None:
    """Every argument and result of what users call has a type."""
    wrong = []
    for name, function in callables():
        signature = inspect.signature(function)
        untyped = [
            argument.name
            for argument in signature.parameters.values()
            if argument.annotation is inspect.Parameter.empty and argument.name not in ("self", "cls")
        ]
        if untyped or signature.return_annotation is inspect.Signature.empty:
            wrong.append(f"{name}: {', '.join(untyped) or 'result'}")
    assert wrong == []


def test_public_functions_have_docstrings() -> None:
    """Whatever users call says what it does."""
    assert [n for n, f in callables() if not n.endswith("__init__") and not inspect.getdoc(f)] == []


def test_public_signatures_use_public_types() -> None:
    """A type of ours in a public signature can itself be imported from a public package."""
    public = {id(value) for package in EXISTING for value in exported(package).values()}
    wrong = []
    for name, function in callables():
        hints = function.__annotations__.values()
        for node in (part for hint in hints if isinstance(hint, str) for part in ast.walk(ast.parse(hint))):
            if not isinstance(node, ast.Name):
                continue
            used = function.__globals__.get(node.id)
            if inspect.isclass(used) and used.__module__.startswith("headgate.") and id(used) not in public:
                wrong.append(f"{name} uses {used.__module__}.{used.__qualname__}")
    assert wrong == []
