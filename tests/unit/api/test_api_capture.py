"""A program's plan without running it: scripts and build(env), errors, and nothing started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import headgate as hg
from headgate.api.jobs import launch_settings
from headgate.api.jobs.launch import run_program
from headgate.api.jobs.launch_settings import launch_variables
from headgate.api.jobs.plan_capture import capture

FAKES = str(Path(__file__).parent)

BODY = """
from __future__ import annotations
import sys
sys.path.append({fakes!r})
import headgate as hg
from api_fakes import Numbers, Shelf

class Total(hg.KeyedProcessFunction):
    total: hg.ValueState[Amount] = hg.value_state()
    def process(self, record, ctx):
        yield record

class Amount:
    pass
"""

SCRIPT = """
env = hg.Environment()
env.from_source(Numbers("no such file"), uid="in").key_by("a").process(Total(), uid="total").sink_to(Shelf())
try:
    env.execute(sys.argv[1] if len(sys.argv) > 1 else "job")
except Exception:
    print("an except clause of the program must not catch the end of the capture")
raise SystemExit("the program went on after execute()")
"""

BUILD = """
def build(env):
    env.from_source(Numbers(), uid="in").key_by("a").process(Total(), uid="total").sink_to(Shelf())
"""


@pytest.fixture
def program(tmp_path: Path):
    """Writes a program file."""

    def write(*parts: str) -> Path:
        file = tmp_path / "totals.py"
        file.write_text(BODY.replace("{fakes!r}", repr(FAKES)) + "".join(parts), encoding="utf-8")
        return file

    return write


def test_a_script_is_captured_at_execute(program) -> None:
    """Job name, settings, graph and declared state are told; the program does not go on."""
    plan = capture(program(SCRIPT), arguments=["mine"], options=["parallelism.default=3"])
    assert (plan["format"], plan["job"], plan["slots"]) == (1, "mine", 3)
    assert plan["config"] == {"parallelism.default": "3"}
    (keyed,) = [node for node in plan["logical"] if node["kind"] == "KeyedProcess"]
    assert keyed["uid"] == "total"
    assert keyed["state"] == [{"name": "total", "kind": "value", "types": ["Amount"]}]


def test_a_module_with_build_is_captured_under_its_name(program) -> None:
    """The second form needs no execute() of its own; its annotations resolve in its own module."""
    plan = capture(program(BUILD))
    assert plan["job"] == "totals"
    assert [vertex["name"] for vertex in plan["vertices"]] == ["Numbers", "Total -> Shelf"]


def test_capturing_starts_and_loads_nothing(program) -> None:
    """No Spark, no Arrow, not even the pickler; sources are not asked whether their files exist."""
    at_exit = (
        "import atexit\natexit.register(lambda to: open(to, 'w').write(' '.join(sys.modules)), sys.argv[2])\n"
    )
    file = program(at_exit, SCRIPT)
    listing = file.parent / "modules.txt"
    capture(file, arguments=["x", str(listing)])
    loaded = set(listing.read_text().split())
    assert "headgate.graph.plan" in loaded
    assert not loaded & {"pyspark", "pyarrow", "numpy", "polars", "cloudpickle"}
    assert not [name for name in loaded if name.startswith(("headgate.runtime", "headgate.deploy"))]


def test_a_usage_error_of_the_program_comes_back_as_itself(program) -> None:
    """The user sees the sentence that running would have given."""
    broken = "env = hg.Environment()\nenv.from_source(Numbers(), uid='in').map(str)\nenv.execute()\n"
    with pytest.raises(hg.PlanError, match=r"'map' \(totals\.py:\d+\) leads nowhere"):
        capture(program(broken))
    with pytest.raises(hg.ConfigError, match="did you mean"):
        capture(program(SCRIPT), options=["parallelism.defalt=3"])


def test_any_other_error_comes_with_its_traceback(program) -> None:
    """The program's own mistake is shown where it was made."""
    with pytest.raises(hg.PlanError, match="raised ZeroDivisionError before execute") as caught:
        capture(program("1 / 0\n"))
    assert "totals.py" in str(caught.value)


def test_a_program_without_a_job_is_refused(program) -> None:
    """Neither execute() nor build(env)."""
    with pytest.raises(hg.PlanError, match="ended without a job"):
        capture(program(""))
    with pytest.raises(hg.PlanError, match="there is no program"):
        capture("nowhere.py")


def test_a_program_that_dies_is_told_with_its_last_words(program) -> None:
    """What it printed is all there is to say."""
    with pytest.raises(hg.PlanError, match=r"ended before execute\(\); it said: 'goodbye"):
        capture(program("import os\nprint('goodbye', flush=True)\nos._exit(3)\n"))


@pytest.mark.parametrize("apart", ["true", "false"])
def test_run_program_runs_a_script_as_python_would(
    program, capsys: pytest.CaptureFixture[str], apart: str
) -> None:
    """Its name is __main__, its folder is importable, its arguments are its own; all is put back."""
    look = "print(__name__, sys.argv, next(path for path in sys.path if path == os.path.dirname(__file__)))"
    file = program(f"import os\n{look}\nraise KeyError('enough')\n", BUILD)
    before = (list(sys.argv), list(sys.path), sys.modules["__main__"])
    with pytest.raises(KeyError, match="enough"):
        run_program(file, ["--fast"], [f"headgate.user-code.apart={apart}"])
    assert f"__main__ ['{file}', '--fast'] {file.parent}" in capsys.readouterr().out
    assert (sys.argv, sys.path, sys.modules["__main__"]) == before


def test_launch_variables_are_read_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the command line says reaches the program."""
    for key, value in launch_variables(["a=b", "c=d e"], "/chk", tmp_path).items():
        monkeypatch.setenv(key, value)
    assert launch_settings.command_line_options() == ["a=b", "c=d e"]
    assert launch_settings.restore_from() == "/chk"
    assert launch_settings.capture_file() == tmp_path
