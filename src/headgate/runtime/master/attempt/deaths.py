"""Workers whose connection ended: who runs them may say why in a moment, then all that is known is told."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headgate.common.errors import OperatingError
from headgate.common.process.processes import oom_kills, process_lives
from headgate.runtime.job.black_box import Remains, has_words, remains_of
from headgate.runtime.master.attempt.members import Member

_SLOT: Final = re.compile(r"\b(?:slot|worker) (\d+)\b")
ENDED_WHERE: Final = "where it ended, innermost first:"
"""Heading of the stack in what is told of a lost worker."""

UNEXPLAINED_END: Final = ": killed by a signal, out of memory, or stopped by itself"
"""End of a reason by somebody who saw a process end and not why; the process's own words say more."""

_FATAL: Final[Mapping[str, str]] = {
    "Fatal Python error: Aborted": "SIGABRT",
    "Fatal Python error: Bus error": "SIGBUS",
    "Fatal Python error: Floating point exception": "SIGFPE",
    "Fatal Python error: Illegal instruction": "SIGILL",
    "Fatal Python error: Segmentation fault": "SIGSEGV",
}

WORDS_WAIT_S: Final = 1.5
"""How long a process that is reported lost, and lives, may take to say why it ends."""


@dataclass(frozen=True, slots=True)
class _Lost:
    slot: int
    member: Member | None
    reason: str


class Deaths:
    """Used by the job master's loop; how long a reason is waited for is decided by the job's machine."""

    def __init__(self) -> None:
        self._lost = list[_Lost]()
        self._left: list[tuple[_Lost, Remains]] = []
        self._kills = oom_kills()

    def suspect(self, slot: int, member: Member | None, reason: str) -> None:
        """The connection to a worker ended."""
        self._lost.append(_Lost(slot, member, reason))

    def forget(self) -> None:
        """What comes now is about another gang, or told already; what workers have left is removed."""
        for lost in self._lost:
            remains_left(lost.member)
        self._lost.clear()

    def collect(self, members: Sequence[Member], gang_said: str | None) -> None:
        """The gang has ended: what these have left is taken up, whatever their end was.

        `gang_said` is why, by who runs the gang; None where its end was in order.
        """
        named = None if gang_said is None else _SLOT.search(gang_said)
        for member in members:
            if named is not None and member.register.slot == int(named[1]):
                _await_words(member)
        self._left = [
            (_Lost(member.register.slot, member, "its gang ended"), remains_left(member))
            for member in members
        ]

    def gang_ended(self, gang_said: str) -> OperatingError:
        """Why a gang ended, by the worker that was the cause, where it can be told which one that was."""
        suspected = bool(self._lost)
        found = [(lost, remains_left(lost.member)) for lost in self._lost] + self._left
        named = _SLOT.search(gang_said)
        slot = None if named is None else int(named[1])
        known = suspected or any(remains.words or lost.slot == slot for lost, remains in found)
        if not known:
            self._lost.clear()
            return OperatingError(f"the gang of workers ended: {gang_said}")
        return self._told(found, gang_said, slot)

    def told(self) -> OperatingError:
        """Why the first of them died, as far as it is known; nobody has said why the gang ended."""
        return self._told([(lost, remains_left(lost.member)) for lost in self._lost], None, None)

    def _told(
        self, found: Sequence[tuple[_Lost, Remains]], gang_said: str | None, slot: int | None
    ) -> OperatingError:
        self._lost.clear()
        # Of several the one is the cause that left words: the others were ended because of it.
        spoke = [each for each in found if each[1].words]
        lost, remains = (spoke or [each for each in found if each[0].slot == slot] or found)[0]
        return OperatingError(
            told_death(lost.slot, lost.member, lost.reason, gang_said, remains, self._oom())
        )

    def lapsed(self, slot: int, member: Member | None, timeout_ms: int) -> OperatingError:
        """No heartbeat came from a worker for too long."""
        remains = remains_left(member)
        reason = f"no heartbeat came for {timeout_ms} ms"
        return OperatingError(told_death(slot, member, reason, None, remains, self._oom()))

    def _oom(self) -> bool:
        before, self._kills = self._kills, oom_kills()
        return before is not None and self._kills is not None and self._kills > before


def told_death(
    slot: int, member: Member | None, reason: str, gang_said: str | None, remains: Remains, oom: bool
) -> str:
    """One text of everything that is known."""
    who = f"the worker of slot {slot}"
    if member is not None:
        who += f" (process {member.register.pid} on {member.register.host})"
    words, _, stack = remains.words.partition(", in\n")
    if words and gang_said is not None and gang_said.endswith(UNEXPLAINED_END):
        signal = _FATAL.get(words)
        gang_said = gang_said.removesuffix(UNEXPLAINED_END) + (f": killed by {signal}" if signal else "")
    causes = "; ".join(cause for cause in (gang_said, words) if cause)
    told = [f"{who} was lost: {causes or reason}"]
    if oom:
        told.append("the kernel has killed a process of this container meanwhile for want of memory")
    elif not causes:
        told.append("it left no word, as after `kill -9` or when the kernel runs out of memory")
    if remains.at_work:
        told.append(f"it was at work for {remains.at_work}")
    if member is not None and member.rss_bytes:
        told.append(f"at its last heartbeat it used {member.rss_bytes / 2**20:,.0f} MB of memory")
    parts = ["; ".join(told)]
    parts += [f"{ENDED_WHERE}\n{stack}"] if stack else []
    parts += [f"its last lines on standard error:\n{remains.errors}"] if remains.errors else []
    return "\n".join(parts)


def _await_words(member: Member) -> None:
    """Who runs a worker may find it lost before it has found out itself why it must end."""
    pid, box = member.register.pid, member.register.box
    if not box or member.register.host != platform.node():
        return
    until = time.monotonic() + WORDS_WAIT_S
    while process_lives(pid) and not has_words(box) and time.monotonic() < until:
        time.sleep(0.02)


def remains_left(member: Member | None) -> Remains:
    """What a worker has left, which is removed; else what its last heartbeat told."""
    if member is None:
        return Remains()
    found = None
    if member.register.box and member.register.host == platform.node():
        found = remains_of(member.register.box)
    return found or _at_work(member)


def _at_work(member: Member) -> Remains:
    still = "; ".join(
        f"{each.operator}, subtask {each.subtask}, in\n{each.stack}" for each in member.standstills
    )
    return Remains(at_work=still)
