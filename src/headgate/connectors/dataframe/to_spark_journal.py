"""The journal of a `to_spark()` sink in a lineage, that is, of jobs that continue each other's output.
Its entries say which job owns the lineage, and which epochs are begun, written, taken back; a `State` sums
them up. All decisions about epochs are made here. Does no I/O; `to_spark_log.py` stores the entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from headgate.api.sink import Lineage

_REMEMBERED_MAX: Final = 32  # of so many latest epochs the state has the names of the files


class Origin(msgspec.Struct, frozen=True, array_like=True):
    """Origin of staged rows: the attempt of a job that staged them, and the first snapshot with them."""

    job: str  # its id
    generation: int  # of the job's driver
    attempt: int  # the deployment
    checkpoint: int  # id of that snapshot


class Run(msgspec.Struct, frozen=True, array_like=True):
    """Epochs of one attempt's checkpoints `first` to `last`; an epoch is numbered checkpoint plus `shift`."""

    job: str  # its id
    generation: int  # of the job's driver
    attempt: int  # the deployment
    first: int  # id of the first checkpoint
    last: int  # id of the last checkpoint
    shift: int

    @property
    def epochs(self) -> range:
        """Numbers of the epochs in this run; some may never have been used."""
        return range(self.first + self.shift, self.last + self.shift + 1)

    def holds(self, origin: Origin) -> bool:
        same = (self.job, self.generation, self.attempt) == (origin.job, origin.generation, origin.attempt)
        return same and self.first <= origin.checkpoint <= self.last

    def parted(self, lineage: Lineage) -> tuple[Run | None, Run | None]:
        """Return the part of this run that a job with this lineage descends from, and the part after it.
        The first part ends with the newest checkpoint that a snapshot among the lineage's forks continues. An
        empty part is None.
        """
        through = self.first - 1
        for fork in lineage.forks:
            if fork.job == self.job and (self.generation, self.attempt) <= (fork.generation, fork.attempt):
                through = max(through, min(fork.checkpoint, self.last))
        return self._between(self.first, through), self._between(through + 1, self.last)

    def without(self, other: Run) -> list[Run]:
        """Return the parts of this run (of consecutive epochs) that are left without epochs of `other`."""
        if other != msgspec.structs.replace(self, first=other.first, last=other.last):
            return [self]
        left = self._between(self.first, min(other.first - 1, self.last))
        right = self._between(max(other.last + 1, self.first), self.last)
        return [run for run in (left, right) if run is not None]

    def _between(self, first: int, last: int) -> Run | None:
        return None if last < first else msgspec.structs.replace(self, first=first, last=last)


class Owner(msgspec.Struct, frozen=True, tag="goes-on"):
    """Journal entry: a job's driver becomes the lineage's owner; from here on no other one adds epochs."""

    job: str  # its id
    generation: int  # of the driver
    forks: list[tuple[str, int, int, int]] = []  # snapshots it descends from, each as a `Fork`'s fields


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    """Journal entry: an epoch is about to be written; from here on its number and its rows are fixed."""

    epoch: int  # its number
    origin: Origin  # of its rows
    files: list[str]  # names of the staged files
    columns: list[tuple[str, str]]  # names and types


class Written(msgspec.Struct, frozen=True, tag="written"):
    """Journal entry: the epoch that was begun last is written."""

    epoch: int


class TakenBack(msgspec.Struct, frozen=True, tag="taken-back"):
    """Journal entry: epochs were made invisible; if the `unfinished` ones ever were visible is not known."""

    runs: list[Run]  # the epochs, as far as they were written
    unfinished: list[int] = []  # numbers of epochs


class PutBack(msgspec.Struct, frozen=True, tag="put-back"):
    """Journal entry: epochs that were taken back are visible again."""

    runs: list[Run]


class State(msgspec.Struct, frozen=True, tag="line"):
    """Summary of all journal entries so far; stored as an entry, it replaces those before it.
    `jobs` owned the lineage in turn. A new epoch's number is above `last`, at least checkpoint + `shift`.
    """

    jobs: list[str] = []  # that owned the lineage, in order
    generation: int = 0  # of the driver of the last of them
    last: int = 0  # the largest number of an epoch so far
    shift: int = 0  # what the next number is at least ahead of its checkpoint
    columns: list[tuple[str, str]] = []  # names and types of the rows, from the first epoch on
    written: list[Run] = []  # epochs that are visible
    taken: list[Run] = []  # epochs that were taken back
    begun: Begun | None = None  # the epoch that was begun and is not known to be written
    remembered: list[Begun] = []  # the latest epochs, with their files

    def is_owned(self, job: str, generation: int) -> bool:
        return self.jobs[-1:] == [job] and self.generation == generation


Entry = Owner | Begun | Written | TakenBack | PutBack | State


def after(state: State, entry: Entry) -> State:
    """Return the state after one more entry of the journal.

    Example:
        >>> state = after(State(), Owner("a", 1))
        >>> state = after(state, Begun(7, Origin("a", 1, 1, 7), ["f"], []))
        >>> [list(run.epochs) for run in after(state, Written(7)).written]
        [[7]]
    """
    replace = msgspec.structs.replace
    match entry:
        case State():
            return entry
        case Owner(job, generation):
            jobs = state.jobs if state.jobs[-1:] == [job] else [*state.jobs, job]
            return replace(state, jobs=jobs, generation=generation)
        case Begun(epoch, origin):
            shift = max(state.shift, epoch - origin.checkpoint)
            columns = state.columns or entry.columns
            return replace(state, begun=entry, last=epoch, shift=shift, columns=columns)
        case Written(epoch):
            return _written(state, epoch)
        case TakenBack(runs, unfinished):
            begun = state.begun if state.begun is None or state.begun.epoch not in unfinished else None
            taken = [*_without(state.taken, runs), *runs]
            return replace(state, written=_without(state.written, runs), taken=taken, begun=begun)
        case PutBack(runs):
            written = [*_without(state.written, runs), *runs]
            return replace(state, written=written, taken=_without(state.taken, runs))


def _written(state: State, epoch: int) -> State:
    replace, begun = msgspec.structs.replace, state.begun
    if begun is None or begun.epoch != epoch:
        return state
    new, runs = _run_of(begun), list(state.written)
    last = runs[-1] if runs else None
    if last is not None and last.last < new.first and replace(last, first=new.first, last=new.last) == new:
        runs[-1] = replace(last, last=new.last)
    else:
        runs.append(new)
    remembered = [*state.remembered, begun][-_REMEMBERED_MAX:]
    return replace(state, written=runs, begun=None, remembered=remembered)


def _without(runs: Iterable[Run], taken: Iterable[Run]) -> list[Run]:
    left = list(runs)
    for other in taken:
        left = [part for run in left for part in run.without(other)]
    return left


def _run_of(begun: Begun) -> Run:
    o = begun.origin
    return Run(o.job, o.generation, o.attempt, o.checkpoint, o.checkpoint, begun.epoch - o.checkpoint)


# -- decisions


def newer(state: State, job: str, lineage: Lineage) -> list[Run]:
    """Return the written epochs that a job with this lineage does not descend from.
    Its own epochs count only if it falls back to an older snapshot of its own.
    """
    falls_back = any(fork.job == job for fork in lineage.forks)
    runs = [run for run in state.written if run.job != job or falls_back]
    return [rest for run in runs if (rest := run.parted(lineage)[1]) is not None]


def unfinished_newer(state: State, job: str, lineage: Lineage) -> list[Run]:
    """Return the begun epoch, perhaps written, as list of one run; [] if none or the job descends from it."""
    return [] if state.begun is None else newer(State(written=[_run_of(state.begun)]), job, lineage)


def missing(state: State, lineage: Lineage) -> list[Run]:
    """Return the epochs that a job with this lineage descends from, but that were taken back."""
    return [kept for run in state.taken if (kept := run.parted(lineage)[0]) is not None]


def why_fenced(state: State, job: str, generation: int, lineage: Lineage) -> str | None:
    """Return why this driver must not become the lineage's owner, which alone adds epochs; None if it may."""
    last = state.jobs[-1] if state.jobs else None
    if last == job:
        later = state.generation > generation
        return f"its driver of generation {state.generation} goes on" if later else None
    if job in state.jobs:
        return f"job {last!r} went on after this one"
    if newer_runs := [*newer(state, job, lineage), *unfinished_newer(state, job, lineage)]:
        return described(newer_runs)
    if lost := missing(state, lineage):
        return f"{described(lost)}, which it descends from, was taken back"
    return None


def described(runs: Sequence[Run]) -> str:
    """Return text for messages: the first to last epoch of one or more `runs`, and the job of the last run.

    Example:
        >>> described([Run("a", 1, 1, 7, 9, 0)])
        "epochs 7 to 9, prepared by job 'a'"
    """
    first, last, job = runs[0].epochs[0], runs[-1].epochs[-1], runs[-1].job
    numbers = f"epoch {last}" if first == last else f"epochs {first} to {last}"
    return f"{numbers}, prepared by job {job!r}"


def not_written(state: State, origin: Origin, files: Sequence[str]) -> list[str]:
    """Return those of `files`, all staged with this origin, that are in no written epoch."""
    remembered = [begun for begun in state.remembered if begun.origin == origin]
    known = {file for begun in remembered for file in begun.files}
    if not any(run.holds(origin) for run in state.written):
        return list(files)
    # Of an origin that is not remembered any more all was written.
    return [file for file in files if file not in known] if remembered else []


def next_epoch(state: State, checkpoint: int) -> int:
    """Return the number of a new epoch: the checkpoint's id if free, for people to recognise, else larger.

    Example:
        >>> next_epoch(State(last=6), 7), next_epoch(State(last=9), 7), next_epoch(State(last=9, shift=5), 7)
        (7, 10, 12)
    """
    return max(checkpoint + state.shift, state.last + 1)
