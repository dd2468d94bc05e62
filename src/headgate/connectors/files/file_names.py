"""Names of a files sink's output files, before and after they are published. Opens no file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple, TypedDict

from headgate.common.files.durable import crc32, sha256
from headgate.common.files.stored_paths import inside

PENDING: Final = "_pending"
"""Folder of pending files in the output directory; readers skip names that begin with ``_``."""

TAKEN_BACK: Final = "_taken_back"  # below the output directory: what was published and is not any more

_HELD: Final = ".held"
"""Ending of a mark's name: a savepoint holds the pending file that the name begins with."""

_SHOWN_MAX: Final = 60
_MARK: Final = re.compile(rf"(.*?)(~[0-9a-f]{{16}})?{re.escape(_HELD)}", re.DOTALL)
_PREPARED: Final = re.compile(rf"{PENDING}/[^/]+/[^/]+", re.DOTALL)
_PART: Final = re.compile(
    r"part-(?P<owner>[^+]+\+[^+]+)\+[0-9]+-(?P<generation>[0-9]+)\.(?P<attempt>[0-9]+)-[0-9]+"
    r"-c(?P<checkpoint>[0-9]+)\."
)


class Prepared(TypedDict):
    """Committable of a files sink: one complete file; its names are relative to the output directory."""

    pending: str  # its name until it is published
    final: str  # its name from then on
    size: int  # bytes
    crc32: int  # of all bytes


def safe(name: str) -> str:
    """Return a valid file name for any text; if it is not the text itself, the text's CRC-32 ends it.

    Example:
        >>> safe("out-1"), safe("a/b")
        ('out-1', 'a_b~07f4401c')
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:_SHOWN_MAX]
    if plain == name and name.strip("."):
        return name
    return f"{plain}~{crc32(name.encode('utf-8', 'surrogatepass')):08x}"


def pending_folder(job: str, uid: str) -> str:
    """Return the name of the folder for one sink of one job, below the folder of all pending files."""
    return f"{safe(job)}+{safe(uid)}"


def pending_path(root: str | Path, stored: str) -> Path:
    """Return the path of a pending file named in a snapshot; StrayPathError if the name leads elsewhere.

    Example:
        >>> pending_path("/out", "_pending/job+out/part-1").as_posix()
        '/out/_pending/job+out/part-1'
    """
    return inside(root, stored, "a prepared file", _PREPARED)


def part_name(
    job: str, uid: str, subtask: int, generation: int, attempt: int, sequence: int, suffix: str
) -> str:
    """Return the name of a writer's file number `sequence`; no other writer, attempt, driver or job uses it.
    `subtask` and `sequence` count from 0, `generation` (driver) and `attempt` (deployment) from 1.

    Example:
        >>> part_name("job", "out", 1, 3, 2, 0, ".jsonl")
        'part-job+out+00001-3.2-0.jsonl'
    """
    return f"part-{pending_folder(job, uid)}+{subtask:05d}-{generation}.{attempt}-{sequence}{suffix}"


def final_name(part: str, checkpoint: int, suffix: str) -> str:
    """Return the name under which a file is published; its end has the id of the first snapshot with it.

    Example:
        >>> final_name("part-job+out+00001-3.2-0.jsonl", 7, ".jsonl")
        'part-job+out+00001-3.2-0-c7.jsonl'
    """
    return f"{part.removesuffix(suffix)}-c{checkpoint}{suffix}"


class PartOrigin(NamedTuple):
    """Origin of a published file, read from its name: its sink, driver, attempt and first snapshot."""

    owner: str  # the pending folder of its job and sink
    generation: int  # of the job's driver
    attempt: int  # the deployment
    checkpoint: int  # the first snapshot that it belongs to


def origin_of(name: str) -> PartOrigin | None:
    """Return who wrote a published file, from its name; None if the name has no checkpoint.
    Files of such names, an older version's or not of Headgate, count as output of no job.

    Example:
        >>> origin_of("part-job+out+00001-3.2-0-c7.jsonl")
        PartOrigin(owner='job+out', generation=3, attempt=2, checkpoint=7)
        >>> origin_of("part-job+out+00001-2-0.jsonl") is None
        True
    """
    match = _PART.match(name)
    if match is None:
        return None
    generation, attempt, checkpoint = (int(match[key]) for key in ("generation", "attempt", "checkpoint"))
    return PartOrigin(match["owner"], generation, attempt, checkpoint)


def held_mark(pending: str, holder: str) -> str:
    """Return the name of the mark file that keeps a pending file for the savepoint that `holder` identifies.

    Example:
        >>> held_mark("part-a.jsonl", "job/1/1/7")
        'part-a.jsonl~7691d2bc57fb5368.held'
    """
    return f"{pending}~{sha256(holder.encode()).hexdigest()[:16]}{_HELD}"


def held_by(mark: str) -> str | None:
    """Return the name of the pending file that a mark file keeps; None if `mark` is not a mark's name.
    Marks without a hash of their savepoint are of an older version; releasing it does not remove them.

    Example:
        >>> held_by("a.jsonl~5dbbfb46b95bd9ee.held"), held_by("a.jsonl.held"), held_by("a.jsonl")
        ('a.jsonl', 'a.jsonl', None)
    """
    match = _MARK.fullmatch(mark)
    return None if match is None else match[1]


def generation_of(pending: str) -> int:
    """Return the generation of the driver whose writer made a pending file; 0 if its name has none.

    Example:
        >>> generation_of("part-job+out+00001-3.2-0.jsonl"), generation_of("01.part-job+out+00001-2-0.jsonl")
        (3, 0)
    """
    match = re.search(r"\+[0-9]+-([0-9]+)\.[0-9]+-[0-9]+", pending)
    return 0 if match is None else int(match[1])
