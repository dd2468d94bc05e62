"""The uses that need Spark: thirteen jobs, in which each kind of type and each place comes at least once.

They share four sessions: one of a script, one of a notebook, one of ``headgate run``, and one of a process
that runs programs, which are isolated.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from proof.types.cells import FROM_MODULE, PLACES, Outcome, Way, ended, locked, shortened
from proof.types.kinds import KINDS, Kind
from proof.types.program import SPARK_USES
from proof.types.spark_program import SPARK_BUILD, SPARK_JOB, SPARK_RUN

_SCRIPT, _BY_COMMAND, _IMPORTED, _BUILD, _NOTEBOOK, _REQUIREMENTS = (place.name for place in PLACES)
_PAIRS: Final = {
    "script": (
        ("dataclass", _SCRIPT),
        ("pydantic model", _SCRIPT),
        ("NamedTuple", _IMPORTED),
        ("Enum", _IMPORTED),
    ),
    "notebook": (("TypedDict", _NOTEBOOK), ("nested classes", _NOTEBOOK)),
    "command": (("dataclass", _BY_COMMAND),),
    "programs": (
        ("attrs class", _BY_COMMAND),
        ("nested classes", _BY_COMMAND),
        ("msgspec.Struct", _BUILD),
        ("Enum", _BUILD),
        ("frozen slotted dataclass", _REQUIREMENTS),
        ("generic dataclass", _REQUIREMENTS),
    ),
}
SESSIONS: Final = tuple(_PAIRS)
_WAYS: Final = {session: Way.ISOLATED if session == "programs" else Way.PLAIN for session in SESSIONS}
RUNS: Final = tuple((*pair, _WAYS[session]) for session, pairs in _PAIRS.items() for pair in pairs)
"""Kind and place of each job, and the way in which it runs."""

_BY_NAME: Final = {kind.name: kind for kind in KINDS}
_FUTURE: Final = "from __future__ import annotations\n\n"
_HEADGATE: Final = ("-m", "headgate", "run", "--quiet")
_RUN_PROGRAMS: Final = """
import json
import sys

import headgate as hg

for program, options in json.loads(sys.argv[1]):
    try:
        hg.run_program(program, options=["headgate.progress=off", *options])
    except Exception as error:
        print(f"{program}: {type(error).__name__}: {error}", file=sys.stderr)
"""


def run(session: str, folder: Path) -> dict[tuple[str, str, str, str], Outcome]:
    """All jobs of one session.

    Args:
        session: one of :data:`SESSIONS`.
        folder: an empty one.
    """
    pairs = _PAIRS[session]
    for number in range(len(pairs)):
        (folder / f"job-{number}").mkdir()
    writers: dict[str, Callable[[Path, list[tuple[Kind, str]]], list[str]]] = {
        "script": _script,
        "notebook": _notebook,
        "command": lambda folder, jobs: [*_HEADGATE, *_script(folder, jobs)],
        "programs": _programs,
    }
    way = _WAYS[session]
    command = writers[session](folder, [(_BY_NAME[kind], place) for kind, place in pairs])
    done = ended(command, folder, way=way)
    found: dict[tuple[str, str, str, str], Outcome] = {}
    for number, pair in enumerate(pairs):
        file = folder / f"job-{number}" / "report"
        for line in file.read_text().splitlines() if file.exists() else []:
            one = json.loads(line)
            found[*pair, way, one["use"]] = Outcome(one["state"], shortened(one["said"]))
        for use in SPARK_USES:
            said = f"the program ended with code {done.returncode}: {done.stderr[-1500:]}"
            found.setdefault((*pair, way, use), Outcome("fails", said))
    return found


def _job(number: int) -> str:
    return SPARK_JOB.replace("KEY", f"job-{number}")


def _script(folder: Path, jobs: list[tuple[Kind, str]]) -> list[str]:
    """One script, which defines its types one after the other, or imports them."""
    parts = []
    for number, (kind, place) in enumerate(jobs):
        if place == _IMPORTED:
            (folder / f"shapes_{number}.py").write_text(_FUTURE + kind.text)
        text = f"from shapes_{number} import *\n" if place == _IMPORTED else kind.text
        parts.append(text + _job(number) + SPARK_RUN)
    (folder / "job.py").write_text("\n".join(parts))
    return ["job.py"]


def _notebook(folder: Path, jobs: list[tuple[Kind, str]]) -> list[str]:
    cells = [_FUTURE]
    for number, (kind, _) in enumerate(jobs):
        cells += [kind.text, _job(number), SPARK_RUN]
    (folder / "cells.json").write_text(json.dumps(cells))
    return ["-m", "proof.types.notebook", "cells.json"]


def _programs(folder: Path, jobs: list[tuple[Kind, str]]) -> list[str]:
    """One process, in which programs run as the command runs them."""
    programs = []
    for number, (kind, place) in enumerate(jobs):
        code = folder / f"code-{number}"
        code.mkdir()
        text, options = kind.text, []
        if place == _REQUIREMENTS:
            text, name = FROM_MODULE, f"matrix-shapes-{number}"
            file = locked(code / "locked.txt", folder / "index", name, kind.text)
            options = [f"headgate.user-code.requirements={file}"]
        end = SPARK_BUILD if place == _BUILD else SPARK_RUN
        (code / "job.py").write_text(text + _job(number) + end)
        programs.append([str(code / "job.py"), options])
    (folder / "run.py").write_text(_RUN_PROGRAMS)
    return ["run.py", json.dumps(programs)]
