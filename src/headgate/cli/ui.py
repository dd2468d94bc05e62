"""The command that opens the web page of a job: its address, with the secret, in a browser."""

from __future__ import annotations

import html
import json
import sys
import webbrowser
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from headgate.cli.command_parameters import AsJson, DefineStorage
from headgate.cli.exit_codes import ending_of_wait, print_outcome

if TYPE_CHECKING:
    from headgate.common.files.job_files import JobFile

_LEADS_ON: Final = "page.html"
"""Name of the file that leads a browser to the page: the address itself, which holds the secret, would be
seen by all users of the machine among the arguments of the browser.
"""

JobOrPlace = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB",
        help="A running job: its name, its id, or the beginning of its id; else the one that runs. For a job "
        "that is over: its checkpoint directory, a path with a slash or a URI.",
    ),
]
Which = Annotated[
    str | None,
    typer.Option("--job", metavar="ID", help="Of several jobs in a directory: id, or its beginning."),
]
NoOpen = Annotated[bool, typer.Option("--no-open", help="Print the address only; open no browser.")]


class Page(NamedTuple):
    """A page to open: name and id of its job, and its address with the secret."""

    name: str
    job_id: str
    url: str


def ui(
    job: JobOrPlace = None,
    which: Which = None,
    define: DefineStorage = None,
    no_open: NoOpen = False,
    as_json: AsJson = False,
) -> None:
    """Open the web page of a job, and print its address; whoever has the address controls the job."""

    def text() -> str:
        if job is not None and is_place(job):
            return _serve(job, which, define or (), no_open or as_json)
        pages = [Page(each.name, each.job_id, page_url(each)) for each in _chosen(job)]
        if as_json:
            return json.dumps({"pages": [page._asdict() for page in pages]})
        if not no_open:
            _open(pages)
        if len(pages) == 1:
            return pages[0].url
        return "\n".join(f"{page.name} ({page.job_id}): {page.url}" for page in pages)

    print_outcome(text, as_json, ending_of_wait)


def page_url(file: JobFile) -> str:
    """Return the address of a job's page; the part after # has the secret, and no browser sends it.

    Example:
        >>> from headgate.common.files.job_files import JobFile
        >>> page_url(JobFile("words-1", "words", 7, "ada", 0, "http://127.0.0.1:40123", "s3cret"))
        'http://127.0.0.1:40123/#secret=s3cret'
    """
    return f"{file.address}/#secret={file.secret}"


def is_place(job: str) -> bool:
    """Return whether the command's argument is the place of checkpoints, and no job's name or id.

    Example:
        >>> is_place("words"), is_place("./checkpoints"), is_place("s3://bucket/checkpoints"), is_place(".")
        (False, True, True, True)
    """
    return "/" in job or job in (".", "..")


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
        raise OperatingError(
            f"job {found.file.name!r} ({found.file.job_id}) is gone: its driver died; `headgate ui "
            f"{found.file.storage or 'DIRECTORY'}` shows what was kept of its page"
        )
    return [found.file]


def _serve(place: str, which: str | None, define: Sequence[str], no_open: bool) -> str:
    from headgate.offline.kept_pages import show_kept
    from headgate.offline.storages import storage_options

    def tell(name: str, job_id: str, url: str) -> None:
        print(url, flush=True)
        print("this page is served until Ctrl-C", file=sys.stderr)
        if not no_open:
            _open([Page(name, job_id, url)])

    with storage_options(define):
        show_kept(place, which, tell)
    return "the page is served no longer"


def _open(pages: list[Page]) -> None:
    from headgate.common.files.durable_file import replace
    from headgate.common.files.job_files import jobs_folder
    from headgate.common.files.permissions import Permissions

    path = jobs_folder() / _LEADS_ON
    replace(path, [_leads_on(pages).encode()], Permissions.OWNER, durable=False)
    if not webbrowser.open(path.as_uri()):
        print("no browser could be opened; open this address in one:", file=sys.stderr)


def _leads_on(pages: list[Page]) -> str:
    # To the page of the one job at once; of several jobs there is a list.
    begin = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Headgate</title>'
    if len(pages) == 1:
        return f'{begin}<meta http-equiv="refresh" content="0; url={html.escape(pages[0].url)}">'
    items = "".join(
        f'<li><a rel="noreferrer" href="{html.escape(page.url)}">{html.escape(page.name)}</a> '
        f"({html.escape(page.job_id)})</li>"
        for page in pages
    )
    return f"{begin}<h1>Jobs that run on this machine</h1><ul>{items}</ul>"
