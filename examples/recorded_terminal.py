"""A terminal whose session is shown as it goes, and kept as a picture and as text."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

HEADGATE = str(Path(sys.executable).with_name("headgate"))
WIDTH = 165
SHOWN_AS = "/data"
"""What the folder of the session is called in what is shown."""
PATIENCE_S = 120


class Terminal:
    """Runs commands in a folder and shows them as a terminal does.

    Args:
        folder: where the commands run.
        console: where they are shown.
        programs: command -> the program that it means here.
        width: of its lines, in characters.
    """

    def __init__(
        self, folder: Path, console: Console, programs: Mapping[str, str] | None = None, width: int = WIDTH
    ) -> None:
        self._programs = {"headgate": HEADGATE, **(programs or {})}
        self._folder, self._console = folder, console
        self._environment = {
            **os.environ,
            "HEADGATE_HOME": str(folder / "home"),
            "COLUMNS": str(width),
            "TERM": "xterm-256color",
            "PYTHONUNBUFFERED": "1",
        }

    def says(self, command: str, fails: bool = False, last: int | None = None) -> str:
        """Run a command to its end, and show it with what it prints; gives that without its colours.

        Args:
            command: the line.
            fails: whether it must end with an error, which is shown, too.
            last: how many lines of what it prints are shown; None for all.
        """
        self._prompt(command)
        mine, its = pty.openpty()
        with subprocess.Popen(
            self._words(command), cwd=self._folder, env=self._environment, stdout=its, stderr=its
        ) as process:
            os.close(its)
            shown = _settled(self._short(_all_of(mine)))
            process.wait(PATIENCE_S)
        text = Text.from_ansi("\n".join(shown.splitlines()[-(last or 0) :]))
        if text.plain:
            self._console.print(text)
        if bool(process.returncode) != fails:
            raise SystemExit(f"{command!r} ended with exit code {process.returncode}: {text.plain}")
        return text.plain.replace(SHOWN_AS, str(self._folder))

    def notes(self, text: str) -> None:
        """Show what somebody does who is not typing: a line of comment."""
        self._console.print(Text(f"# {text}", style="dim"))

    @contextmanager
    def beside(self, command: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a command in the background while the body runs; it is killed if it does not end with it."""
        self._prompt(f"{command} &")
        log = self._folder / "driver.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                self._words(command), cwd=self._folder, env=self._environment, stdout=out, stderr=out
            )
        try:
            yield process
            if process.wait(PATIENCE_S):
                raise SystemExit(f"{command!r} ended with exit code {process.returncode}:\n{log.read_text()}")
        finally:
            process.kill()

    def _prompt(self, command: str) -> None:
        self._console.print(Text.assemble(("$ ", "bold green"), (self._short(command), "bold")))

    def _short(self, text: str) -> str:
        return text.replace(str(self._folder), SHOWN_AS)

    def _words(self, command: str) -> list[str]:
        first, *rest = shlex.split(command)
        return [self._programs.get(first, first), *rest]


def _all_of(terminal: int) -> str:
    """What was printed on a pseudo terminal until nobody can print on it any more."""
    found = bytearray()
    with os.fdopen(terminal, "rb", buffering=0) as stream, suppress(OSError):  # how Linux says that it ended
        while piece := stream.read(65_536):
            found += piece
    return found.decode().replace("\r\n", "\n").rstrip()


def _settled(text: str) -> str:
    """What is left of lines that were drawn over again and again: what stood there last."""
    text = re.sub(r"\x1b\[\?25[lh]", "", text)
    lines: list[str] = []
    for line in text.split("\n"):
        while lines and line.startswith("\x1b[1A"):
            lines.pop()
            line = line.removeprefix("\x1b[1A")
        lines.append(line.split("\r")[-1].replace("\x1b[2K", ""))
    return "\n".join(lines).rstrip()


def keep(console: Console, target: Path, title: str) -> None:
    """Write what a recording console has shown as a picture, and as text beside it."""
    # The picture names fonts of the machine that shows it, and fetches none.
    form = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    console.save_svg(str(target), title=title, clear=False, code_format=form)
    target.with_suffix(".txt").write_text(console.export_text())
