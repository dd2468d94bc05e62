"""The page `docs/ARCHITECTURE.md` against the code: paths, the tree, the layers, and every step of its walks.

Paths are given from the root of the project or from `src/headgate`; on one page also from the folder of the
path before. Other pages are held to the same where they name files of the code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from source_tree import PACKAGE, ROOT, functions, project_files, source
from test_layers import OURS

DOCS = ROOT / "docs"
PAGE = DOCS / "ARCHITECTURE.md"
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*/?")
WALKS = ("One record", "One barrier", "One acknowledgement", "One state value", "One lost worker")


def text_of(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


# -- paths -------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A path of a page, and the function in it, if one is named."""

    path: str
    function: str


def places(line: str, *, bare: bool) -> list[Place]:
    """The paths between backticks; `bare` ones are names of files without a folder."""
    found = []
    for code in CODE.findall(line):
        path, _, function = code.partition("::")
        folder = "/" in path and (path.endswith((".py", "/")) or path.partition("/")[0] in _tops())
        if PATH.fullmatch(path) and (folder or (bare and path.endswith(".py"))):
            found.append(Place(path, function))
    return found


@cache
def _tops() -> frozenset[str]:
    """Names of the folders that paths begin with."""
    folders = [path for root in (ROOT, PACKAGE) for path in root.iterdir() if path.is_dir()]
    return frozenset(folder.name for folder in folders)


@cache
def _names() -> frozenset[str]:
    """Names of all files of the project."""
    return frozenset(path.name for path in project_files())


def resolved(path: str, before: Path | None) -> Path | None:
    """The file or folder that a page means."""
    roots = [ROOT, PACKAGE, *([] if before is None else [before])]
    return next((found for root in roots for found in matches(root, path.rstrip("/"))), None)


@cache
def matches(root: Path, path: str) -> list[Path]:
    """The files and folders of a path, which may have an asterisk in it."""
    return sorted(root.glob(path)) if "*" in path else [root / path] if (root / path).exists() else []


@cache
def defined(path: Path) -> dict[str, ast.AST]:
    """Every function and class of a file, by its dotted name inside it."""
    module = next(module for module in source() if ROOT / module.path == path)
    classes = {node.name: node for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)}
    return {**classes, **dict(functions(module))}


def dead_in(page: Path, *, bare: bool) -> list[str]:
    """What a page names and is not there."""
    dead, before = [], None
    for line in text_of(page).splitlines():
        for place in places(line, bare=bare):
            found = resolved(place.path, before)
            if found is None and "/" not in place.path and place.path in _names():
                continue
            if found is None or (place.function and place.function not in defined(found)):
                dead.append("::".join(filter(None, place)))
            else:
                before = found if found.is_dir() else found.parent
    return dead


def test_every_place_that_the_page_names_exists() -> None:
    """Files, folders and functions."""
    assert len([line for line in text_of(PAGE).splitlines() if places(line, bare=True)]) > 150
    assert dead_in(PAGE, bare=True) == []


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.glob("*.md"), *DOCS.glob("machines/*.md")],
    ids=lambda page: page.name,
)
def test_pages_name_no_file_that_is_gone(page: Path) -> None:
    """Decisions are left out: they tell what was. Names without a folder may be files of users."""
    assert dead_in(page, bare=page.parent.name == "machines") == []


def test_dead_places_are_found(tmp_path: Path) -> None:
    """A file, a folder and a function that are not there, and none that is."""
    page = tmp_path / "page.md"
    page.write_text(
        "`runtime/master/job_master.py`, `members.py`, `core/job/restart.py::fail`\n"
        "`core/job/restart.py::failed`, `runtime/gone/`, `no_such_file.py`, `a/b`, `x: int`\n"
    )
    assert dead_in(page, bare=True) == ["core/job/restart.py::failed", "runtime/gone/", "no_such_file.py"]


# -- the tree and the layers -------------------------------------------------------------------------


def drawn_folders() -> set[str]:
    """The folders of the tree that the page shows."""
    block = re.search(r"```\nsrc/headgate/\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    found, path = set(), ()  # type: set[str], tuple[str, ...]
    for line in block[1].splitlines():
        name = line.split()[0]
        path = (*path[: (len(line) - len(line.lstrip())) // 2], name.rstrip("/"))
        found.add("/".join(path))
    return found


def test_the_tree_shows_every_folder() -> None:
    """No room is missing, and none is shown that is not there."""
    folders = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("__init__.py")}
    assert drawn_folders() == folders - {".", "deploy", "testing/suites/backend"} | {"runtime"}


def test_layers_are_those_of_the_imports() -> None:
    """No package is in a lower layer than one that it may import."""
    layer = {name: int(number) for number, name in re.findall(r"^\| (\d) \| `(\w+)` \|", text_of(PAGE), re.M)}
    assert layer.keys() == {room.partition(".")[0] for room in OURS} - {""}
    wrong = [
        f"{room} imports {target}"
        for room, targets in OURS.items()
        for target in targets
        if room and layer[room.partition(".")[0]] < layer[target.partition(".")[0]]
    ]
    assert wrong == []


# -- the walks ---------------------------------------------------------------------------------------


class Step(NamedTuple):
    """A row of a walk.

    Attributes:
        file: from `src/headgate`.
        function: its dotted name in it.
        leads: what leads to the next row, as it is written.
    """

    file: str
    function: str
    leads: str

    @property
    def tree(self) -> ast.AST:
        """The function."""
        return defined(PACKAGE / self.file)[self.function]

    @property
    def called(self) -> tuple[str, str]:
        """What a caller writes: the function's name, or that of its class."""
        owner, _, name = self.function.rpartition(".")
        return owner, name


def steps_of(walk: str) -> list[Step]:
    """The rows of one walk."""
    text = text_of(PAGE).partition(f"### {walk}\n")[2].partition("\n##")[0]
    rows = re.findall(r"^\| `([\w/]+\.py)::([\w.]+)` \| [^|]+ \|([^|]*)\|$", text, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| `", text, re.MULTILINE)), f"{walk}: each row names a function"
    return [Step(file, function, leads.strip()) for file, function, leads in rows]


def mentioned(tree: ast.AST) -> Iterator[str]:
    """Every name that a piece of code mentions or defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def problem(step: Step, following: Step) -> str | None:
    """Why a row does not lead to the next one; None: it does, as far as the code tells."""
    names = set(CODE.findall(step.leads))
    if step.leads == f"`{'`'.join(names)}`":
        name = step.leads.strip("`")
        if name not in mentioned(step.tree):
            return f"{step.function} does not mention {name}"
        if name not in following.called and name not in mentioned(following.tree):
            return f"{following.function} is not {name}, and does not mention it"
        return None
    files = [next(m for m in source() if m.inside == each.file) for each in (step, following)]
    known = {name for module in files for name in mentioned(module.tree)}
    gone = [name for name in names if "/" not in name and name not in known]
    return f"{step.function}: {', '.join(gone)} is in neither file" if gone else None


@pytest.mark.parametrize("walk", WALKS)
def test_each_step_leads_to_the_next(walk: str) -> None:
    """By a name that the one function mentions and that is the other one, or stands in it."""
    steps = steps_of(walk)
    assert len(steps) >= 15
    assert steps[-1].leads == ""
    assert [wrong for pair in pairwise(steps) if (wrong := problem(*pair))] == []


@pytest.mark.parametrize("walk", WALKS)
def test_most_steps_are_held_to_the_code(walk: str) -> None:
    """Words lead only where a thread, a socket or another process is between two steps."""
    steps = steps_of(walk)[:-1]
    assert sum(bool(re.fullmatch(r"`\w+`", step.leads)) for step in steps) >= 0.6 * len(steps)


def test_a_step_that_leads_elsewhere_is_found() -> None:
    """A name that is not mentioned, and one that is mentioned and is not the next step."""
    first = Step("runtime/worker/task/task.py", "Task._work", "`_take_input`")
    right = Step("runtime/worker/task/source_task.py", "SourceTask._take_input", "")
    assert problem(first, right) is None
    assert problem(first._replace(leads="`_no_such`"), right) is not None
    assert problem(first, right._replace(function="SourceTask.end")) is not None
    assert problem(first._replace(leads="in time `_no_such` is called"), right) is not None
