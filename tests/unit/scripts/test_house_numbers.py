"""The sizes of a checkout, on a small one."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.house_numbers import Module, aliases, main, modules_of, numbers, untyped, with_table

FILES = {
    "__init__.py": '"""Top."""\n',
    "a/__init__.py": "",
    "a/one.py": "from headgate.a.two import two\nfrom typing import Any\n\n\ndef one(x: Any) -> 'Any': ...\n",
    "a/two.py": "def two():\n    from headgate.a.one import one\n\n    return one\n",
    "b.py": "x = object()\n" * 460,
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A package with a circle and a long file."""
    for name, text in FILES.items():
        path = tmp_path / "src" / "headgate" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_numbers(checkout: Path) -> None:
    """Imports in functions make circles; lines and names are counted in all files."""
    found = numbers(checkout)
    assert found["lines of `src`"] == 1 + 0 + 5 + 4 + 460
    assert (found["of them in docstrings"], found["files"], found["folders"]) == (1, 5, 2)
    assert found["files in the largest folder"] == "3 (`a`)"
    assert found["largest file"] == "460 (`b.py`)"
    assert (found["files of more than 450 lines"], found["import circles"], found["files in circles"]) == (
        1,
        1,
        2,
    )
    assert (found["`Any` alone"], found["untyped (`Any`, `object`, `cast`)"]) == (2, 462)
    assert (found["lines of `a`"], found["lines of `(top)`"]) == (9, 461)


@pytest.fixture
def counted() -> Callable[[str], int]:
    """Counts what is untyped in a text."""
    return lambda text: untyped([Module("src/headgate/x.py", text, ast.parse(text))])


def test_a_new_name_for_any_does_not_hide_it(counted: Callable[[str], int]) -> None:
    """Each use of the name counts, and so does its definition."""
    text = (
        "from typing import Any\nPlain = Any\nOther: object = object\ndef f(x: Plain) -> 'list[Plain]': ...\n"
    )
    assert aliases([Module("src/headgate/x.py", text, ast.parse(text))]) == {"Plain", "Other"}
    assert counted(text) == 2 + 3 + 2


def test_words_in_comments_and_docstrings_do_not_count(counted: Callable[[str], int]) -> None:
    """Nor do imports."""
    assert counted('"""Any object."""\nfrom typing import Any, cast  # cast Any\n') == 0
    assert counted("import typing\nx: typing.Any = typing.cast('Any', 1)\n") == 2


def test_the_table_has_a_column_for_each_checkout(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two are before and after."""
    assert len(modules_of(checkout)) == len(FILES)
    assert main([str(checkout), str(checkout)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["| | before | after |", "| --- | ---: | ---: |", "| lines of `src` | 470 | 470 |"]
    assert lines[-1] == "| lines of `a` | 9 | 9 |"


def test_the_table_of_a_page_is_written_anew() -> None:
    """The rest of the page stays as it is."""
    page = "# Page\n\n| a | b |\n\n| | before | after |\n| --- |\n| x | 1 | |\n\nText.\n"
    assert with_table(page, ["| | before | after |", "| y |"]) == (
        "# Page\n\n| a | b |\n\n| | before | after |\n| y |\n\nText.\n"
    )
