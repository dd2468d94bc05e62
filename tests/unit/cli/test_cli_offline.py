"""How the commands end that look at snapshots and programs while no job runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.cli.check_upgrade import render
from headgate.cli.main import app
from headgate.offline.upgrade import Item, OperatorReport, UpgradeReport, Verdict

COMMANDS = [
    ("savepoint", "show", "SNAPSHOT"),
    ("savepoint", "reslice", "SNAPSHOT", "TARGET", "--max-parallelism", "256"),
    ("savepoint", "migrate", "SNAPSHOT", "TARGET", "PROGRAM"),
    ("savepoint", "diff", "SNAPSHOT", "SNAPSHOT"),
    ("savepoint", "delete", "SNAPSHOT", "--yes"),
    ("savepoint", "describe", "SNAPSHOT"),
    ("check-upgrade", "SNAPSHOT", "PROGRAM"),
]
PROGRAM = """
import headgate as hg
env = hg.Environment()
env.from_collection([1], uid="in").write_json("out")
env.execute("shop")
"""


def headgate(tmp_path: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command."""
    program = tmp_path / "job.py"
    program.write_text(PROGRAM, encoding="utf-8")
    names = {name: str(tmp_path / name.lower()) for name in ("SNAPSHOT", "TARGET")} | {
        "PROGRAM": str(program)
    }
    result = CliRunner().invoke(app, [names.get(each, each) for each in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("damaged", [False, True], ids=["missing", "damaged"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_a_wrong_snapshot_is_refused_and_no_job_has_failed(
    command: tuple[str, ...], damaged: bool, tmp_path: Path
) -> None:
    """Code 2 and one sentence: to run the same command again is of no use."""
    if damaged:
        (tmp_path / "snapshot").mkdir()
        (tmp_path / "snapshot" / "_metadata").write_bytes(b"nothing of ours")
    code, out, err = headgate(tmp_path, *command)
    assert (code, out) == (2, "")
    assert err.startswith("headgate: ")
    assert "the job failed" not in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "command",
    [*COMMANDS, ("checkpoint", "verify", "SNAPSHOT"), ("checkpoints", "SNAPSHOT"), ("plan", "absent.py")],
    ids=lambda command: " ".join(command[:2]),
)
def test_machines_get_the_error_as_an_object(command: tuple[str, ...], tmp_path: Path) -> None:
    """On the standard output, where they look for the answer; the sentence stays beside it."""
    code, out, err = headgate(tmp_path, *command, "--json")
    error = json.loads(out)["error"]
    assert (code, err) == (2, f"headgate: {error['message']}\n")
    assert error["kind"] in {"StorageError", "UsageError", "PlanError"}


@pytest.mark.parametrize("command", [("plan",), ("plan", "--json"), ("types",)])
def test_a_program_that_fails_shows_its_own_frames(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headgate's and those of the import system are left out; HEADGATE_DEBUG=1 shows them."""
    monkeypatch.delenv("HEADGATE_DEBUG", raising=False)
    (tmp_path / "bad.py").write_text("import helper\n", encoding="utf-8")
    (tmp_path / "helper.py").write_text("import no_such_module\n", encoding="utf-8")
    name, *options = command
    code, _, err = headgate(tmp_path, name, str(tmp_path / "bad.py"), *options)
    assert code == 2
    assert "No module named 'no_such_module'" in err
    assert err.count("  File ") == 2
    assert "importlib" not in err
    monkeypatch.setenv("HEADGATE_DEBUG", "1")
    assert "launch.py" in headgate(tmp_path, name, str(tmp_path / "bad.py"), *options)[2]


def test_a_format_that_is_none_is_refused(tmp_path: Path) -> None:
    """Before the snapshot is looked for."""
    code, _, err = headgate(tmp_path, *COMMANDS[1], "--format", "odd")
    assert (code, "'odd' is not one of 'canonical', 'native'" in err) == (2, True)


def report(*operators: OperatorReport) -> UpgradeReport:
    """Of these operators."""
    return UpgradeReport(
        "file:///s", "savepoint", None, "shop", 1, "job.py", 128, 128, False, [*operators], []
    )


def test_a_check_of_an_upgrade_says_what_it_has_not_read() -> None:
    """It reads no data file, so damage there is not seen."""
    assert "data files were not read; `headgate checkpoint verify`" in render(report())


def test_state_without_a_uid_is_not_offered_to_be_left_behind() -> None:
    """The job would be refused all the same; the remedy is a uid."""
    lost = OperatorReport("count", None, 2, None, [Item("state", "n", Verdict.ONLY_IN_SNAPSHOT)])
    assert "--allow-non-restored-state" in render(report(lost))
    items = [Item("state", "n", Verdict.ONLY_IN_PROGRAM)]
    unnamed = OperatorReport("keyedprocess-2", "Count", None, 2, items, "has no uid; give it one", True)
    text = render(report(lost, unnamed))
    assert "--allow-non-restored-state" not in text
    assert "give each operator with state its uid" in text
