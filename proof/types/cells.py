"""A row of the matrix: a type of one kind, defined in one place, put to every use by a job on processes."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import types
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from proof.types.cluster import FOLDER
from proof.types.kinds import KINDS, Kind
from proof.types.program import BUILD, JOB, RUN, USES, identifier

ROOT: Final = Path(__file__).parents[2]
LIMIT_S: Final = 240
COUNT: Final = 12
SEPARATELY: Final = ("key",)
"""Uses that are known to be refused: together with others they would end all."""


@dataclass(frozen=True)
class Outcome:
    """What became of a use.

    Attributes:
        state: "works", "refused" (before the start) or "fails".
        said: the refusal, or the failure.
    """

    state: str
    said: str = ""


class Way(StrEnum):
    """Whether the program's modules are kept from everything else: the column `interpreter` of the table."""

    PLAIN = "plain"
    ISOLATED = "isolated"


@dataclass(frozen=True)
class Place:
    """Where a type is defined, and how its program is run.

    Attributes:
        name: for the table.
        write: writes the program into a folder and gives the command, without the interpreter.
        ways: those in which such a program can run.
        builds: whether a process runs one job only, which the command executes.
    """

    name: str
    write: Callable[[Path, str, Way], list[str]]
    ways: tuple[Way, ...] = (Way.PLAIN, Way.ISOLATED)
    builds: bool = False


_CLUSTER: Final = ", executor=noting_cluster()"
_IMPORT: Final = "\nfrom proof.types.cluster import noting_cluster\n"
_OWN: Final = JOB + _IMPORT + RUN.replace("EXECUTOR", _CLUSTER)
_BY_COMMAND: Final = JOB + RUN.replace("EXECUTOR", "")
FROM_MODULE: Final = "from shapes import *\n"
_COMMAND: Final = ["-m", "proof.types.cluster", "run", "--quiet"]


def _headgate(way: Way, file: Path) -> list[str]:
    asked = ["-D", "headgate.user-code.apart=true"] if way is Way.ISOLATED else []
    return [*_COMMAND, *asked, str(file)]


def _script(folder: Path, text: str, _: Way) -> list[str]:
    (folder / "job.py").write_text(text + _OWN)
    return [str(folder / "job.py")]


def _script_by_command(folder: Path, text: str, way: Way) -> list[str]:
    (folder / "job.py").write_text(text + _BY_COMMAND)
    return _headgate(way, folder / "job.py")


def _imported(folder: Path, text: str, way: Way) -> list[str]:
    """By python itself, or where it is to be isolated by the command."""
    (folder / "shapes.py").write_text(text)
    if way is Way.ISOLATED:
        return _script_by_command(folder, FROM_MODULE, way)
    return _script(folder, FROM_MODULE, way)


def _build(folder: Path, text: str, way: Way) -> list[str]:
    (folder / "job.py").write_text(text + JOB + BUILD)
    return _headgate(way, folder / "job.py")


def _notebook(folder: Path, text: str, _: Way) -> list[str]:
    run = _IMPORT + RUN.replace("EXECUTOR", _CLUSTER)
    # The first cell is run twice, as one does.
    (folder / "cells.json").write_text(json.dumps([text, text, JOB, run]))
    return ["-m", "proof.types.notebook", str(folder / "cells.json")]


def _requirements(folder: Path, text: str, _: Way) -> list[str]:
    """The type lies in a package that the program brings as a locked requirement."""
    file = locked(folder / "locked.txt", folder / "index", "matrix-shapes", text)
    (folder / "code").mkdir()
    (folder / "code" / "job.py").write_text(FROM_MODULE + _BY_COMMAND)
    return [*_COMMAND, str(folder / "code" / "job.py"), "--requirements", str(file)]


def locked(file: Path, index: Path, name: str, text: str) -> Path:
    """A locked requirements file of one package, which holds the module `shapes` and lies in `index`."""
    index.mkdir(exist_ok=True)
    stem = f"{name.replace('-', '_')}-1.0"
    wheel, info = index / f"{stem}-py3-none-any.whl", f"{stem}.dist-info"
    files = {
        "shapes.py": text,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: matrix\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    listed = "".join(f"{path},sha256={_digest(content)},{len(content)}\n" for path, content in files.items())
    with zipfile.ZipFile(wheel, "w") as made:
        for path, content in {**files, f"{info}/RECORD": f"{listed}{info}/RECORD,,\n"}.items():
            made.writestr(zipfile.ZipInfo(path), content)
    file.write_text(f"{name}==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    return file


def _digest(content: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()


PLACES: Final = (
    Place("script, `python job.py`", _script, (Way.PLAIN,)),
    Place("script, `headgate run`", _script_by_command),
    Place("imported module", _imported),
    Place("module with `build(env)`", _build, builds=True),
    Place("notebook cell", _notebook, (Way.PLAIN,)),
    Place("`--requirements`", _requirements, (Way.ISOLATED,)),
)
"""In the order of the table."""

_ISOLATED: Final = {
    "script, `headgate run`": ("dataclass", "attrs class", "nested classes"),
    "imported module": ("frozen slotted dataclass", "NamedTuple", "TypedDict", "pydantic model"),
    "module with `build(env)`": ("msgspec.Struct", "Enum", "generic dataclass"),
}
"""Of the places where a program runs in either way: each kind once in the one that is not the default."""


def is_run(kind: Kind, place: Place, way: Way) -> bool:
    """Whether the matrix has a job of this: every pair in the way that is the default, some in the other."""
    if len(place.ways) == 1 or way is Way.PLAIN:
        return way in place.ways
    return kind.name in _ISOLATED[place.name]


RUNS: Final = tuple(
    (kind, place, way) for kind in KINDS for place in PLACES for way in Way if is_run(kind, place, way)
)


def text_of(kind: Kind, place: Place) -> str:
    """The module that defines the type; every second one of them keeps its annotations as text."""
    texts = kind in KINDS and (KINDS.index(kind) + PLACES.index(place)) % 2 == 1
    return ("from __future__ import annotations\n\n" if texts else "") + kind.text


def run(kind: Kind, place: Place, way: Way, folder: Path) -> dict[str, Outcome]:
    """Put a type to every use: all in one job, and only where that one does not work, one by one.

    Args:
        kind: of type.
        place: where it is defined.
        way: in which its program runs, which it looks at itself.
        folder: an empty one.
    """
    command = place.write(folder, text_of(kind, place), way)
    _write_rows(kind, folder)
    together = [use for use in USES if use not in SEPARATELY]
    found = _tried(command, place, way, folder, [together, *([use] for use in SEPARATELY)])
    alone = [use for use in together if found[use].state != "works"]
    return found | _tried(command, place, way, folder, [[use] for use in alone]) if alone else found


def _write_rows(kind: Kind, folder: Path) -> None:
    module = sys.modules["matrix_rows"] = types.ModuleType("matrix_rows")
    exec(compile(kind.text, "matrix_rows", "exec", dont_inherit=True), vars(module))
    lines = [json.dumps(vars(module)["plain_row"](n)) for n in range(COUNT)]
    (folder / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines))


def _tried(
    command: list[str], place: Place, way: Way, folder: Path, groups: Sequence[Sequence[str]]
) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for some in [[group] for group in groups] if place.builds else [list(groups)]:
        wanted = ";".join(",".join(map(identifier, group)) for group in some)
        for name in ("report", "begun"):
            (folder / name).unlink(missing_ok=True)
        for name in ("out", "checkpoints"):
            shutil.rmtree(folder / name, ignore_errors=True)
        done = ended(command, folder, wanted, way)
        reports = _reports(folder)
        if place.builds and done.returncode:
            refused = done.returncode == 2 and not (folder / "begun").exists()
            reports = [{"state": "refused" if refused else "fails", "said": done.stderr.strip()}]
        for group, report in zip(some, reports, strict=False):
            found |= dict.fromkeys(group, Outcome(report["state"], shortened(report["said"])))
        for use in (use for group in some[len(reports) :] for use in group):
            found[use] = Outcome(
                "fails", f"the program ended with code {done.returncode}: {done.stderr[-600:]}"
            )
    return found


def ended(
    command: list[str], folder: Path, wanted: str = "", way: Way = Way.PLAIN
) -> subprocess.CompletedProcess[str]:
    """Run a program of the matrix to its end.

    Args:
        command: what follows ``python``.
        folder: its own.
        wanted: the groups of uses that it is to try.
        way: in which it is to run.
    """
    variables = {
        **os.environ,
        FOLDER: str(folder),
        "TYPES_USES": wanted,
        "TYPES_WAY": way,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "PYSPARK_PYTHON": sys.executable,
        "HOME": str(folder.parent),
        "HEADGATE_HOME": str(folder / "home"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder / "index"),
    }
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def _reports(folder: Path) -> list[dict[str, str]]:
    file = folder / "report"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


_LINE: Final = re.compile(r" \((job\.py|<ipython-input-\d+-cell>):\d+\)")


def shortened(said: str) -> str:
    """As one line, and the same for each place."""
    said = _LINE.sub("", " ".join(said.split())).removeprefix("headgate: ")
    return said if len(said) <= 500 else f"{said[:240]} ... {said[-240:]}"
