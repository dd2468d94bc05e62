"""`headgate report` of jobs that run and of jobs that are over: all that is known, no secret, no odd path."""

from __future__ import annotations

import json
import logging
import stat
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result
from watched_jobs import Watched, watched

from headgate.cli.main import app
from headgate.runtime.driver.endpoint.page.kept_page import INSIDE

SECRETS = ("planted-id", "planted-key", "planted-login", "planted-word", "planted-dict", "planted-bearer")
RAISED = (
    "got planted-key from postgresql://ada:planted-login@db/x with password='planted-word' and "
    "{'api_key': 'planted-dict'}, Authorization: Bearer planted-bearer"
)
EVIL = "../../../tmp/evil <script>"
LIVE_ONLY = {"stacks.json", "threads.json"}
PARTS = {
    *(
        "README.txt",
        "status.json",
        "why.json",
        "configuration.json",
        "plan.json",
        "failures.json",
        "checkpoints.json",
    ),
    *(
        "subtasks.json",
        "history.json",
        "metrics.txt",
        "warnings.json",
        "output.json",
        "logs.json",
        "versions.json",
    ),
    *("machine.json", "logs.json", *LIVE_ONLY),
}


def asked(*arguments: str) -> Result:
    """How the command ends."""
    return CliRunner().invoke(app, ["report", *arguments])


def unpacked(path: Path) -> dict[str, str]:
    """The texts of a report by name; all lie in one folder of it, and none elsewhere."""
    with zipfile.ZipFile(path) as packed:
        names = [Path(name) for name in packed.namelist()]
        assert {len(name.parts) for name in names} == {2}
        (folder,) = {name.parts[0] for name in names}
        assert folder.startswith("headgate-report-")
        assert not set(folder) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
        return {name.parts[1]: packed.read(str(name)).decode() for name in names}


def without_secrets(found: dict[str, str], *more: str) -> None:
    """No text has one, also not as a part of JSON."""
    for name, text in found.items():
        assert [each for each in (*SECRETS, *more) if each in text] == [], name


def failing(folder: Path, name: str = "ticks", uid: str = "count") -> Any:
    """A job with secrets in its options."""
    options = {
        "s3.access-key": "planted-id", "s3.secret-key": "planted-key",
        "s3.endpoint": "http://ada:planted-login@127.0.0.1:1",
    }  # fmt: skip
    return watched(folder, name, uid, **options)


def fails_once(job: Watched) -> None:
    """It has failed with secrets in its text, warned, and runs again with checkpoints."""
    job.waits("/v1/snapshot", lambda status: status["checkpoints_completed"] > 0)
    job.sky.text = RAISED
    job.waits("/v1/snapshot", lambda status: status["attempt"] == 2 and status["state"] == "running")
    logging.getLogger("headgate.test").warning("a warning, %s", RAISED)


def test_a_running_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is there and says something; neither options nor texts give a secret away."""
    monkeypatch.chdir(tmp_path)
    with failing(tmp_path, EVIL, "..:<script>") as job:
        fails_once(job)
        ended = asked(job.file.job_id, "--sampling", "1", "--json")
        assert ended.exit_code == 0, ended.output
        told = json.loads(ended.stdout)
        found = unpacked(Path(told["path"]))
        assert (set(told["files"]), told["missing"]) == (PARTS, {})
        assert Path(told["path"]).parent == tmp_path
        assert stat.S_IMODE(Path(told["path"]).stat().st_mode) == 0o600
        without_secrets(found, job.file.secret)
    assert "ValueError: got ****** from postgresql://******@db/x" in found["failures.json"]
    assert "headgate_workers{" in found["metrics.txt"]
    assert json.loads(found["stacks.json"])["stacks"]
    threads = [each["name"] for each in json.loads(found["threads.json"])]
    assert "MainThread" in threads
    assert "headgate-endpoint" in threads
    assert any("a warning, got ******" in each["message"] for each in json.loads(found["warnings.json"]))
    assert json.loads(found["checkpoints.json"])["checkpoints"][0]["subtasks"]
    assert "headgate" in json.loads(found["versions.json"])
    options = {each["key"]: each["value"] for each in json.loads(found["configuration.json"])["options"]}
    assert options["s3.secret-key"] == "******"
    assert options["s3.endpoint"] == "http://******@127.0.0.1:1"


def test_a_job_that_is_over(tmp_path: Path) -> None:
    """From the folder of its checkpoints, with the metrics and warnings that were kept at its end."""
    with failing(tmp_path) as job:
        fails_once(job)
        job.waits("/v1/history", lambda history: len(history["time_ms"]) > 1)
    path = tmp_path / "bundle.zip"
    ended = asked(str(tmp_path / "checkpoints"), "--output", str(path))
    assert ended.exit_code == 0, ended.output
    assert str(path) in ended.stdout
    assert "without threads: the job is over, and it was not kept" in ended.stdout
    found = unpacked(path)
    assert set(found) == PARTS - LIVE_ONLY
    without_secrets(found)
    assert json.loads(found["status.json"])["state"] == "cancelled"
    assert 'headgate_job_state{job_name="ticks"' in found["metrics.txt"]
    assert any("a warning, got ******" in each["message"] for each in json.loads(found["warnings.json"]))
    assert asked(str(tmp_path / "checkpoints"), "--output", str(path)).exit_code == 2


def test_a_kept_page_of_somebody_else_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a file in a storage calls its job, and its answers, names no file."""
    with failing(tmp_path) as job:
        job.waits("/v1/snapshot", lambda status: status["checkpoints_completed"] > 0)
    (kept,) = (tmp_path / "checkpoints").glob(f"*/{INSIDE}")
    page = json.loads(kept.read_bytes())
    page["answers"]["/v1/snapshot"]["job_id"] = "../../evil"
    page["answers"] |= {"/v1/../../evil": "evil", "/v1/output": {"lines": ["s3://id:planted-login@b"]}}
    kept.write_text(json.dumps(page))
    monkeypatch.chdir(tmp_path)
    ended = asked("./checkpoints", "--json")
    assert ended.exit_code == 0, ended.output
    path = Path(json.loads(ended.stdout)["path"])
    assert path.parent == tmp_path
    assert path.name.startswith("headgate-report-evil-2")
    without_secrets(unpacked(path))


def test_a_job_that_is_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a sentence, as by other commands; a file that cannot be written, too."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))
    assert "there is no job 'ghost'" in asked("ghost").output
    assert asked(str(tmp_path / "nothing") + "/").exit_code != 0
