"""The commands that messages and pages advise exist, with the options that they are given."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from headgate.cli.main import app

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]


def in_messages() -> Iterator[tuple[str, str]]:
    """Place and text of each command between backticks in a text of the source."""
    for file in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (str(p.value) if isinstance(p, ast.Constant) else "X" for p in node.values)
                text = "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            for quoted in re.findall(r"`+headgate ([^`]+)`+", text):
                yield f"{file.relative_to(ROOT)}:{node.lineno}", " ".join(quoted.split())


def in_pages() -> Iterator[tuple[str, str]]:
    """Of each command that a page shows: in a block of code behind a prompt, or between backticks."""
    for page in PAGES:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            found = re.findall(r"`headgate ([^`]+)`", line)
            shown = re.match(r"(?:\$ |    (?:\.venv/bin/)?)headgate (.+)", line)
            for text in [*found, *([] if shown is None else [shown[1]])]:
                if "--paralelism" not in text:  # shown as a mistake
                    yield f"{page.relative_to(ROOT)}:{number}", text


def wrong(text: str) -> str | None:
    """What of a command does not exist; None: all of it does."""
    words = shlex.split(re.split(r" +#|[;&|]", text.replace("...", "X").replace("…", "X"))[0], posix=False)
    command: Any = typer.main.get_command(app)
    known: set[str] = {"--help"}
    for word in words:
        known |= {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
        commands = getattr(command, "commands", None)
        if word == "--" or (commands is not None and word.isupper()):  # the program's own; any command
            return None
        if word.startswith("-"):
            if word.split("=")[0] not in known:
                return f"{command.name} has no option {word}"
        elif commands is not None:
            if word not in commands:
                return f"{command.name} has no command {word}"
            command = commands[word]
    return None


@pytest.mark.parametrize("where", [in_messages, in_pages])
def test_what_is_advised_exists(where: object) -> None:
    """A reader types it as it stands."""
    commands = list(where())  # type: ignore[operator]
    assert len(commands) > 30
    assert [f"{place}: {text!r}: {why}" for place, text in commands if (why := wrong(text)) is not None] == []


def test_every_command_has_its_place_in_the_list() -> None:
    """`docs/cli.md` begins with it."""
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    listed = " ".join(re.findall(r"^\| (`headgate .+?) \| ", page, re.MULTILINE))
    root: Any = typer.main.get_command(app)
    names = []
    for name, command in root.commands.items():
        within = getattr(command, "commands", None)
        names += [name] if within is None else [f"{name} {one}" for one in within]
    assert len(names) > 15
    assert [name for name in names if f"headgate {name}" not in listed] == []


def test_a_command_that_does_not_exist_is_found() -> None:
    """Of each kind."""
    assert wrong("savepoint clicks") == "savepoint has no command clicks"
    assert wrong("stop clicks --savepiont x") == "stop has no option --savepiont"
    assert wrong("run job.py --parallelism 2 -- --limit 100") is None
