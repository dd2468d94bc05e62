"""``headgate plan``, ``options`` and ``version``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headgate as hg
from headgate.cli.main import app
from headgate.cli.pages.options_page import page
from headgate.common.settings.options import OPTIONS

PROGRAM = """
import sys
import headgate as hg
env = hg.Environment()
env.from_collection([1], uid="in").map(str).write_json("out")
print("preparing")
env.execute(sys.argv[1])
raise SystemExit("the program went on")
"""


def headgate(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A program that must not be run."""
    file = tmp_path / "job.py"
    file.write_text(PROGRAM, encoding="utf-8")
    return str(file)


def test_a_plan_is_shown_without_running(program: str) -> None:
    """Both graphs of the program with its settings, and nothing of its prints."""
    code, out, err = headgate("plan", program, "streaks", "--parallelism", "3")
    assert (code, err) == (0, "")
    assert out.startswith("job 'streaks': needs 3 slots")
    assert "uid 'in'" in out
    assert "as it runs" in out
    assert "preparing" not in out


def test_a_plan_for_machines(program: str) -> None:
    """One JSON object, with the settings of the command line."""
    code, out, _ = headgate("plan", program, "streaks", "--json", "-D", "parallelism.default=2")
    plan = json.loads(out)
    assert (code, plan["job"], plan["slots"]) == (0, "streaks", 2)
    assert plan["config"] == {"parallelism.default": "2"}


def test_a_plan_that_cannot_be_shown(program: str, tmp_path: Path) -> None:
    """The sentence, on the standard error, and the code of a refusal."""
    assert headgate("plan", str(tmp_path / "no.py"))[0] == 2
    code, out, err = headgate("plan", program, "streaks", "-D", "heartbeat.timeot=1s")
    assert (code, out) == (2, "")
    assert "did you mean 'heartbeat.timeout'?" in err
    assert "Traceback" not in err


def test_all_options_are_listed() -> None:
    """Every option with its default."""
    code, out, _ = headgate("options")
    assert code == 0
    listed = [line.partition(" = ")[0] for line in out.splitlines() if line and line[0] != " "]
    assert listed == list(OPTIONS)


@pytest.mark.parametrize("key", ["headgate.lease", "spark.headgate.lease"])
def test_one_option_is_told_in_full(key: str) -> None:
    """By either of its names: default, values, name in Spark's configuration, meaning."""
    code, out, _ = headgate("options", key)
    assert code == 0
    assert out.startswith("headgate.lease\n  default:   8s\n  values:    a duration of at least 1ms")
    assert "in Spark:  spark.headgate.lease" in out


def test_options_below_a_name() -> None:
    """The beginning of several keys lists those, and no other that only begins with the same letters."""
    listed = page("heartbeat")
    assert [line.partition(" =")[0] for line in listed.splitlines() if line[:1].strip()] == [
        "heartbeat.interval",
        "heartbeat.timeout",
    ]
    with pytest.raises(hg.ConfigError, match="did you mean 'heartbeat"):
        page("heartb")


def test_an_option_that_does_not_exist() -> None:
    """The nearest one is named."""
    code, out, err = headgate("options", "heartbaet.timeout")
    assert (code, out) == (2, "")
    assert err == "headgate: option 'heartbaet.timeout' does not exist; did you mean 'heartbeat.timeout'?\n"


def test_the_package_is_the_command() -> None:
    """`python -m headgate`, as in a container where scripts are not on the path."""
    done = subprocess.run(
        [sys.executable, "-m", "headgate", "version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"headgate {hg.__version__}")


def test_versions() -> None:
    """What to write into a report."""
    code, out, _ = headgate("version")
    assert code == 0
    assert out.splitlines()[0] == f"headgate {hg.__version__}"
    assert [line.split()[0] for line in out.splitlines()] == ["headgate", "python", "pyspark"]


def test_without_a_command_the_commands_are_listed() -> None:
    """Nobody is left with an empty screen."""
    result = CliRunner().invoke(app, [])
    for command in ("run", "plan", "options", "version"):
        assert f"  {command} " in result.output


def test_the_command_starts_without_heavy_packages() -> None:
    """Help and options come at once: neither Spark nor Arrow nor a drawing library is loaded."""
    code = (
        "import sys; from headgate.cli.main import app\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}"
        " & {'pyspark', 'pyarrow', 'numpy', 'polars', 'cloudpickle'}))"
    )
    path = [entry for entry in sys.path if entry]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "[]\n"
