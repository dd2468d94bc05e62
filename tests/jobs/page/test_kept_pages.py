"""The page of a job that is over: written at its end, found by `headgate ui PATH`, and shown."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from watched_jobs import PATIENCE_S, watched

import headgate as hg
from headgate.checkpoint.history_file import find_histories
from headgate.cli.main import app
from headgate.offline.kept_pages import show_kept
from headgate.runtime.driver.endpoint.page.kept_page import INSIDE, kept_answers


@contextlib.contextmanager
def shown(*arguments: str) -> Iterator[str]:
    """The address that the command prints while it serves; it ends as by Ctrl-C."""
    command = [sys.executable, "-m", "headgate", "ui", *arguments, "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE_S)


def got(url: str, path: str) -> Any:
    """The JSON of a page that is served."""
    address, secret = url.split("/#secret=")
    request = urllib.request.Request(address + path, headers={"Authorization": f"Bearer {secret}"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.load(answer)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Checkpoints of a job that failed once and was then cancelled."""
    with watched(tmp_path) as job:
        job.waits("/v1/snapshot", lambda status: status["checkpoints_completed"] > 0)
        job.sky.text = "it was then"
        job.waits("/v1/snapshot", lambda status: status["attempt"] == 2 and status["state"] == "running")
        job.waits("/v1/history", lambda history: len(history["time_ms"]) > 1)
    return tmp_path / "checkpoints"


def test_the_page_of_a_job_outlives_it(folder: Path) -> None:
    """All its parts are there, by checkpoint directory and by the job's folder; others need a secret."""
    (job,) = [path for path in folder.iterdir() if (path / INSIDE).exists()]
    for place in (folder, job):
        with shown(str(place)) as url:
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#secret=\S{43}", url)
            status = got(url, "/v1/snapshot")
            assert (status["state"], status["over"], status["failures"]) == ("cancelled", True, 1)
            assert got(url, "/v1/failures")["attempts"][0]["error"]["message"] == "ValueError: it was then"
            assert len(got(url, "/v1/history")["time_ms"]) > 1
            assert [each["id"] for each in got(url, "/v1/plan")["vertices"]] == [0, 1]
            done = [
                each for each in got(url, "/v1/checkpoint-times")["checkpoints"] if each["acknowledged"] == 4
            ]
            assert len(got(url, f"/v1/checkpoint-times/{done[0]['checkpoint']}")["subtasks"]) == 4
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(url.split("/#")[0] + "/v1/snapshot", timeout=PATIENCE_S)
            with pytest.raises(urllib.error.HTTPError, match="404"):
                got(url, "/v1/operations/7")


def test_why_says_how_the_job_ended(folder: Path) -> None:
    """By the same place; a page of an earlier version, which did not say it, is told."""
    result = CliRunner().invoke(app, ["why", str(folder), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["name"], found["kind"], found["state"]) == ("ticks", "over", "cancelled")
    assert found["text"].startswith("the job has ended, it is cancelled")
    assert found["time_ms"] > 0
    (path,) = folder.glob(f"*/{INSIDE}")
    page = json.loads(path.read_bytes())
    del page["answers"]["/v1/why"]
    path.write_text(json.dumps(page), encoding="utf-8")
    result = CliRunner().invoke(app, ["why", str(folder)])
    assert result.exit_code == 1
    assert "was kept by a version that did not say why" in result.stderr


def test_of_several_jobs_one_is_chosen(folder: Path, tmp_path: Path) -> None:
    """The one that wrote last, or the one that is named."""
    first = find_histories(str(folder))[0].job
    with watched(tmp_path, "later") as job:
        job.waits("/v1/checkpoint-times", lambda times: times["checkpoints"])
        job.waits("/v1/snapshot", lambda status: status["checkpoints_completed"] > 0)
    with shown(str(folder)) as url:
        assert got(url, "/v1/snapshot")["name"] == "later"
    with shown(str(folder), "--job", first) as url:
        assert got(url, "/v1/snapshot")["name"] == "ticks"
    with pytest.raises(hg.UsageError, match="0 of the jobs there begin with 'nothing'"):
        show_kept(str(folder), "nothing", lambda *_: None)


def test_a_page_that_is_missing_or_damaged_is_told(folder: Path) -> None:
    """In a sentence, with what to do."""
    (path,) = folder.glob(f"*/{INSIDE}")
    for data in (
        b"",
        b"{",
        b"[]",
        b'{"answers": {}, "format_version": 1}',
        b'{"answers": {"/v1/snapshot": 1}}',
        b"\xff",
    ):
        path.write_bytes(data)
        with pytest.raises(hg.StorageError, match="is no kept page of a job"):
            show_kept(str(folder), None, lambda *_: None)
    newer = {"answers": {"/v1/snapshot": {}}, "format_version": 2}
    with pytest.raises(hg.StorageError, match="format version 2, this program reads 1"):
        kept_answers(json.dumps(newer).encode(), "there", ())
    path.unlink()
    with pytest.raises(hg.StorageError, match=r"`headgate checkpoints .*` shows its checkpoints"):
        show_kept(str(folder), None, lambda *_: None)


def test_a_place_that_takes_no_page_holds_up_no_job(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once, and the job ends as ever."""
    with watched(tmp_path) as job:
        job.waits("/v1/snapshot", lambda status: status["checkpoints_completed"] > 0)
        (tmp_path / "checkpoints" / job.file.job_id / INSIDE).mkdir(parents=True)
        job.handle.cancel()
        assert job.handle.status().state == "cancelled"
    assert sum("could not be kept" in record.message for record in caplog.records) == 1


@pytest.mark.ci
@pytest.mark.timeout(300)
def test_a_browser_shows_what_was(folder: Path, browser: Any) -> None:
    """With the last state, and actions that cannot be chosen."""
    from playwright.sync_api import expect

    wrong: list[str] = []
    with shown(str(folder)) as url:
        page = browser.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(url)
        expect(page.locator("#state")).to_have_text("cancelled")
        expect(page.locator("#connection")).to_contain_text("the job is over; this is its status of 20")
        expect(page.locator("svg.graph .vertex")).to_have_count(2)
        expect(page.get_by_role("button", name="Cancel...")).to_be_disabled()
        page.get_by_role("tab", name="Failures").click()
        expect(page.get_by_text("ValueError: it was then").first).to_be_visible()
        page.get_by_role("tab", name="Checkpoints").click()
        page.get_by_role("row").filter(has_text="completed").first.get_by_role("button").click()
        expect(page.get_by_role("region", name="Times of each subtask")).to_be_visible()
        page.get_by_role("tab", name="Subtasks").click()
        expect(page.get_by_role("row").nth(1)).to_contain_text("process")
        page.close()
    assert wrong == []
