"""What a check of an upgrade found, as plain structures, which machines get and the table is made from."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """What becomes of one part of a snapshot, or of a program, at the restore. The values are public.

    `LEFT_BEHIND` is said of the whole: parts are only in the snapshot, and may be left there.
    """

    AS_IS = "as is"
    RECONFIGURED = "reconfigured"
    AFTER_MIGRATION = "after migration"
    ONLY_IN_PROGRAM = "only in program"
    ONLY_IN_SNAPSHOT = "only in snapshot"
    LEFT_BEHIND = "left behind"
    INCOMPATIBLE = "incompatible"


class Item(msgspec.Struct, frozen=True):
    """One state, or something like it.

    Attributes:
        part: "state", "timers", "keys", "operator state", "source", "sink" or "records in flight".
        name: of the state; what the operator calls the rest.
        verdict: what becomes of it.
        stored: its type in the snapshot, in words; None: unknown, or not there.
        declared: its type in the program, in words; None: unknown, or not there.
        why: what changed, or why it does not fit; None: nothing to say.
    """

    part: str
    name: str
    verdict: Verdict
    stored: str | None = None
    declared: str | None = None
    why: str | None = None


class OperatorReport(msgspec.Struct, frozen=True):
    """One operator, found by its uid on either side or on both.

    Attributes:
        name: in the program; None where the program has no such operator.
        parallelism_stored: its subtasks in the snapshot; None: it is not there.
        parallelism: its subtasks in the program; None: it is not there.
        items: what it holds on either side.
        suggestion: what whoever renamed it, or gave it no uid, may have to do; None: nothing.
        lacks_uid: whether the program gives it none, although it has state.
    """

    uid: str
    name: str | None
    parallelism_stored: int | None
    parallelism: int | None
    items: list[Item]
    suggestion: str | None = None
    lacks_uid: bool = False


class UpgradeReport(msgspec.Struct, frozen=True):
    """Whether a program can go on from a snapshot.

    Attributes:
        kind: "checkpoint" or "savepoint".
        program: name of the job in the program.
        allow_non_restored: whether what is only in the snapshot may be left behind.
        operators: those that hold something, in the program's order, then those that it lacks.
        refusals: why the restore as a whole would be refused, besides what `operators` tell.
    """

    snapshot: str
    kind: str
    format: str | None
    job: str
    checkpoint: int
    program: str
    max_parallelism_stored: int
    max_parallelism: int
    allow_non_restored: bool
    operators: list[OperatorReport]
    refusals: list[str]

    @property
    def verdict(self) -> Verdict:
        """The gravest that counts.

        What is only in the program begins empty. What is only in the snapshot is left behind where that is
        allowed.
        """
        if self.refusals:
            return Verdict.INCOMPATIBLE
        return gravest(self._verdicts(), self.allow_non_restored)

    @property
    def converts(self) -> bool:
        """Whether values are converted by the restore."""
        return Verdict.AFTER_MIGRATION in self._verdicts()

    def _verdicts(self) -> set[Verdict]:
        return {item.verdict for operator in self.operators for item in operator.items}

    @property
    def restorable(self) -> bool:
        """Whether the program can go on from the snapshot, and nothing is lost that may not be."""
        return self.verdict not in (Verdict.INCOMPATIBLE, Verdict.ONLY_IN_SNAPSHOT)


_GRAVITY = (
    Verdict.AS_IS,
    Verdict.RECONFIGURED,
    Verdict.AFTER_MIGRATION,
    Verdict.LEFT_BEHIND,
    Verdict.ONLY_IN_SNAPSHOT,
    Verdict.INCOMPATIBLE,
)


def gravest(verdicts: Iterable[Verdict], allow_non_restored: bool = False) -> Verdict:
    """The verdict on the whole.

    Example:
        >>> gravest([Verdict.AS_IS, Verdict.ONLY_IN_SNAPSHOT, Verdict.ONLY_IN_PROGRAM]).value
        'only in snapshot'
        >>> gravest([Verdict.RECONFIGURED, Verdict.ONLY_IN_SNAPSHOT], allow_non_restored=True).value
        'left behind'
    """
    lost = Verdict.LEFT_BEHIND if allow_non_restored else Verdict.ONLY_IN_SNAPSHOT
    counted = [
        lost if verdict is Verdict.ONLY_IN_SNAPSHOT else verdict
        for verdict in verdicts
        if verdict is not Verdict.ONLY_IN_PROGRAM
    ]
    return max(counted, key=_GRAVITY.index, default=Verdict.AS_IS)
