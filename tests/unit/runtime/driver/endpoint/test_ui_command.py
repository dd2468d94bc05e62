"""The command that opens the page: which address it prints, and what a browser gets."""

from __future__ import annotations

import json
import os
import socket
import stat
import webbrowser
from pathlib import Path

import pytest
from endpoint_samples import ID, Answering
from typer.testing import CliRunner

from headgate.cli.main import app
from headgate.common.files.job_files import JobFile, PublishedJob


def ui(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command."""
    result = CliRunner().invoke(app, ["ui", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a browser was asked to open; none is started."""
    asked: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: asked.append(url) or True)
    return asked


def test_a_browser_gets_a_file_that_only_the_user_can_read(served: Answering, opened: list[str]) -> None:
    """The secret is in the file and in what is printed, but not among the browser's arguments."""
    url = f"{served.file.address}/#secret={served.file.secret}"
    assert ui("words") == (0, url + "\n", "")
    (asked,) = opened
    assert served.file.secret not in asked
    path = Path(asked.removeprefix("file://"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert f"url={url}" in path.read_text()


def test_without_a_job_the_one_that_runs_is_meant(served: Answering, opened: list[str]) -> None:
    """And `--no-open` prints only."""
    code, printed, _ = ui("--no-open")
    assert (code, opened) == (0, [])
    assert printed.startswith(f"{served.file.address}/#secret=")


def test_of_several_jobs_there_is_a_list(served: Answering, home: Path, opened: list[str]) -> None:
    """Each with its link; names are text, whatever they are."""
    other = JobFile("b-2", "<b>bold</b>", os.getpid(), socket.gethostname(), 2**50, "http://127.0.0.1:1", "s")
    published = PublishedJob(other)
    code, printed, _ = ui()
    published.withdraw()
    assert (code, len(printed.splitlines())) == (0, 2)
    text = Path(opened[0].removeprefix("file://")).read_text()
    assert text.count("<a ") == 2
    assert 'href="http://127.0.0.1:1/#secret=s">&lt;b&gt;bold&lt;/b&gt;</a> (b-2)' in text


def test_scripts_get_json(served: Answering, opened: list[str]) -> None:
    """Without a browser."""
    code, printed, _ = ui(ID, "--json")
    url = f"{served.file.address}/#secret={served.file.secret}"
    assert (code, json.loads(printed)) == (0, {"pages": [{"job_id": ID, "name": "words", "url": url}]})
    assert opened == []


def test_no_job_is_told(home: Path, opened: list[str]) -> None:
    """In a sentence, as other commands do."""
    assert ui()[::2] == (
        2,
        "headgate: no job of yours is running on this machine; give the name of one, or its id\n",
    )
    assert ui("nothing")[0] == 2
    assert opened == []


def test_where_no_browser_is_the_address_is_left(served: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be opened by hand."""
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    code, printed, told = ui("words")
    assert (code, told) == (0, "no browser could be opened; open this address in one:\n")
    assert printed.startswith(served.file.address)
