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
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.recorded_terminal import PATIENCE_S, WIDTH, Terminal, keep

HERE = Path(__file__).parent


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
        keep(console, Path(asked.record), "An upgrade of a running job")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
