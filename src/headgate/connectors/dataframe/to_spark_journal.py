"""What a sink's journal says: who goes on a line, and which epochs of it are begun, written, taken back.

The journal is a list of entries; a `Line` is what they amount to. Everything that is decided about
epochs is decided here, from a line and a job's lineage. Does no I/O; `to_spark_log.py` stores the entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from headgate.api.sink import Lineage

_REMEMBERED_MAX: Final = 32
"""Of how many of the latest epochs the files are known by name."""


class Origin(msgspec.Struct, frozen=True, array_like=True):
    """Who prepared rows, and for which snapshot first."""

    job: str
    generation: int
    attempt: int
    checkpoint: int


class Run(msgspec.Struct, frozen=True, array_like=True):
    """Epochs that one attempt prepared one after the other; the number is the checkpoint plus `shift`."""

    job: str
    generation: int
    attempt: int
    first: int
    last: int
    shift: int

    @property
    def epochs(self) -> range:
        """Numbers; some may never have been used."""
        return range(self.first + self.shift, self.last + self.shift + 1)

    def holds(self, origin: Origin) -> bool:
        """Whether what was prepared there is among these epochs."""
        same = (self.job, self.generation, self.attempt) == (origin.job, origin.generation, origin.attempt)
        return same and self.first <= origin.checkpoint <= self.last

    def parted(self, lineage: Lineage) -> tuple[Run | None, Run | None]:
        """What of it is history of a lineage, and what is not."""
        through = self.first - 1
        for fork in lineage.forks:
            if fork.job == self.job and (self.generation, self.attempt) <= (fork.generation, fork.attempt):
                through = max(through, min(fork.checkpoint, self.last))
        return self._between(self.first, through), self._between(through + 1, self.last)

    def without(self, other: Run) -> list[Run]:
        """What is left when the epochs of `other` are taken out."""
        if (self.job, self.generation, self.attempt, self.shift) != (
            other.job,
            other.generation,
            other.attempt,
            other.shift,
        ):
            return [self]
        left = self._between(self.first, min(other.first - 1, self.last))
        right = self._between(max(other.last + 1, self.first), self.last)
        return [run for run in (left, right) if run is not None]

    def _between(self, first: int, last: int) -> Run | None:
        return None if last < first else msgspec.structs.replace(self, first=first, last=last)


class GoesOn(msgspec.Struct, frozen=True, tag="goes-on"):
    """A driver of a job goes on the line; from here on no other one adds epochs."""

    job: str
    generation: int
    forks: list[tuple[str, int, int, int]] = []


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    """An epoch is about to be written; from here on its number and its rows are settled."""

    epoch: int
    origin: Origin
    files: list[str]
    columns: list[tuple[str, str]]


class Written(msgspec.Struct, frozen=True, tag="written"):
    """The epoch that was begun last is written."""

    epoch: int


class TakenBack(msgspec.Struct, frozen=True, tag="taken-back"):
    """Epochs are not visible any more; of the unfinished it is not known whether they ever were."""

    runs: list[Run]
    unfinished: list[int] = []


class PutBack(msgspec.Struct, frozen=True, tag="put-back"):
    """Epochs that were taken back are visible again."""

    runs: list[Run]


class Line(msgspec.Struct, frozen=True, tag="line"):
    """What all entries up to here amount to; as an entry it stands for those before it.

    Attributes:
        jobs: which went on the line, in order.
        generation: of the driver of the last of them.
        last: the largest number of an epoch so far.
        shift: what the next number is at least ahead of its checkpoint.
        columns: names and types of the rows, from the first epoch on.
        written: epochs that are visible.
        taken: epochs that were taken back.
        begun: the epoch that was begun and is not known to be written.
        remembered: the latest epochs, with their files.
    """

    jobs: list[str] = []
    generation: int = 0
    last: int = 0
    shift: int = 0
    columns: list[tuple[str, str]] = []
    written: list[Run] = []
    taken: list[Run] = []
    begun: Begun | None = None
    remembered: list[Begun] = []


Entry = GoesOn | Begun | Written | TakenBack | PutBack | Line


def after(line: Line, entry: Entry) -> Line:
    """The line with one entry more.

    Example:
        >>> line = after(Line(), GoesOn("a", 1))
        >>> line = after(line, Begun(7, Origin("a", 1, 1, 7), ["f"], []))
        >>> [list(run.epochs) for run in after(line, Written(7)).written]
        [[7]]
    """
    replace = msgspec.structs.replace
    if isinstance(entry, Line):
        return entry
    if isinstance(entry, GoesOn):
        jobs = line.jobs if line.jobs[-1:] == [entry.job] else [*line.jobs, entry.job]
        return replace(line, jobs=jobs, generation=entry.generation)
    if isinstance(entry, Begun):
        ahead = entry.epoch - entry.origin.checkpoint
        columns = line.columns or entry.columns
        return replace(line, begun=entry, last=entry.epoch, shift=max(line.shift, ahead), columns=columns)
    if isinstance(entry, Written):
        return _written(line, entry.epoch)
    if isinstance(entry, TakenBack):
        begun = line.begun if line.begun is None or line.begun.epoch not in entry.unfinished else None
        taken = [*_without(line.taken, entry.runs), *entry.runs]
        return replace(line, written=_without(line.written, entry.runs), taken=taken, begun=begun)
    written = [*_without(line.written, entry.runs), *entry.runs]
    return replace(line, written=written, taken=_without(line.taken, entry.runs))


def _written(line: Line, epoch: int) -> Line:
    begun = line.begun
    if begun is None or begun.epoch != epoch:
        return line
    origin, shift = begun.origin, epoch - begun.origin.checkpoint
    new = Run(origin.job, origin.generation, origin.attempt, origin.checkpoint, origin.checkpoint, shift)
    runs = list(line.written)
    last = runs[-1] if runs else None
    if (
        last is not None
        and msgspec.structs.replace(last, first=new.first, last=new.last) == new
        and (last.last < new.first)
    ):
        runs[-1] = msgspec.structs.replace(last, last=new.last)
    else:
        runs.append(new)
    remembered = [*line.remembered, begun][-_REMEMBERED_MAX:]
    return msgspec.structs.replace(line, written=runs, begun=None, remembered=remembered)


def _without(runs: Iterable[Run], taken: Iterable[Run]) -> list[Run]:
    left = list(runs)
    for other in taken:
        left = [part for run in left for part in run.without(other)]
    return left


def _any(runs: Iterable[Run], origin: Origin) -> bool:
    return any(run.holds(origin) for run in runs)


# -- what is decided


def run_of(begun: Begun) -> Run:
    """The run of one epoch that was begun."""
    o = begun.origin
    return Run(o.job, o.generation, o.attempt, o.checkpoint, o.checkpoint, begun.epoch - o.checkpoint)


def beyond(line: Line, job: str, lineage: Lineage) -> list[Run]:
    """Epochs that are written and not history of the job; its own only where it goes back behind them."""
    others = job not in {fork.job for fork in lineage.forks}
    runs = [run for run in line.written if run.job != job or not others]
    return [rest for run in runs if (rest := run.parted(lineage)[1]) is not None]


def unfinished_beyond(line: Line, job: str, lineage: Lineage) -> list[Run]:
    """The same of an epoch that may be written."""
    return [] if line.begun is None else beyond(Line(written=[run_of(line.begun)]), job, lineage)


def missing(line: Line, lineage: Lineage) -> list[Run]:
    """Epochs of the job's history that were taken back."""
    return [kept for run in line.taken if (kept := run.parted(lineage)[0]) is not None]


def why_fenced(line: Line, job: str, generation: int, lineage: Lineage) -> str | None:
    """Why a driver must not go on the line; None when it may."""
    last = line.jobs[-1] if line.jobs else None
    if last == job:
        newer = line.generation > generation
        return f"its driver of generation {line.generation} goes on" if newer else None
    if job in line.jobs:
        return f"job {last!r} went on after this one"
    if newer_runs := [*beyond(line, job, lineage), *unfinished_beyond(line, job, lineage)]:
        return described(newer_runs)
    if gone := missing(line, lineage):
        return f"{described(gone)}, which it descends from, was taken back"
    return None


def described(runs: Sequence[Run]) -> str:
    """Epochs in words.

    Example:
        >>> described([Run("a", 1, 1, 7, 9, 0)])
        "epochs 7 to 9, prepared by job 'a'"
    """
    first, last, job = runs[0].epochs[0], runs[-1].epochs[-1], runs[-1].job
    numbers = f"epoch {last}" if first == last else f"epochs {first} to {last}"
    return f"{numbers}, prepared by job {job!r}"


def not_written(line: Line, origin: Origin, files: Sequence[str]) -> list[str]:
    """Which files of one origin are in no written epoch of the line."""
    remembered = [begun for begun in line.remembered if begun.origin == origin]
    known = {file for begun in remembered for file in begun.files}
    if not _any(line.written, origin):
        return list(files)
    # What is not remembered any more was written as a whole.
    return [file for file in files if file not in known] if remembered else []


def next_epoch(line: Line, checkpoint: int) -> int:
    """The number of a new epoch: the checkpoint's where that is free, so that people find it again.

    Example:
        >>> next_epoch(Line(last=6), 7), next_epoch(Line(last=9), 7), next_epoch(Line(last=9, shift=5), 7)
        (7, 10, 12)
    """
    return max(checkpoint + line.shift, line.last + 1)
