"""Users' programs under `mypy --strict`: types go through the chain, and mistakes are found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str]]]:
    """What mypy says of each program: line and error code. One run for all of them."""
    cache = tmp_path_factory.mktemp("mypy")
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache)),
            *("--follow-imports", "silent", "--hide-error-context", "--no-error-summary", "--no-pretty"),
            *map(str, sorted(HERE.glob("user_*.py"))),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    found: dict[str, list[tuple[int, str]]] = {file.name: [] for file in HERE.glob("user_*.py")}
    for line in ran.stdout.splitlines():
        match = re.fullmatch(r"(.*?):(\d+)(?::\d+)?: error: .*\[([a-z-]+)\]", line)
        if match:
            found[Path(match[1]).name].append((int(match[2]), match[3]))
    return found


@pytest.mark.timeout(240)
@pytest.mark.parametrize("program", ["user_streaks.py", "user_untyped.py", "user_broadcast.py"])
def test_a_right_program_has_no_finding(program: str, findings: dict[str, list[tuple[int, str]]]) -> None:
    """Strict checking passes, and every `assert_type` in the program holds."""
    assert findings[program] == []


@pytest.mark.timeout(240)
def test_every_mistake_is_found_and_nothing_else(findings: dict[str, list[tuple[int, str]]]) -> None:
    """The findings are exactly those that the program announces."""
    lines = (HERE / "user_mistakes.py").read_text(encoding="utf-8").splitlines()
    announced = [
        (number, code)
        for number, line in enumerate(lines, start=1)
        if "# expect: " in line
        for code in line.rpartition("# expect: ")[2].split(", ")
    ]
    assert sorted(set(findings["user_mistakes.py"])) == announced
