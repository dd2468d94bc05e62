"""Programs that bring nothing run in the plain interpreter; others beside them go on working."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOOK = """
import sys
import headgate as hg
import helpers

def seen(n):
    namespaces = [name for name in sys.modules if name.startswith("headgate.usercode.namespaces")]
    return (type(sys.modules).__name__, namespaces, helpers.WHOSE)

env = hg.Environment(executor="mini-cluster", parallelism=1)
kept = env.from_collection([1]).map(seen).collect_later()
env.execute("look")
print("saw", kept.records[0], seen(0) == kept.records[0], __name__)
"""
OUTER = """
import sys
import headgate as hg
import helpers

for other in sys.argv[1:]:
    hg.run_program(other, options=["headgate.progress=off"])
    assert helpers is sys.modules["helpers"]
    assert sys.modules["__main__"].__file__ == __file__

env = hg.Environment(executor="mini-cluster", parallelism=1)
kept = env.from_collection([1]).map(lambda n: helpers.WHOSE).collect_later()
env.execute("outer")
print("outer", kept.records)
"""


def program(folder: Path, whose: str, text: str = LOOK, *beside: str) -> str:
    """A program with a module `helpers` beside it, and empty modules."""
    folder.mkdir()
    (folder / "job.py").write_text(text)
    (folder / "helpers.py").write_text(f"WHOSE = {whose!r}\n")
    for name in beside:
        (folder / name).touch()
    return str(folder / "job.py")


def headgate(*arguments: str, **variables: str) -> str:
    """The command, to its end; gives what it printed."""
    command = [sys.executable, "-m", "headgate", *arguments]
    ended = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **variables}, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "process and Python workers of its own" not in ended.stderr
    return ended.stdout


def test_a_program_that_brings_nothing_is_plain(tmp_path: Path) -> None:
    """The table of modules is Python's own, and nothing of the namespaces is loaded, allowed or not."""
    job = program(tmp_path / "code", "mine")
    for switch in ("on", "off"):
        said = headgate("run", "-q", job, HEADGATE_NAMESPACES=switch)
        assert said == "saw ('dict', [], 'mine') True __main__\n"


@pytest.mark.parametrize(
    ("beside", "options"),
    [(["kazoo.py"], []), ([], ["-D", "headgate.user-code.apart=true"]), ([], ["--with", "DEPS"])],
)
def test_a_program_that_may_clash_is_isolated(beside: list[str], options: list[str], tmp_path: Path) -> None:
    """By a name beside it, by what it asks for, by what it brings."""
    job = program(tmp_path / "code", "mine", LOOK, *beside)
    (tmp_path / "deps").mkdir()
    options = [str(tmp_path / "deps") if text == "DEPS" else text for text in options]
    said = headgate("run", "-q", *options, job)
    assert said.startswith("saw ('ModuleTable', ['headgate.usercode.namespaces")
    assert said.endswith("'mine') True __main__\n")


def test_programs_of_a_program_keep_to_themselves(tmp_path: Path) -> None:
    """A plain program that runs two others, each with a `helpers` of its own, keeps its own and its jobs."""
    others = [program(tmp_path / whose, whose) for whose in ("one", "two")]
    said = headgate("run", "-q", program(tmp_path / "outer", "outer", OUTER), *others).splitlines()
    assert ["'one')" in said[0], "'two')" in said[1], said[2]] == [True, True, "outer ['outer']"]
    assert all(line.startswith("saw ('ModuleTable'") for line in said[:2])


def test_a_second_program_of_the_command_in_one_process_is_isolated(tmp_path: Path) -> None:
    """Two runs of `headgate run` one after the other in one interpreter, as in tests of programs."""
    jobs = [program(tmp_path / whose, whose) for whose in ("one", "two")]
    text = (
        "import sys; from headgate.api.jobs.launch import run_alone; [run_alone(job) for job in sys.argv[1:]]"
    )
    ended = subprocess.run([sys.executable, "-c", text, *jobs], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    first, second = ended.stdout.splitlines()
    assert first == "saw ('dict', [], 'one') True __main__"
    assert second.startswith("saw ('ModuleTable'")
    assert second.endswith("'two') True __main__")


def test_release_hooks_of_a_plain_program_run_at_the_end_of_the_process(tmp_path: Path) -> None:
    """Once each, and no namespace is loaded for them."""
    text = (
        LOOK
        + """
hg.register_release_hook("end", lambda: print("released"))
hg.register_release_hook("end", lambda: print("released"))
print("namespaces", seen(0)[1])
"""
    )
    said = headgate("run", "-q", program(tmp_path / "code", "mine", text)).splitlines()
    assert said[1:] == ["namespaces []", "released"]


def test_a_module_that_is_isolated_means_the_same_to_a_look_at_the_plan(tmp_path: Path) -> None:
    """`headgate plan` decides as `headgate run` does."""
    text = LOOK.replace(
        "env.execute", "print('plan', type(sys.modules).__name__, file=sys.stderr)\nenv.execute"
    )
    job = program(tmp_path / "code", "mine", text)
    assert "look" in headgate("plan", job, "--json")
