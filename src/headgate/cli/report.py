"""The command that makes a support bundle of a job: a zip with all that is known of it, and no secrets."""

from __future__ import annotations

import io
import json
import re
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headgate.cli.command_parameters import AsJson, DefineStorage
from headgate.cli.exit_codes import ending_of_wait, print_outcome
from headgate.cli.looking import JobOrPlace
from headgate.cli.ui import Which, is_place

if TYPE_CHECKING:
    from headgate.api.jobs.remote_job import Answer
    from headgate.common.plain_data import Json

Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE.ZIP", help="The file to write; else one named after the job, here."
    ),
]
Sampling = Annotated[
    int,
    typer.Option(
        "--sampling", metavar="SECONDS", min=1, max=60, help="How long the workers' stacks are sampled."
    ),
]

_PARTS: Final = {
    "status": "state, and the rates of each operator",
    "why": "what holds the job up, with the figures",
    "configuration": "every option with its value and where it came from; secrets are masked",
    "plan": "operators, keyed states, edges",
    "failures": "the story of the attempts: from which checkpoint, how each ended, errors; and notes",
    "checkpoints": "the newest checkpoints, with the times of each subtask",
    "subtasks": "the numbers of each subtask",
    "history": "ten minutes of rates",
    "metrics": "all metrics, as Prometheus reads them",
    "stacks": "samples of the stacks of the workers' loops: each with how often it was found",
    "threads": "where each thread of the driver was",
    "warnings": "the newest warnings and errors of Headgate's own loggers in the driver",
    "output": "the newest lines that user code has printed",
    "logs": "the newest log lines of the driver and of all workers",
    "versions": "Python and the packages that Headgate works with",
    "machine": "the driver's machine and process",
}
"""The parts of a report, each a file of its name, and what is in them. No name comes from the job."""

_README: Final = """\
Report of job {name} ({job}), made at {time}.

Secrets of the job's settings, logins in URLs, and values such as password=... are replaced by ******. Secrets
of less than six characters, and those that only the program knows, cannot be recognised: look through the
files before you hand them on. Keys, records and texts of exceptions may be in failures.json, logs.json,
output.json, status.json and warnings.json.

{parts}
"""


def report(
    job: JobOrPlace,
    output: Output = None,
    which: Which = None,
    define: DefineStorage = None,
    sampling: Sampling = 2,
    as_json: AsJson = False,
) -> None:
    """Write all that is known of a job, running or over, into a zip, to hand on; without secrets."""

    def text() -> str:
        from headgate.common.errors import UsageError

        if output is not None and output.exists():
            raise UsageError(f"{output} exists; give --output another name, or remove it")
        found = _found(job, which, define or (), sampling)
        name = _file_name(found)
        files = files_of(found)
        path = _written(output or Path(f"{name}.zip"), name, files)
        if as_json:
            return json.dumps({"path": str(path), "files": sorted(files), "missing": found["missing"]})
        left_out = "".join(f"\nwithout {part}: {why}" for part, why in found["missing"].items())
        return f"{path}{left_out}\nlook through it before you hand it on: README.txt in it says what is where"

    print_outcome(text, as_json, ending_of_wait)


def _found(job: str, which: str | None, define: Sequence[str], sampling_s: int) -> Answer:
    # A job whose driver is dead is looked for where it kept its page.
    from headgate.api.jobs.remote_job import connect, find_job
    from headgate.common.errors import OperatingError
    from headgate.common.files.job_files import known_jobs
    from headgate.common.masking import Mask

    if is_place(job):
        return _kept(job, which, define)
    file = find_job(job, known_jobs())
    if file.exited and file.file.storage is not None:
        return _kept(file.file.storage, file.file.job_id, define)
    if file.exited:
        raise OperatingError(
            f"job {file.file.name!r} ({file.file.job_id}) is gone, and had no checkpoint directory in which "
            "anything of it would be kept; look into its driver's log"
        )
    mask = Mask([file.file.secret])
    found = {name: mask.facts(part) for name, part in connect(file.file.job_id).report(sampling_s).items()}
    return {"name": mask.text(file.file.name), "job": file.file.job_id, **found}


def _kept(place: str, which: str | None, define: Sequence[str]) -> Answer:
    from headgate.common.masking import Mask
    from headgate.common.settings.config import Config
    from headgate.common.settings.secret_options import secrets_of
    from headgate.offline.kept_pages import kept_report
    from headgate.offline.storages import storage_options

    with storage_options(define):
        found = kept_report(place, which)
    mask = Mask(secrets_of(Config().with_command_line(define)))
    parts: Answer = {name: mask.facts(part) for name, part in found.items()}
    status, why = parts.get("status") or {}, "the job is over, and it was not kept"
    missing = {part: why for part in _PARTS if part not in parts}
    names = {"name": str(status.get("name")), "job": str(status.get("job_id"))}
    return {**parts, **names, "missing": missing}


def _file_name(found: Answer) -> str:
    return f"headgate-report-{_plain(str(found['job']))}-{time.strftime('%Y%m%d-%H%M%S')}"


def _plain(text: str) -> str:
    # The id is made of the job's name, or is what a file in a storage says.
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:80] or "job"


def files_of(found: Mapping[str, Json]) -> dict[str, str]:
    """Return the files of a report by name: the text of each part that is there, and a README.

    Example:
        >>> files = files_of({"name": "words", "job": "words-1", "metrics": "up 1", "../odd": 1})
        >>> sorted(files), files["README.txt"].splitlines()[0][:34]
        (['README.txt', 'metrics.txt'], "Report of job 'words' ('words-1'),")
    """
    files = {}
    for part in _PARTS:
        facts = found.get(part)
        if isinstance(facts, str):
            files[f"{part}.txt"] = facts
        elif facts is not None:
            files[f"{part}.json"] = json.dumps(facts, indent=2)
    listed = "\n".join(f"{name}: {_PARTS[name.partition('.')[0]]}" for name in files)
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    named = {"name": ascii(found["name"]), "job": ascii(found["job"])}
    return {**files, "README.txt": _README.format(**named, time=moment, parts=listed)}


def _written(path: Path, folder: str, files: Mapping[str, str]) -> Path:
    from headgate.common.errors import OperatingError
    from headgate.common.files.durable_file import replace
    from headgate.common.files.permissions import Permissions

    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in files.items():
            packed.writestr(f"{folder}/{name}", text.encode("utf-8", "backslashreplace"))
    try:
        replace(path, [body.getvalue()], Permissions.OWNER, durable=False)
    except OSError as error:
        raise OperatingError(f"the report cannot be written to {path}: {error}; give --output") from None
    return path.absolute()
