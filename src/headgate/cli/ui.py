"""The command that opens the web page of a running job: the job's address, with its secret, in a browser."""

from __future__ import annotations

import html
import json
import sys
import webbrowser
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headgate.cli.command_parameters import AsJson
from headgate.cli.exit_codes import ending_of_wait, print_outcome

if TYPE_CHECKING:
    from headgate.common.files.job_files import JobFile

_LEADS_ON: Final = "page.html"
"""Name of the file that leads a browser to the page: the address itself, which holds the secret, would be
seen by all users of the machine among the arguments of the browser.
"""

JobOrNone = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB", help="Its name, its id, or the beginning of its id; else the one that runs."
    ),
]
NoOpen = Annotated[bool, typer.Option("--no-open", help="Print the address only; open no browser.")]


def ui(job: JobOrNone = None, no_open: NoOpen = False, as_json: AsJson = False) -> None:
    """Open the web page of a running job, and print its address; whoever has the address controls the job."""

    def text() -> str:
        files = _chosen(job)
        if not no_open and not as_json:
            _open(files)
        if as_json:
            pages = [{"job_id": each.job_id, "name": each.name, "url": page_url(each)} for each in files]
            return json.dumps({"pages": pages})
        if len(files) == 1:
            return page_url(files[0])
        return "\n".join(f"{each.name} ({each.job_id}): {page_url(each)}" for each in files)

    print_outcome(text, as_json, ending_of_wait)


def page_url(file: JobFile) -> str:
    """Return the address of a job's page; the part after # has the secret, and no browser sends it.

    Example:
        >>> from headgate.common.files.job_files import JobFile
        >>> page_url(JobFile("words-1", "words", 7, "ada", 0, "http://127.0.0.1:40123", "s3cret"))
        'http://127.0.0.1:40123/#secret=s3cret'
    """
    return f"{file.address}/#secret={file.secret}"


def _chosen(job: str | None) -> list[JobFile]:
    from headgate.api.jobs.remote_job import find_job
    from headgate.common.errors import OperatingError, UsageError
    from headgate.common.files.job_files import known_jobs

    known = known_jobs()
    if job is None:
        running = [each.file for each in known if not each.exited]
        if not running:
            raise UsageError("no job of yours is running on this machine; give the name of one, or its id")
        return running
    found = find_job(job, known)
    if found.exited:
        raise OperatingError(f"job {found.file.name!r} ({found.file.job_id}) is gone: its driver died")
    return [found.file]


def _open(files: list[JobFile]) -> None:
    from headgate.common.files.durable_file import replace
    from headgate.common.files.job_files import jobs_folder
    from headgate.common.files.permissions import Permissions

    path = jobs_folder() / _LEADS_ON
    replace(path, [_leads_on(files).encode()], Permissions.OWNER, durable=False)
    if not webbrowser.open(path.as_uri()):
        print("no browser could be opened; open this address in one:", file=sys.stderr)


def _leads_on(files: list[JobFile]) -> str:
    # To the page of the one job at once; of several jobs there is a list.
    begin = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Headgate</title>'
    if len(files) == 1:
        return f'{begin}<meta http-equiv="refresh" content="0; url={html.escape(page_url(files[0]))}">'
    items = "".join(
        f'<li><a rel="noreferrer" href="{html.escape(page_url(each))}">{html.escape(each.name)}</a> '
        f"({html.escape(each.job_id)})</li>"
        for each in files
    )
    return f"{begin}<h1>Jobs that run on this machine</h1><ul>{items}</ul>"
