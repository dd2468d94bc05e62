"""Detection of a failure of a job that occurs again and again in the same way.

A failure has a fingerprint: where, which type of exception, on which line of the program. One that recurs
from the same checkpoint will come once more, unless something changes. The restart strategy decides how long
to try; this module counts failures, and decides when to report.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

SAME_FAILURES: Final = 3  # so many of one kind since the same checkpoint are reported


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What identifies a kind of failure: operator, type of exception, and line of the program."""

    operator: str  # name and uid; empty where it is not known
    kind: str  # the exception's type
    line: str  # file and line of the program, or else the text that names the place
    record: str = field(default="", compare=False)  # on which it failed; empty where it is not known
    uid: str = field(default="", compare=False)  # of the operator; empty where it is not known
    key: str = field(default="", compare=False)  # of the record, as JSON text; empty where it has none


@dataclass(frozen=True, slots=True)
class SameFailure:
    """A failure that occurred `times` times since checkpoint `since` completed; None: the job has none."""

    fingerprint: Fingerprint
    times: int
    since: int | None  # the checkpoint from which all of them came; None: there was none
    record: str = ""  # on which all of them failed; empty where they were several, or it is not known


class SameFailures:
    """Counts failures by fingerprint since the newest checkpoint; one per job, kept across restarts.

    `since` is its id (None: none yet), `repeating` the last failure counted `limit` times or more, or None.

    Example:
        >>> failures = SameFailures(since=4)
        >>> odd = Fingerprint("operator 'map' (uid 'm')", "ValueError", "job.py:7")
        >>> [failures.on_failure(odd) for _ in range(3)][-1]
        True
        >>> failures.repeating.times, failures.repeating.since
        (3, 4)
        >>> failures.on_checkpoint(5)
        >>> failures.repeating is None
        True
    """

    def __init__(self, since: int | None, limit: int = SAME_FAILURES) -> None:
        self._since, self._limit = since, limit
        self._times: dict[Fingerprint, int] = {}
        self._records: dict[Fingerprint, str] = {}
        self.repeating: SameFailure | None = None

    def on_failure(self, fingerprint: Fingerprint | None) -> bool:
        """Count a failed attempt; return whether to report it: at `limit` times, and at each doubling after.

        From `limit` times on the failure is in `repeating`. None identifies no failure, and is not counted.
        """
        if fingerprint is None:
            return False
        times = self._times[fingerprint] = self._times.get(fingerprint, 0) + 1
        if self._records.setdefault(fingerprint, fingerprint.record) != fingerprint.record:
            self._records[fingerprint] = ""
        if times < self._limit:
            return False
        self.repeating = SameFailure(fingerprint, times, self._since, self._records[fingerprint])
        ratio, rest = divmod(times, self._limit)
        return rest == 0 and ratio & (ratio - 1) == 0

    def on_checkpoint(self, checkpoint: int) -> None:
        """Clear counts and `repeating`, and count from `checkpoint`, which completed: the job got further."""
        self._since = checkpoint
        self._times.clear()
        self._records.clear()
        self.repeating = None

    def describe(self) -> tuple[Hashable, ...]:
        """Return the counts by fingerprint and the checkpoint they count from, as plain values: for tests."""
        return self._since, self.repeating, tuple(sorted(self._times.items(), key=str))
