"""The first hour with Headgate as a terminal shows it: install, a mistake and its mending, look, upgrade.

    python examples/first_hour/session.py                       # runs it
    python examples/first_hour/session.py --record docs/first-hour.svg

The program is the first one of the README. At the end the output of both of its versions is checked against a
plain count of the same file; exit code 1 if it differs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from examples.recorded_terminal import PATIENCE_S, Terminal, keep  # noqa: E402 - the checkout is no package

WIDTH = 175
LOOK = """import headgate as hg

env = hg.Environment(parallelism=2)
commits = env.read_json("commits.jsonl.gz")
print(commits.preview(3))
commits.filter(lambda commit: commit["files"] > 120).print()
env.execute("large commits")
"""


def prepare(folder: Path) -> dict[str, str]:
    """An environment that has what Headgate needs but not Headgate, and a checkout; the programs of it."""
    made = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    pip = made / "bin" / "pip"
    pip.write_text(
        f"#!{made}/bin/python\nfrom pip._internal.cli.main import main\nraise SystemExit(main())\n"
    )
    pip.chmod(0o755)
    packages = made / "lib" / Path(sysconfig.get_path("purelib")).parent.name / "site-packages"
    needed = [path for path in map(Path, sys.path) if path.name == "site-packages"]
    (packages / "what-headgate-needs.pth").write_text("".join(f"{path}\n" for path in needed))
    for name in ("src", "pyproject.toml", "README.md", "LICENSE"):
        source, target = ROOT / name, folder.parent / "headgate" / name
        if source.is_dir():
            target.parent.mkdir(exist_ok=True)
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, target)
    return {name: str(made / "bin" / name) for name in ("pip", "python", "headgate")}


def program() -> str:
    """The first Python block of the README."""
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def session(terminal: Terminal, work: Path) -> None:
    """Everything that is typed; a comment says what an editor does in between."""
    terminal.says(
        "pip install --quiet --no-deps --no-index --no-build-isolation --ignore-installed ../headgate"
    )
    terminal.says("headgate --version")
    terminal.says("headgate example commits")
    mine = work / "standings.py"
    mine.write_text(program().replace('key_by("author")', 'key_by("autor")'))
    terminal.notes("the first program of the README is saved as standings.py, with a letter missing")
    terminal.says("python standings.py", fails=True)
    terminal.says("sed -i s/autor/author/ standings.py")
    terminal.says("headgate run standings.py")
    (work / "look.py").write_text(LOOK)
    terminal.says("cat look.py")
    terminal.says("python look.py")
    upgrade(terminal, work, mine)


def upgrade(terminal: Terminal, work: Path, program: Path) -> None:
    """Stop a running job with a savepoint, and go on with a version whose state has one more field."""
    shutil.rmtree(work / "out")
    slow = "def slow(commit):\n    time.sleep(0.002)\n    return True\n\n\nenv = "
    text = (
        program.read_text()
        .replace("    .key_by(", "    .filter(slow)\n    .key_by(")
        .replace("env = ", slow, 1)
    )
    program.write_text(f"import time\n{text}")
    terminal.notes("a slow filter comes before key_by, so that there is time to upgrade a job that runs")
    with terminal.beside("headgate run standings.py"):
        until_output(work / "out")
        taken = terminal.says("headgate stop standings --savepoint-dir savepoints").split()[-1]
    terminal.notes("the next version: Standing gets one more field")
    terminal.says(r"sed -i 's/quiet: bool = False/&\n    bot: bool = False/' standings.py")
    terminal.says(f"headgate check-upgrade {taken} standings.py")
    terminal.says(f"headgate run standings.py --from {taken}")


def until_output(folder: Path) -> None:
    """Wait until a checkpoint has published something."""
    deadline = time.monotonic() + PATIENCE_S
    while not list(folder.glob("part-*.jsonl")):
        if time.monotonic() > deadline:
            raise SystemExit("the job published nothing")
        time.sleep(0.2)


def wrong(work: Path) -> list[str]:
    """What differs from a plain count of the file: each author's standings are 1, 2, 3, ... each once."""
    with gzip.open(work / "commits.jsonl.gz", "rt") as lines:
        commits = Counter(json.loads(line)["author"] for line in lines)
    expected = Counter((author, n + 1) for author, count in commits.items() for n in range(count))
    rows = [
        json.loads(line) for part in (work / "out").glob("part-*") for line in part.read_text().splitlines()
    ]
    found = Counter((row["author"], row["commits"]) for row in rows if not row["quiet"])
    missing, twice = expected - found, found - expected
    return [f"{missing.total()} standings are missing, {twice.total()} too many"] if missing or twice else []


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", metavar="FILE.svg", help="keep what was shown as a picture, and as text")
    asked = parser.parse_args()
    console = Console(width=WIDTH + 10, record=True, force_terminal=None if asked.record is None else True)
    with tempfile.TemporaryDirectory(prefix="headgate-first-hour-") as name:
        folder = Path(name).resolve()
        work = folder / "work"
        work.mkdir()
        session(Terminal(work, console, prepare(work), WIDTH), work)
        failures = wrong(work)
    console.print(
        "every commit was counted once, across the upgrade" if not failures else "; ".join(failures)
    )
    if asked.record:
        keep(console, Path(asked.record), "The first hour")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
