"""Size limits and docstrings: short functions, short files, one sentence that says what a file is about.

`frozen.txt` lists the exceptions; it may only shrink.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from source_tree import ROOT, Module, functions, modules

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 700
PRODUCT = ("src", "bench", "proof", "examples", "scripts")
FROZEN = Path(__file__).with_name("frozen.txt")
ARTICLES = {"The", "A", "An", "All"}
NO_SENTENCE = {"What", "Whether", "How", "Where", "Why", "When", "Which", "Those", "As", "Its"}
RELATIVE = re.compile(r"[.;:,]|\b(that|which|who|whose|what|where|whether|how|when|if|as|while|than|so)\b")
FINITE = re.compile(
    r"\b(is|are|has|have|was|were|can|cannot|may|must|does|do|will|comes|came|goes|begins|ends|ended|takes|gives|could"
    r"|sends|stays|holds|runs|waits|needs|says|reads|writes|uses|wants|sent|left|exited|dropped|registers|failed)\b"
)
"""The finite verbs of first clauses in docstrings; add one where a sentence is not recognised."""


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from the first statement behind the docstring to the last."""
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def frozen() -> dict[str, str]:
    """Exception -> the decision note that defends it."""
    lines = [
        tuple(line.split()) for line in FROZEN.read_text().splitlines() if line.strip() and line[0] != "#"
    ]
    assert all(len(line) == 2 for line in lines), "each line of frozen.txt is: what, then its decision note"
    return {line[0]: line[1] for line in lines}


def violations(module: Module) -> list[str]:
    """What of a file is beyond the limits, by the names that frozen.txt uses."""
    found = []
    if len(module.text.splitlines()) > FILE_LINES_MAX:
        found.append(module.path)
    if module.path.split("/")[0] in PRODUCT:
        long = (name for name, function in functions(module) if body_lines(function) > FUNCTION_LINES_MAX)
        found += [f"{module.path}::{name}" for name in long]
    return found


def everything() -> tuple[Module, ...]:
    """All Python files of the project."""
    return modules(*PRODUCT, "tests")


@cache
def all_violations() -> frozenset[str]:
    """What of all files is beyond the limits."""
    return frozenset(name for module in everything() for name in violations(module))


def test_functions_and_files_are_short() -> None:
    """A function body has at most 60 lines, a file at most 700; nothing else is beyond the limits."""
    assert all_violations() - frozen().keys() == set()


def test_frozen_exceptions_are_needed_and_defended() -> None:
    """A line of frozen.txt that is no longer needed goes; each names a decision note that exists."""
    assert frozen().keys() - all_violations() == set()
    assert [note for note in frozen().values() if not (ROOT / note).is_file()] == []


def test_every_module_says_what_it_is_about() -> None:
    """A module that is not empty begins with a docstring of at least one sentence."""
    wrong = []
    for module in everything():
        text = ast.get_docstring(module.tree)
        if module.text.strip() and (
            text is None or not text.partition("\n\n")[0].rstrip().endswith((".", ":", "?"))
        ):
            wrong.append(module.path)
    assert wrong == []


def test_every_test_states_its_rule() -> None:
    """Each test has a docstring that says the rule under test."""
    wrong = [
        f"{module.path}::{name}"
        for module in modules("tests")
        if Path(module.path).name.startswith("test_")
        for name, function in functions(module)
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ]
    assert wrong == []


def is_noun_phrase(text: str) -> bool:
    """Return whether a docstring begins with a thing in place of what the function does."""
    first, subject = text.split(maxsplit=1)[0], RELATIVE.split(text, maxsplit=1)[0]
    return first in NO_SENTENCE or (first in ARTICLES and FINITE.search(subject) is None)


def returns_value(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a call gives something; a property is read as an attribute and may be a noun phrase."""
    read = any("property" in ast.unparse(decorator) for decorator in function.decorator_list)
    return not read and function.returns is not None and ast.unparse(function.returns) != "None"


def test_functions_say_what_they_do() -> None:
    """The docstring of a function that returns something begins with a verb, or with a whole sentence."""
    wrong = [
        f"{module.path}::{name}: {text.splitlines()[0]}"
        for module in modules("src")
        for name, function in functions(module)
        if returns_value(function) and (text := ast.get_docstring(function)) and is_noun_phrase(text)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "noun_phrase"),
    [
        ("Return the backend.", False),
        ("The backend inside.", True),
        ("The job has ended: say so.", False),
        ("The backend that is inside.", True),
        ("Whether it fits.", True),
    ],
)
def test_noun_phrases_are_told_from_sentences(text: str, noun_phrase: bool) -> None:
    """A verb in a relative clause makes no sentence."""
    assert is_noun_phrase(text) is noun_phrase


def test_test_files_have_names_of_their_own() -> None:
    """No two test files share a basename, and no test folder is a package: pytest finds them by basename."""
    names = [Path(module.path).name for module in modules("tests")]
    assert sorted({name for name in names if names.count(name) > 1 and name != "conftest.py"}) == []
    assert [module.path for module in modules("tests") if module.path.endswith("__init__.py")] == []


@pytest.mark.parametrize(("lines", "counted"), [(1, 1), (60, 60), (61, 61)])
def test_the_count_leaves_the_docstring_out(lines: int, counted: int) -> None:
    """Only lines behind the docstring count."""
    code = 'def f():\n    """One.\n\n    Two.\n    """\n' + "    x = 1\n" * lines
    function = ast.parse(code).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert body_lines(function) == counted
