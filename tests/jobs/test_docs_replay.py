"""The example of the page on replays prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from replayed_jobs import kept
from typer.testing import CliRunner

from headgate.cli.main import app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "replay.md"


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def told(lines: str) -> set[str]:
    """The lines without numbers, which depend on when checkpoints were taken, and without what they list."""
    return {
        re.sub(r"N(, N)*[, ]*(\.\.\.)?$", "N", re.sub(r"-?\d+", "N", line))
        for line in lines.splitlines()
        if line
    }


def test_the_example_prints_what_the_page_says(tmp_path: Path) -> None:
    """Every line that the page shows is printed, with other numbers."""
    (tmp_path / "job.py").write_text(blocks("python")[0], encoding="utf-8")
    subprocess.run([sys.executable, "job.py"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    before, after = kept(tmp_path)[2:4]
    command = ["replay", str(tmp_path / "job.py"), "--uid", "spent", "--key", "ada"]
    shown = CliRunner().invoke(app, [*command, "--from", before, "--to", after, "--once"])
    assert shown.exit_code == 0, shown.output
    first, last = blocks("")[:2]
    alike = told(shown.stdout)
    for line in told(first) | told(last):
        other = line.replace("'tea'", "'jam'")
        assert line in alike or other in alike, f"{line}\n{shown.stdout[:3000]}"
