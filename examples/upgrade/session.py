"""Changes a running job: savepoint, check of the new version, stop, resume - and shows what a terminal shows.

    python examples/upgrade/session.py                      # runs it
    python examples/upgrade/session.py --record docs/upgrade-session.svg

A job counts clicks per page for ever. Its next version renames a field of its state, adds another, and keeps
one more state. At the end every page's counts are checked: none is missing and none came twice, across the
upgrade. Exit code 1 if they are not.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
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
    """

    def __init__(self, folder: Path, console: Console) -> None:
        self._folder, self._console = folder, console
        self._environment = {
            **os.environ,
            "HEADGATE_HOME": str(folder / "home"),
            "COLUMNS": str(WIDTH),
            "TERM": "xterm-256color",
            "PYTHONUNBUFFERED": "1",
        }

    def says(self, command: str) -> str:
        """Run a command to its end, and show it with what it prints; gives that without its colours."""
        self._prompt(command)
        mine, its = pty.openpty()
        with subprocess.Popen(
            self._words(command), cwd=self._folder, env=self._environment, stdout=its, stderr=subprocess.PIPE
        ) as process:
            os.close(its)
            text = Text.from_ansi(self._short(_all_of(mine)))
            self._console.print(text)
            _, errors = process.communicate(timeout=PATIENCE_S)
        if process.returncode:
            raise SystemExit(f"{command!r} ended with exit code {process.returncode}: {errors.decode()}")
        return text.plain.replace(SHOWN_AS, str(self._folder))

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

    @staticmethod
    def _words(command: str) -> list[str]:
        first, *rest = shlex.split(command)
        return [HEADGATE if first == "headgate" else first, *rest]


def _all_of(terminal: int) -> str:
    """What was printed on a pseudo terminal until nobody can print on it any more."""
    found = bytearray()
    with os.fdopen(terminal, "rb", buffering=0) as stream, suppress(OSError):  # how Linux says that it ended
        while piece := stream.read(65_536):
            found += piece
    return found.decode().replace("\r\n", "\n").rstrip()


def lines(folder: Path) -> list[dict[str, object]]:
    """All committed output."""
    parts = sorted(folder.rglob("*.jsonl")) if folder.exists() else []
    return [json.loads(line) for part in parts for line in part.read_text().splitlines()]


def until_more(folder: Path, than: int, driver: subprocess.Popen[bytes]) -> None:
    """Wait until more than so many lines are committed."""
    deadline = time.monotonic() + PATIENCE_S
    while len(lines(folder)) <= than:
        if time.monotonic() > deadline or driver.poll() is not None:
            log = (folder.parent / "driver.log").read_text()
            raise SystemExit(f"no more than {than} lines came; the drivers said:\n{log}")
        time.sleep(0.3)


def session(terminal: Terminal, folder: Path) -> None:
    """Run, savepoint, check, stop, resume, look, stop."""
    out = folder / "out"
    run = f"-p 2 -D execution.checkpointing.interval=1s -D execution.checkpointing.dir={folder}/checkpoints"
    with terminal.beside(f"headgate run v1/clicks.py {run} -- {out}") as driver:
        until_more(out, 500, driver)
        terminal.says("headgate list")
        taken = terminal.says(f"headgate savepoint create clicks --dir {folder}/savepoints").split()[-1]
        terminal.says(f"headgate check-upgrade {taken} v2/clicks.py -- {out}")
        stopped = terminal.says(f"headgate stop clicks --savepoint-dir {folder}/savepoints").split()[-1]
    before = len(lines(out))
    with terminal.beside(f"headgate run v2/clicks.py --from {stopped} {run} -- {out}") as driver:
        until_more(out, before + 500, driver)
        terminal.says("headgate query clicks per-page visits page-7")
        terminal.says("headgate status clicks")
        terminal.says(f"headgate stop clicks --drain --savepoint-dir {folder}/savepoints")


def wrong(found: list[dict[str, object]]) -> list[str]:
    """What is missing or too much: each page's counts are 1, 2, 3, ... in all parts together."""
    counts: dict[object, list[object]] = {}
    for line in found:
        counts.setdefault(line["page"], []).append(line["clicks"])
    return [
        f"{page}: {len(seen)} lines, counts up to {max(map(int, map(str, seen)))}"
        for page, seen in counts.items()
        if sorted(map(int, map(str, seen))) != list(range(1, len(seen) + 1))
    ]


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", metavar="FILE.svg", help="keep what was shown as a picture, and as text")
    asked = parser.parse_args()
    console = Console(width=WIDTH, record=True, force_terminal=None if asked.record is None else True)
    with tempfile.TemporaryDirectory(prefix="headgate-upgrade-") as name:
        folder = Path(name).resolve()
        for version in ("v1", "v2"):
            (folder / version).symlink_to(HERE / version)
        session(Terminal(folder, console), folder)
        found = lines(folder / "out")
    failures = wrong(found)
    for failure in failures:
        console.print(failure, style="red")
    console.print(f"{len(found)} lines: no click was lost or counted twice" if not failures else "not exact")
    if asked.record:
        # The picture names fonts of the machine that shows it, and fetches none.
        form = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
        title = "An upgrade of a running job"
        console.save_svg(asked.record, title=title, clear=False, code_format=form)
        Path(asked.record).with_suffix(".txt").write_text(console.export_text())
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
