"""Scripts on worker processes: the alias of an enumeration, its rename, and attributes of the module."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.ci

PROGRAM = """
import os
import sys
from enum import Enum
from typing import Any

import headgate as hg
from headgate.testing import ProcessCluster


class Color(Enum):
    {members}


class Painted(hg.KeyedProcessFunction[int, int, Any]):
    last: hg.ValueState[Color | None] = hg.value_state(default=None)
    seen: hg.ListState[Color] = hg.list_state()

    def process(self, record, ctx):
        before = self.last.value
        self.last.value = Color["{written}"]
        self.seen.add(Color.{written})
        yield [record, before and before.name, Color["{alias}"].name, len(self.seen.get())]


folder = sys.argv[1]
config = {{"execution.checkpointing.savepoint-dir": folder + "/savepoints"}}
env = hg.Environment(parallelism=2, executor=ProcessCluster(), config=config)
env.checkpoints(every="1h", storage=folder + "/checkpoints")
numbers = env.generate(lambda n: n, count={count}, rate_per_s={rate}, uid="in")
numbers.key_by(lambda n: n % 3).process(Painted(), uid="painted").write_json(folder + "/{out}", uid="out")
restore = os.environ.get("RESTORE")
if restore:
    env.execute("paint", restore_from=restore)
else:
    with env.execute_async("paint") as handle:
        while handle.status().vertices[0].records_out < 12:
            pass
        print(handle.stop())
"""


def script(path: Path, **facts: Any) -> Path:
    """A program of its own."""
    path.write_text(PROGRAM.format(**facts))
    return path


def ran(command: list[str], **variables: str) -> str:
    """What a command says, which has to succeed."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, **variables}, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def published(folder: Path) -> list[Any]:
    """What was written, in the order of the records."""
    lines = [line for file in folder.glob("part-*.jsonl") for line in file.read_text().splitlines()]
    return sorted(json.loads(line) for line in lines)


def test_a_renamed_member_passes_the_check_and_is_restored(tmp_path: Path) -> None:
    """As the page on state evolution recommends it: the new name first, the old one as its alias."""
    first = script(
        tmp_path / "job.py",
        members="BLUE = 1\n    AZURE = BLUE",
        written="BLUE",
        alias="AZURE",
        count=None,
        rate=200,
        out="first",
    )
    savepoint = ran([sys.executable, str(first), str(tmp_path)]).split()[-1]
    before = published(tmp_path / "first")
    second = script(
        tmp_path / "job.py",
        members="NAVY = 1\n    BLUE = NAVY",
        written="NAVY",
        alias="BLUE",
        count=len(before) + 30,
        rate=None,
        out="first",
    )
    checked = ran([sys.executable, "-m", "headgate", "check-upgrade", savepoint, str(second), str(tmp_path)])
    assert "painted" in checked
    ran([sys.executable, str(second), str(tmp_path)], RESTORE=savepoint)
    found = published(tmp_path / "first")
    assert len({row[0] for row in found}) == len(found) > len(before)
    assert {tuple(row[1:3]) for row in found if row in before} == {(None, "BLUE"), ("BLUE", "BLUE")}
    assert {tuple(row[1:3]) for row in found if row not in before} == {("NAVY", "NAVY")}
    for key in range(3):
        seen = sorted(row[3] for row in found if row[0] % 3 == key)
        assert seen == list(range(1, len(seen) + 1))


def test_attributes_that_a_script_sets_on_its_module_travel(tmp_path: Path) -> None:
    """Globals that functions read, also such as were assigned after the function was defined."""
    program = tmp_path / "globals.py"
    program.write_text(
        textwrap.dedent(
            """
            import sys
            import headgate as hg
            from headgate.testing import ProcessCluster

            def scaled(n):
                return [n * FACTOR, NAMES.get(n, "?"), scaled.note]

            FACTOR, NAMES = 3, {}
            scaled.note = "kept"
            NAMES[1] = "one"
            setattr(sys.modules["__main__"], "FACTOR", 5)
            env = hg.Environment(parallelism=2, executor=ProcessCluster())
            print(sorted(env.from_collection([1, 2]).map(scaled).collect()))
            """
        )
    )
    assert ran([sys.executable, str(program)]).strip() == "[[5, 'one', 'kept'], [10, '?', 'kept']]"
