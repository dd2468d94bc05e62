"""How the commands end when a wish fails, and how jobs that do not answer are listed."""

from __future__ import annotations

import json
import shlex
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endpoint_samples import ID, Answering
from typer.testing import CliRunner

import headgate as hg
from headgate.api.jobs.remote_job import RemoteJob
from headgate.cli.control import key_typed
from headgate.cli.main import app
from headgate.common.files.job_files import known_jobs


def headgate(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


WISHES = [
    ("savepoint", "create", "words"),
    ("checkpoint", "create", "words"),
    ("stop", "words"),
    ("rescale", "words", "--parallelism", "3"),
]


@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize(
    ("error", "code"), [(hg.OperatingError("not now"), 1), (hg.ConfigError("no way"), 2)]
)
def test_a_wish_that_fails_is_no_job_that_failed(
    served: Answering, wish: tuple[str, ...], error: hg.HeadgateError, code: int
) -> None:
    """One sentence, and the code tells whether asking again may help."""
    served.control.error = error
    assert headgate(*wish) == (code, "", f"headgate: {error}\n")


@pytest.mark.parametrize("wish", WISHES)
def test_who_does_not_wait_longer_is_told_that_it_goes_on(served: Answering, wish: tuple[str, ...]) -> None:
    """Code 1, because nobody knows yet."""
    served.control.holds = True
    code, out, err = headgate(*wish, "--timeout", "0")
    assert (code, out) == (1, "")
    assert "goes on after 0 s of waiting" in err
    for then in served.control.held:
        then(None, None)


def test_ctrl_c_ends_the_wait_and_not_the_wish(served: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, since with `headgate run` it cancels the job."""

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RemoteJob, "_ask", interrupted)
    code, out, err = headgate("stop", "words")
    assert (code, out, "the request to the job goes on" in err) == (130, "", True)


def test_a_format_that_is_none_is_refused(served: Answering) -> None:
    """Before the job is asked; those that there are are named."""
    for wish in [("savepoint", "create"), ("stop",)]:
        code, _, err = headgate(*wish, "words", "--format", "odd")
        assert (code, "'odd' is not one of 'canonical', 'native'" in err) == (2, True)
    assert served.control.wishes == []


@pytest.mark.parametrize("wish", WISHES)
def test_machines_get_an_error_on_the_standard_output(served: Answering, wish: tuple[str, ...]) -> None:
    """One object, as for everything else that they are told; the sentence stands beside it."""
    served.control.error = hg.OperatingError("not now")
    code, out, err = headgate(*wish, "--json")
    assert (code, err) == (1, "headgate: not now\n")
    assert json.loads(out) == {"error": {"kind": "OperatingError", "message": "not now"}}


@pytest.mark.parametrize("key", ['{"bytes":"%%"}', '{"foo":1}', "[1", " {"])
def test_a_key_that_begins_like_json_and_is_no_key_is_refused(served: Answering, key: str) -> None:
    """It is not looked for as a text; how to say that text stands in the sentence, and works."""
    code, out, err = headgate("query", "words", "count", "stats", key)
    assert (code, out) == (2, "")
    assert err.startswith(f"headgate: KEY {key!r}: the key is not readable as JSON")
    (literal,) = shlex.split(err.partition("if it is meant as text, give ")[2])
    assert key_typed(literal) == key


def test_jobs_that_do_not_answer_are_listed_with_the_reason(served: Answering, home: Path) -> None:
    """A driver that stands still, and one on another machine of a shared home; both stay listed."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # nobody listens
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        (known,) = known_jobs()
        silent = msgspec.structs.replace(known.file, job_id="silent-1", host="far", address=address)
        (home / "jobs" / "silent-1.json").write_bytes(msgspec.json.encode(silent))
        code, out, _ = headgate("list", "--json")
        states = {job["job_id"]: job["state"] for job in json.loads(out)["jobs"]}
        assert (code, states) == (0, {ID: "running", "silent-1": "elsewhere"})
        # The living job's own file, so that its driver holds it.
        known.path.write_bytes(msgspec.json.encode(msgspec.structs.replace(known.file, address=address)))
        code, out, _ = headgate("list")
    assert code == 0
    assert "does not answer at" in out
    assert "it can be asked on far only" in out
    assert {job.file.job_id for job in known_jobs()} == {ID, "silent-1"}


def test_nothing_that_a_user_sees_has_the_secret(served: Answering) -> None:
    """Neither table nor JSON."""
    for arguments in [("list",), ("list", "--json"), ("status", "words"), ("status", "words", "--json")]:
        code, out, err = headgate(*arguments)
        assert code == 0
        assert served.file.secret not in out + err
