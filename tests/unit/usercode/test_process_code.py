"""Interpreters that allow no namespaces: how it is noticed, and what a program gets in their place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WITHOUT_NAMESPACES = """
import json, sys
from headgate.usercode.loading_errors import NoIsolationError
from headgate.usercode.namespaces import imports, interpreter

{broken}
before = sys.modules
try:
    imports.install()
    said = "installed"
except NoIsolationError as error:
    said = str(error)
import wave
print(json.dumps([said, sys.modules is before, "wave" in before, imports.is_installed()]))
"""
BROKEN = {
    "the canary dies": "interpreter._canary = lambda table: False",
    "the table is nowhere": "interpreter.STATE_BYTES = 0",
    "it is another Python": "sys.implementation.name = 'pypy'",
    "it is switched off": "import os; os.environ['HEADGATE_NAMESPACES'] = 'off'",
    "it is switched off by the name of before": "import os; os.environ['HEADGATE_REALMS'] = 'off'",
}
PROGRAM = """
import logging
import sys

import attr
import helpers
import headgate as hg
import json
import os
import late_binding

print("attr", attr.VERSION, helpers.WHOSE, json.__name__, hasattr(json, "WHOSE"), late_binding.WHERE)
env = hg.Environment(executor="mini-cluster", parallelism=1)
doubled = env.from_collection([1, 2]).map(lambda n: helpers.double(n)).collect_later()
env.execute("doubled")
print("doubled", sorted(doubled.records), sys.modules["__main__"].__file__.endswith("job.py"))
"""
RUNS_TWO = """
import sys
import headgate as hg
from headgate.usercode.loading_errors import UserCodeLoadError

program, other, brought = sys.argv[1:]
hg.run_program(program, options=[f"headgate.user-code.path={brought}", "headgate.progress=off"])
print("main", sys.modules["__main__"].__file__ == __file__)
try:
    hg.run_program(other)
except UserCodeLoadError as error:
    print("refused", error)
"""


def python(text: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own."""
    command = [sys.executable, "-c", text, *arguments]
    if arguments:
        command = [sys.executable, text, *arguments]
    variables = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=variables)


@pytest.mark.parametrize("broken", BROKEN)
def test_an_interpreter_without_namespaces_is_left_as_it_was(broken: str) -> None:
    """It is an error that names the interpreter; imports go on as before."""
    ended = python(WITHOUT_NAMESPACES.format(broken=BROKEN[broken]))
    assert ended.returncode == 0, ended.stderr
    said, same, works, installed = json.loads(ended.stdout)
    assert "cannot be isolated within one process on this interpreter" in said
    assert ".".join(map(str, sys.version_info[:3])) in said
    assert (same, works, installed) == (True, True, False)


def brings(folder: Path) -> tuple[Path, Path]:
    """A program's folder and what it brings beside it."""
    code, deps = folder / "code", folder / "deps"
    (code / "elsewhere").mkdir(parents=True)
    (deps / "attr").mkdir(parents=True)
    (code / "job.py").write_text(PROGRAM)
    (code / "helpers.py").write_text("WHOSE = 'mine'\ndef double(n):\n    return 2 * n\n")
    (code / "json.py").write_text("WHOSE = 'mine'\n")
    (deps / "attr" / "__init__.py").write_text("VERSION = 'of the job'\n")
    (deps / "pyspark").mkdir()
    (deps / "pyspark" / "__init__.py").write_text("raise RuntimeError('this is the framework’s')\n")
    (deps / "below").mkdir()
    (deps / "below" / "late_binding.py").write_text("WHERE = 'named by a .pth file'\n")
    (deps / "paths.pth").write_text("below\n")
    return code, deps


def test_a_program_without_namespaces_has_the_process_to_itself(tmp_path: Path) -> None:
    """What it brings wins, but for the standard library and parent-first patterns; and it is said."""
    code, deps = brings(tmp_path)
    command = [sys.executable, "-m", "headgate", "run", str(code / "job.py"), "--with", str(deps)]
    environment: dict[str, Any] = {**os.environ, "HEADGATE_NAMESPACES": "off"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert "attr of the job mine json False named by a .pth file" in lines
    assert "doubled [2, 4] True" in lines
    assert "HEADGATE_NAMESPACES is off" in ended.stderr


def test_another_program_needs_another_process(tmp_path: Path) -> None:
    """The first one's modules are there for good; they would be the second one's."""
    code, deps = brings(tmp_path)
    runner = tmp_path / "runner.py"
    runner.write_text(RUNS_TWO)
    (tmp_path / "other.py").write_text("import helpers\n")
    names = str(code / "job.py"), str(tmp_path / "other.py"), str(deps)
    ended = python(str(runner), *names, HEADGATE_NAMESPACES="off")
    assert ended.returncode == 0, ended.stderr
    assert "main True" in ended.stdout
    assert "refused program" in ended.stdout
    assert "job.py', and on this interpreter only processes isolate programs" in ended.stdout


ENDS = """
import atexit
import headgate as hg

@atexit.register
def end():
    import late_binding
    print("ended", late_binding.WHERE)

env = hg.Environment(executor="mini-cluster", parallelism=1)
env.from_collection([1]).collect_later()
env.execute("ends")
"""


ASSIGNS = """
import sys
sys.path = ["/nowhere"] + sys.path
import wave
from headgate.common.process.search_path import framework_path
print("of framework", [entry for entry in framework_path() if entry.endswith("deps")])
"""


def test_what_a_program_leaves_for_the_end_finds_its_modules(tmp_path: Path) -> None:
    """They are there as long as the process is; `sys.path = [...]` does not change whose the folders are."""
    code, deps = brings(tmp_path)
    (code / "job.py").write_text(ENDS + ASSIGNS)
    command = [sys.executable, "-m", "headgate", "run", str(code / "job.py"), "--with", str(deps)]
    environment: dict[str, Any] = {**os.environ, "HEADGATE_NAMESPACES": "off"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert "ended named by a .pth file" in ended.stdout, ended.stderr
    assert "of framework []" in ended.stdout


def test_a_pattern_for_a_part_of_a_namespace_package(tmp_path: Path) -> None:
    """The framework's portion comes first where a pattern wants it; all else is in the order of the path."""
    for owner in ("framework", "user"):
        place = tmp_path / owner / "shared_space" / "part"
        place.mkdir(parents=True)
        (place / "__init__.py").write_text(f"WHOSE = {owner!r}\n")
    text = """
import sys
from headgate.usercode.resolution import parent_first
from headgate.usercode.program_process import ProcessOrder
from headgate.usercode.namespaces.loader import NamespaceSettings
framework, user, *patterns = sys.argv[1:]
sys.path.append(framework)
ProcessOrder([user], NamespaceSettings(parent_first(additional=patterns))).put_in_place()
from shared_space import part
print(part.WHOSE)
"""
    program = tmp_path / "asks.py"
    program.write_text(text)
    places = str(tmp_path / "framework"), str(tmp_path / "user")
    assert python(str(program), *places).stdout == "user\n"
    assert python(str(program), *places, "shared_space.part.").stdout == "framework\n"


def test_explain_knows_that_a_job_is_alone(tmp_path: Path) -> None:
    """It says so, and where packages with compiled parts run then."""
    code, deps = brings(tmp_path)
    command = [
        *(sys.executable, "-m", "headgate", "usercode", "explain", str(code / "job.py")),
        *("attr", "--with", str(deps), "--json"),
    ]
    environment: dict[str, Any] = {**os.environ, "HEADGATE_NAMESPACES": "no"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    said = json.loads(ended.stdout)
    assert said["own_processes"] is True
    assert "HEADGATE_NAMESPACES is no; every program has a driver process" in said["warnings"][0]
    assert said["modules"][0]["copy"] == "user"
