"""Checks whether a changed program can go on from a snapshot, before the running job is stopped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from headgate.offline.inspecting import asked
from headgate.offline.storages import absolute, refuse_unreadable, storage_options

_INSPECTOR = "headgate.offline.judging:inspect"


class Verdict(StrEnum):
    """Verdict on what a restore does with a part of a snapshot, or of a program; the worst comes last.

    The texts are public interface. `LEFT_BEHIND` is a verdict on a complete snapshot: parts are only in it,
    and may be left there.
    """

    ONLY_IN_PROGRAM = "only in program"
    AS_IS = "as is"
    RECONFIGURED = "reconfigured"
    AFTER_MIGRATION = "after migration"
    LEFT_BEHIND = "left behind"
    ONLY_IN_SNAPSHOT = "only in snapshot"
    INCOMPATIBLE = "incompatible"


class Item(msgspec.Struct, frozen=True):
    """A line of a report: a `part` of an operator's state, its types `stored` and `declared`, the verdict."""

    part: str  # "state", "timers", "keys", "operator state", "source", "sink" or "records in flight"
    name: str  # of the state; of other parts what the operator calls them
    verdict: Verdict
    stored: str | None = None  # the type in the snapshot, for people; None: unknown, or not there
    declared: str | None = None  # the type in the program, likewise
    why: str | None = None  # what changed, or why it does not fit


class OperatorReport(msgspec.Struct, frozen=True):
    """The report on one operator; `name` None: not in the program, `parallelism_stored` None: not stored."""

    uid: str
    name: str | None  # in the program; None where the program has no such operator
    parallelism_stored: int | None  # None: the snapshot has no such operator
    parallelism: int | None  # in the program
    items: list[Item]
    suggestion: str | None = None  # what to do about a missing or a renamed uid
    lacks_uid: bool = False  # whether the program gives it none, although it has state


class UpgradeReport(msgspec.Struct, frozen=True):
    """The report on whether a program can go on from a snapshot; as JSON for programs, a table for people.
    `operators` are in the program's order, then those that it lacks; `refusals`: what else refuses a restore.
    """

    snapshot: str
    kind: str  # "checkpoint" or "savepoint"
    format: str | None
    job: str
    checkpoint: int
    program: str
    max_parallelism_stored: int
    max_parallelism: int
    allow_non_restored: bool  # whether what is only in the snapshot may be left behind
    operators: list[OperatorReport]  # in the program's order, then those that it lacks
    refusals: list[str]  # why the restore would be refused, besides what the operators show

    @property
    def verdict(self) -> Verdict:
        """The verdict on the snapshot: the worst one of its parts, or incompatible if a restore is refused.

        What is only in the program begins empty; what is only in the snapshot is left behind where allowed.
        """
        if self.refusals:
            return Verdict.INCOMPATIBLE
        return gravest(self._verdicts(), self.allow_non_restored)

    @property
    def converts(self) -> bool:
        """Whether the restore converts stored values, because their types in the program have changed."""
        return Verdict.AFTER_MIGRATION in self._verdicts()

    @property
    def restorable(self) -> bool:
        """Whether the program can restore the snapshot without loss of state that may not be left behind."""
        return self.verdict not in (Verdict.INCOMPATIBLE, Verdict.ONLY_IN_SNAPSHOT)

    def _verdicts(self) -> set[Verdict]:
        return {item.verdict for operator in self.operators for item in operator.items}


def gravest(verdicts: Iterable[Verdict], allow_non_restored: bool = False) -> Verdict:
    """Return the worst verdict, "as is" or worse; if allowed, "only in snapshot" counts as "left behind".

    Example:
        >>> gravest([Verdict.AS_IS, Verdict.ONLY_IN_SNAPSHOT, Verdict.ONLY_IN_PROGRAM]).value
        'only in snapshot'
        >>> gravest([Verdict.RECONFIGURED, Verdict.ONLY_IN_SNAPSHOT], allow_non_restored=True).value
        'left behind'
    """
    lost = Verdict.LEFT_BEHIND if allow_non_restored else Verdict.ONLY_IN_SNAPSHOT
    counted = (lost if verdict is Verdict.ONLY_IN_SNAPSHOT else verdict for verdict in verdicts)
    return max([Verdict.AS_IS, *counted], key=list(Verdict).index)


def check_upgrade(
    snapshot: str,
    program: str | Path,
    arguments: Sequence[str] = (),
    options: Sequence[str] = (),
    *,
    allow_non_restored: bool = False,
    timeout_s: float = 60.0,
) -> UpgradeReport:
    """Report what would become of every state of a snapshot and of a program, if the program restored it.

    Args:
        snapshot: URI of the checkpoint or savepoint, which is only read.
        program: the Python file. It runs up to ``execute()`` in a process of its own and starts no job.
        arguments: those of the program.
        options: ``key=value`` settings; those of storages count for the snapshot, too.
        allow_non_restored: whether state that the program lacks may be left behind.
        timeout_s: bounds the planning and the check.

    Raises:
        StorageError: the snapshot cannot be read or trusted.
        UsageError: the program cannot be planned, or not within `timeout_s`; gives the reason.
    """
    with storage_options(options):
        refuse_unreadable(snapshot)
        request = {
            "snapshot": absolute(snapshot),
            "program": str(program),
            "allow_non_restored": allow_non_restored,
        }
    return asked(UpgradeReport, _INSPECTOR, request, program, arguments, options, timeout_s)
