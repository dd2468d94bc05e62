"""The code that runs in production and in the simulator is the same code: nothing in it asks which."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
from source_tree import Module, docstrings, source

FORBIDDEN = re.compile(
    r"(?<![a-z])(sim|simulat\w*|fake|mock|pytest|testing|is_test|in_test|under_test|test_mode|unittest)(?![a-z])"
)

ALLOWED = {
    # (file, text): why it may stand there
    ("common/registry.py", "headgate.testing.mini_cluster:MiniCluster"): "a name to look up, not a question",
    ("common/registry.py", "headgate.testing.process_cluster:ProcessCluster"): "likewise",
    ("offline/replay/saving.py", "headgate.testing"): "what the text that it writes imports",
}


def words(text: str) -> str:
    """An identifier in lower case, with `CamelCase` parted by ``_``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()


@cache
def texts(module: Module) -> list[tuple[int, str]]:
    """Every identifier, imported name and string of a file with its line; docstrings are free."""
    free = docstrings(module.tree)
    found: list[tuple[int, str]] = []
    for node in ast.walk(module.tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text):
                found.append((line, text))
            case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text) | ast.ClassDef(name=text):
                found.append((line, text))
            case ast.keyword(arg=str(text)):
                found.append((line, text))
            case ast.alias(name=text, asname=other):
                found += [(line, text), (line, other or "")]
            case ast.ImportFrom(module=str(text)):
                found.append((line, text))
            case ast.Constant(value=str(text)) if id(node) not in free:
                found.append((line, text))
            case _:
                pass
    return found


def production() -> list[Module]:
    """All files but those of the test kit."""
    return [module for module in source() if module.package != "testing"]


def test_nothing_asks_whether_it_is_simulated() -> None:
    """No identifier, import or string outside the test kit speaks of tests or simulation."""
    wrong = [
        f"{module.path}:{line} says {text!r}"
        for module in production()
        for line, text in texts(module)
        if FORBIDDEN.search(words(text)) and (module.inside, text) not in ALLOWED
    ]
    assert wrong == []


def test_every_exception_is_needed() -> None:
    """An exception whose text is gone is struck from the list."""
    present = {(module.inside, text) for module in production() for _, text in texts(module)}
    assert ALLOWED.keys() - present == set()


@pytest.mark.parametrize(
    "code",
    [
        "if simulated: pass",
        "class SimClock: pass",
        "def f(is_test=False): pass",
        "from headgate.testing import simulate",
        "import headgate.testing.mini_cluster as m",
        "x.test_mode = 1",
        "os.environ.get('HEADGATE_TESTING')",
        "'pytest' in sys.modules",
        "f(simulator=True)",
    ],
)
def test_the_search_finds_branches(code: str) -> None:
    """Each way to ask the question is noticed."""
    module = Module("src/headgate/x.py", code, ast.parse(code))
    assert any(FORBIDDEN.search(words(text)) for _, text in texts(module))


@pytest.mark.parametrize("code", ["similar = simple + 1", "latest = 'contest'", '"""For the simulator."""'])
def test_the_search_leaves_other_words_alone(code: str) -> None:
    """Words that merely look alike, and docstrings, are free."""
    module = Module("src/headgate/x.py", code, ast.parse(code))
    assert not any(FORBIDDEN.search(words(text)) for _, text in texts(module))
