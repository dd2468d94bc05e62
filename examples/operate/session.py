"""Looks after a running job: what it does, why it is slow, what it quarantined, how a key came to its state.

    python examples/operate/session.py                      # runs it
    python examples/operate/session.py --record docs/operate.svg

The job asks somebody for each order, and some orders have no price that is a number. Exit code 1 if a command
does not say what it should.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.recorded_terminal import PATIENCE_S, WIDTH, Terminal, keep

HERE = Path(__file__).parent


def completed(folder: Path) -> list[Path]:
    """The checkpoints that are kept, oldest first."""
    found = folder.glob("checkpoints/*/chk-*/_metadata")
    return sorted((path.parent for path in found), key=lambda path: int(path.name.removeprefix("chk-")))


def until_watched(folder: Path) -> None:
    """Wait until there are some checkpoints."""
    deadline = time.monotonic() + PATIENCE_S
    while len(completed(folder)) < 6:
        if time.monotonic() > deadline:
            raise SystemExit(f"no checkpoints came; the driver said:\n{(folder / 'driver.log').read_text()}")
        time.sleep(0.3)


def session(terminal: Terminal, folder: Path) -> list[str]:
    """Run, look, ask why, stop, replay; what did not say what it should."""
    run = f"-p 2 -D execution.checkpointing.interval=2s -D execution.checkpointing.dir={folder}/checkpoints"
    kept = "-D execution.checkpointing.num-retained=20"
    said = {}
    with terminal.beside(f"headgate run orders.py {run} {kept} -- {folder}/out"):
        until_watched(folder)
        said["'spent -> out' is the bottleneck"] = terminal.says("headgate top orders --once")
        said["in_euros (orders.py"] = terminal.says("headgate why orders")
        said["spent"] = terminal.says(f"headgate quarantine list {folder}/checkpoints/quarantine")
        said["report"] = terminal.says("headgate report orders")
        said["stopped"] = terminal.says(f"headgate stop orders --savepoint-dir {folder}/savepoints")
    first, second = completed(folder)[2:4]
    replay = f"headgate replay orders.py --uid spent --key ada --from {first} --to {second} -- {folder}/out"
    said["byte for byte"] = terminal.says(replay, last=12)
    return [
        f"{text!r} is not in what was said:\n{found}" for text, found in said.items() if text not in found
    ]


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", metavar="FILE.svg", help="keep what was shown as a picture, and as text")
    asked = parser.parse_args()
    console = Console(width=WIDTH, record=True, force_terminal=None if asked.record is None else True)
    with tempfile.TemporaryDirectory(prefix="headgate-operate-") as name:
        folder = Path(name).resolve()
        (folder / "orders.py").symlink_to(HERE / "orders.py")
        wrong = session(Terminal(folder, console), folder)
    for each in wrong:
        console.print(each, style="red", markup=False)
    if asked.record:
        keep(console, Path(asked.record), "A job is looked after")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
