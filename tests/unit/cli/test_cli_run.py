"""``headgate run``: how a program is run, what its settings are, and the codes for scripts."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.api.jobs import launch_settings
from headgate.cli.main import app

PROGRAM = """
from __future__ import annotations
import logging, os, sys
import headgate as hg
from headgate.api.jobs.executor_contract import JobResult
from headgate.common import errors
from headgate.display.progress import listener_for

class Told:
    "An executor that only tells the listener how a job went."
    def __init__(self, error=None):
        self.error = error
    def execute(self, job):
        print("config", sorted(job.config.texts().items()), job.restore_from)
        listener = listener_for(job.config, job.name, job.plan)
        listener.gang_submitted(1, job.plan.slots)
        listener.deploying(1, None)
        listener.running(1)
        if isinstance(self.error, KeyboardInterrupt):
            listener.ended("cancelled")
            raise self.error
        if callable(self.error):
            self.error()
        if self.error is not None:
            listener.failed(1, self.error, None)
            listener.ended("failed")
            raise self.error
        listener.ended("finished")
        return JobResult(job_id="j", name=job.name)

def job(error=None):
    env = hg.Environment(executor=Told(error))
    env.from_collection([1], uid="in").write_json("out")
    env.execute("streaks")
"""

USER_ERROR = (
    "errors.UserFunctionError(\"operator 'Count' (uid 'c')\", \"{'a': 1}\", "
    "'Traceback (most recent call last):\\n  File \"job.py\", line 3, in process\\nValueError: odd\\n', 2)"
)

Headgate = Callable[..., "Ended"]


class Ended:
    """How the command ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def lines(self) -> list[dict[str, object]]:
        """The JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Headgate:
    """Runs ``headgate run job.py`` with a body of the program and arguments."""
    monkeypatch.delenv("HEADGATE_DEBUG", raising=False)

    def headgate(body: str, *arguments: str) -> Ended:
        file = tmp_path / "job.py"
        file.write_text(PROGRAM + body + "\n", encoding="utf-8")
        result = CliRunner().invoke(app, ["run", str(file), *arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return Ended(result.exit_code, result.stdout, result.stderr)

    return headgate


# --- how it is run


def test_a_script_runs_as_python_would_run_it(run: Headgate) -> None:
    """It is ``__main__``, has its arguments, and finds modules beside it; options may stand behind it."""
    ended = run("print(__name__, sys.argv[1:], sys.path[0]); job()", "one", "--quiet", "--", "--two")
    assert ended.code == 0
    assert ended.out.startswith("__main__ ['one', '--two'] /")


def test_a_module_with_build_is_run_under_its_name(run: Headgate, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command makes the Environment, builds, and executes."""
    body = """
import headgate.api.environment as environment
environment.Environment._find_executor = lambda self: Told()
def build(env):
    env.from_collection([1], uid="in").write_json("out")
"""
    from headgate.api.environment import Environment

    monkeypatch.setattr(Environment, "_find_executor", Environment._find_executor)
    ended = run(body)
    assert ended.code == 0, ended.err
    assert "job: finished" in ended.err


def test_options_reach_the_program(run: Headgate) -> None:
    """Named options and -D are settings of the command line; named ones win."""
    ended = run(
        "job()", "--parallelism", "3", "-D", "parallelism.default=9", "-D", "heartbeat.interval=2s",
        "--master", "local[5]", "--from", "/chk/7", "--quiet", "--allow-non-restored-state",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    settings = [
        ("execution.state-recovery.ignore-unclaimed-state", "true"),
        ("headgate.progress", "off"),
        ("headgate.spark.master", "local[5]"),
        ("heartbeat.interval", "2s"),
        ("parallelism.default", "3"),
    ]
    assert ended.out == f"config {settings} /chk/7\n"


def test_nothing_of_a_run_stays_behind(run: Headgate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Process environment, signals, logging and streams are as before."""
    monkeypatch.setenv(launch_settings.OPTIONS_VARIABLE, "[]")
    monkeypatch.setenv(launch_settings.RESTORE_VARIABLE, "/other")

    def state() -> tuple[object, ...]:
        handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
        root = logging.getLogger()
        return dict(os.environ), handlers, list(root.handlers), root.level, sys.stdout, sys.argv

    before = state()
    run("print(os.environ.get('HEADGATE_RESTORE_FROM')); job()", "--json", "-p", "2")
    assert state() == before


def test_without_a_checkpoint_none_is_inherited(run: Headgate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only ``--from`` says where to begin."""
    monkeypatch.setenv(launch_settings.RESTORE_VARIABLE, "/other")
    assert run("job()", "--quiet").out == "config [('headgate.progress', 'off')] None\n"


# --- what is shown


def test_without_a_terminal_plain_lines_are_shown(run: Headgate) -> None:
    """Progress is on the standard error; the standard output is the program's."""
    ended = run("job()")
    assert [line.partition(" after ")[0] for line in ended.err.splitlines()] == [
        "streaks: asked for 1 worker", "streaks: running, attempt 1", "streaks: finished",
    ]  # fmt: skip
    assert ended.out == "config [] None\n"


def test_a_programs_own_choice_of_display_is_kept(run: Headgate) -> None:
    """Only ``--json`` and ``--quiet`` overrule it."""
    ended = run(
        'env = hg.Environment(executor=Told(), config={"headgate.progress": "off"})\n'
        'env.from_collection([1], uid="in").write_json("out")\n'
        'env.execute("streaks")'
    )
    assert (ended.code, ended.err) == (0, "")


def test_json_lines_are_all_of_the_standard_output(run: Headgate) -> None:
    """The program's prints go to the standard error; the last line is the end."""
    ended = run("print('mine'); job()", "--json")
    assert [line["event"] for line in ended.lines()] == ["submitted", "deploying", "running", "finished"]
    assert ended.err.startswith("mine\nconfig ")


def test_logs_of_the_program_are_lines_with_fields(run: Headgate) -> None:
    """As text, or as JSON with --json; always on the standard error."""
    text = run("logging.getLogger('mine').info('hello'); job()", "--quiet")
    assert text.err.rstrip().endswith("INFO mine: hello")
    as_json = run("logging.getLogger('mine').info('hello'); job()", "--json")
    first = json.loads(as_json.err.splitlines()[0])
    assert (first["message"], first["subtask"]) == ("hello", None)


# --- codes


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("job()", 0, ""),
        ("job(errors.JobFailedError('too many failures'))", 1, "headgate: the job failed: too many failures"),
        ("job(errors.StorageError('disk is full'))", 1, "headgate: the job failed: disk is full"),
        (
            "job(errors.PlanError('two operators have the uid x'))",
            2,
            "headgate: two operators have the uid x",
        ),
        ("hg.Environment(config={'heartbeat.timeot': '1s'})", 2, "did you mean 'heartbeat.timeout'?"),
        ("pass", 2, "ended without a job; it should call execute()"),
        (f"job({USER_ERROR})", 3, "ValueError: odd"),
        ("1 / 0", 3, "ZeroDivisionError: division by zero"),
        ("def f(:", 3, "SyntaxError"),
        ("import no_such_module", 3, "No module named 'no_such_module'"),
        (
            "job(errors.InternalError('rule broken'))",
            70,
            "please report it with the lines below\n\nrule broken",
        ),
        ("job(KeyboardInterrupt())", 130, "headgate: cancelled"),
        ("job(errors.JobCancelledError('it was cancelled'))", 130, "headgate: it was cancelled\n"),
        ("job(lambda: os.kill(os.getpid(), 15))", 143, "headgate: cancelled by a signal"),
        ("job(lambda: os.kill(os.getpid(), 1))", 129, "headgate: cancelled by a signal"),
        ("job(); sys.exit(9)", 9, ""),
        ("job(); sys.exit()", 0, ""),
        ("sys.exit('not today')", 1, "not today"),
    ],
)
def test_exit_codes(body: str, code: int, said: str, run: Headgate) -> None:
    """Each way to end has its code, and its text on the standard error."""
    ended = run(body, "--quiet")
    assert (ended.code, said in ended.err) == (code, True), ended.err
    assert (ended.err == "") == (said == "")


def test_the_users_own_failure_is_one_clear_paragraph(run: Headgate) -> None:
    """Operator with uid, record, attempt, and the user's traceback; nothing of ours."""
    assert run(f"job({USER_ERROR})", "--quiet").err == (
        "headgate: operator 'Count' (uid 'c') raised ValueError: odd\n"
        "  record:  {'a': 1}\n"
        "  attempt: 2\n"
        "\n"
        "Traceback (most recent call last):\n"
        '  File "job.py", line 3, in process\n'
        "ValueError: odd\n"
    )


CANCELLED = """
import time
env = hg.Environment(executor="mini-cluster")
env.from_collection(range(10_000), uid="in").map(lambda record: time.sleep(0.01)).collect_later()
handle = env.execute_async("shop")
while handle.status().state != "running":
    time.sleep(0.01)
handle.cancel()
handle.result()
"""


def test_a_job_that_somebody_cancelled_has_not_failed(run: Headgate) -> None:
    """As `headgate cancel` does it: one sentence, the code of Ctrl-C, and the event of the same name."""
    ended = run(CANCELLED, "--quiet")
    assert (ended.code, ended.err) == (130, "headgate: job 'shop' was cancelled\n")
    ended = run(CANCELLED, "--json")
    assert (ended.code, ended.lines()[-1]["event"]) == (130, "cancelled")


def test_a_cancelled_job_of_before_is_an_event_too(run: Headgate) -> None:
    """Where no job of this process told its end."""
    assert run("raise errors.JobCancelledError('gone')", "--json").lines()[-1]["event"] == "cancelled"


def test_a_snapshot_that_is_not_there_is_refused(run: Headgate, tmp_path: Path) -> None:
    """Nothing has started, so nothing has failed; a storage that fails otherwise has."""
    job = (
        'env = hg.Environment(executor="mini-cluster")\nenv.from_collection([1], uid="in").collect_later()\n'
    )
    ended = run(f"{job}env.execute('shop')", "--quiet", "--from", str(tmp_path / "nope"))
    assert (ended.code, ended.err[:17]) == (2, "headgate: file://")
    assert "holds no completed checkpoint" in ended.err


def test_a_usage_error_is_its_sentence(run: Headgate) -> None:
    """No traceback, whoever raised it where."""
    assert run("job(errors.PlanError('no uid'))", "--quiet").err == "headgate: no uid\n"


def test_a_scripts_own_error_is_shown_from_its_own_first_line(run: Headgate) -> None:
    """Frames of the command are left out."""
    ended = run("def f():\n    return 1 / 0\nf()", "--quiet")
    assert ended.err.count("  File ") == 2
    assert "in <module>" in ended.err
    assert "launch.py" not in ended.err


def test_imports_leave_no_frames_but_the_users(run: Headgate, tmp_path: Path) -> None:
    """Neither those of the isolation of modules nor Python's own."""
    (tmp_path / "helper.py").write_text("import no_such_module\n", encoding="utf-8")
    ended = run("import helper", "--quiet")
    assert ended.code == 3
    assert ended.err.count("  File ") == 2
    assert "importlib" not in ended.err
    assert "usercode" not in ended.err


def test_a_wrong_call_of_the_api_is_the_programs_error(run: Headgate) -> None:
    """Before execute() an error inside Headgate comes from how it was called."""
    broken = "class Broken:\n    __iter__ = None\n"
    ended = run(f"{broken}env = hg.Environment()\nenv.from_collection(Broken())", "--quiet")
    assert ended.code == 3
    assert "env.from_collection(Broken())" in ended.err


def test_an_error_of_headgate_while_it_runs_a_job_is_to_be_reported(
    run: Headgate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The traceback is shown whole, because it is what the report needs."""
    from headgate.api import environment

    def broken(*_: object) -> None:
        raise KeyError("vertex 7")

    broken_in_headgate = type(broken)(
        broken.__code__.replace(co_filename=environment.__file__), broken.__globals__
    )
    monkeypatch.setattr(environment, "check_connectors", broken_in_headgate)
    ended = run("job()", "--quiet")
    assert ended.code == 70
    assert "please report" in ended.err
    assert "KeyError: 'vertex 7'" in ended.err


def test_debugging_shows_every_traceback(run: Headgate, monkeypatch: pytest.MonkeyPatch) -> None:
    """HEADGATE_DEBUG=1 adds what is otherwise left out, and changes no code."""
    body = "job(errors.PlanError('no uid'))"
    plain = run(body, "--quiet")
    monkeypatch.setenv("HEADGATE_DEBUG", "1")
    debugged = run(body, "--quiet")
    assert plain.code == debugged.code == 2
    assert "environment.py" not in plain.err
    assert debugged.err.startswith("headgate: no uid\n\nTraceback")
    assert "environment.py" in debugged.err


# --- errors for machines


def test_a_refused_program_ends_its_lines_too(run: Headgate) -> None:
    """Where no job told its end, the command does: the last line is always an end."""
    refused = run("job()", "--json", "-D", "no.such.option=1")
    assert refused.code == 2
    (line,) = refused.lines()
    assert (line["event"], line["job"], line["error"]["kind"]) == ("failed", None, "ConfigError")  # type: ignore[index]
    after = run("job(); 1 / 0", "--json").lines()
    assert [line["event"] for line in after][-2:] == ["finished", "failed"]
    interrupted = run("raise KeyboardInterrupt", "--json")
    assert (interrupted.code, interrupted.lines()[-1]["event"]) == (130, "cancelled")


def test_an_end_is_told_once(run: Headgate) -> None:
    """A job that told its failure or cancellation is not told again."""
    for body, event in [
        (f"job({USER_ERROR})", "failed"),
        ("job(KeyboardInterrupt())", "cancelled"),
        ("job(); sys.exit(0)", "finished"),
    ]:
        names = [line["event"] for line in run(body, "--json").lines()]
        assert names == ["submitted", "deploying", "running", event]


def test_options_are_checked_before_the_program_runs(run: Headgate) -> None:
    """A misspelt setting does not cost a minute of the program's preparations."""
    for arguments in (["-D", "no.such=1"], ["-D", "parallelism.default"], ["--json", "--quiet"]):
        ended = run("print('ran')", *arguments)
        assert ended.code == 2
        assert "ran" not in ended.out + ended.err


def test_unknown_options_are_refused(run: Headgate) -> None:
    """A misspelt option of the command is not handed to the program."""
    ended = run("print('ran')", "--paralelism", "2")
    assert (ended.code, ended.out) == (2, "")
    assert "--parallelism" in ended.err
    assert run("print('ran')", "--parallelism", "0").code == 2
