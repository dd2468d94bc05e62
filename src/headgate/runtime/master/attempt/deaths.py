"""Explains the death of a worker process, from all that it and its launcher left behind."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Mapping
from typing import Final

from headgate.common.process.processes import process_lives
from headgate.runtime.job.black_box import Remains, has_words, remains_of
from headgate.runtime.master.attempt.members import Member

_SLOT: Final = re.compile(r"\b(?:slot|worker) (\d+)\b")
ENDED_WHERE: Final = "where it ended, innermost first:"  # heading of the stack of a lost worker
UNEXPLAINED_END: Final = ": killed by a signal, out of memory, or stopped by itself"
"""End of a launcher's reason if a process ended for an unknown cause, which its black box may have."""

_FATAL: Final[Mapping[str, str]] = {
    "Fatal Python error: Aborted": "SIGABRT",
    "Fatal Python error: Bus error": "SIGBUS",
    "Fatal Python error: Floating point exception": "SIGFPE",
    "Fatal Python error: Illegal instruction": "SIGILL",
    "Fatal Python error: Segmentation fault": "SIGSEGV",
}

WORDS_WAIT_S: Final = 1.5  # how long a lost process that still lives may take to record why it exits


def death_text(
    slot: int, member: Member | None, reason: str, gang: str | None, remains: Remains, oom: bool
) -> str:
    """Return one text, for the job's error, with all that is known about the death of `slot`'s worker.
    `reason`: why it counts as lost, told if nothing better is known; `gang`: the launcher's reason;
    `remains`: its black box; `oom`: whether the kernel killed a process of this container for want of memory.
    """
    who = f"the worker of slot {slot}"
    if member is not None:
        who += f" (process {member.register.pid} on {member.register.host})"
    words, _, stack = remains.words.partition(", in\n")
    if words and gang is not None and gang.endswith(UNEXPLAINED_END):
        signal = _FATAL.get(words)
        gang = gang.removesuffix(UNEXPLAINED_END) + (f": killed by {signal}" if signal else "")
    causes = "; ".join(cause for cause in (gang, words) if cause)
    facts = [f"{who} was lost: {causes or reason}"]
    if oom:
        facts.append("the kernel has killed a process of this container meanwhile for want of memory")
    elif not causes:
        facts.append("it left no word, as after `kill -9` or when the kernel runs out of memory")
    if remains.at_work:
        facts.append(f"it was at work for {remains.at_work}")
    if member is not None and member.beat is not None and member.beat.rss_bytes:
        facts.append(f"at its last heartbeat it used {member.beat.rss_bytes / 2**20:,.0f} MB of memory")
    parts = ["; ".join(facts)]
    parts += [f"{ENDED_WHERE}\n{stack}"] if stack else []
    parts += [f"its last lines on standard error:\n{remains.errors}"] if remains.errors else []
    return "\n".join(parts)


def slot_named(reason: str) -> int | None:
    found = _SLOT.search(reason)
    return None if found is None else int(found[1])


def await_words(member: Member) -> None:
    """Block, 1.5 s at most, until a worker is dead or its box says why it exits; if remote return at once."""
    pid, box = member.register.pid, member.register.box
    if not box or member.register.host != platform.node():
        return
    until = time.monotonic() + WORDS_WAIT_S
    while process_lives(pid) and not has_words(box) and time.monotonic() < until:
        time.sleep(0.02)


def remains_left(member: Member | None) -> Remains:
    """Return what a lost worker left, from its black box (crash report file on this host), which is deleted.
    Without a box: the calls of user code that it last reported as blocked. `member` None: nothing.
    """
    if member is None:
        return Remains()
    if member.register.box and member.register.host == platform.node():
        found = remains_of(member.register.box)
        if found is not None:
            return found
    still = [f"{each.operator}, subtask {each.subtask}, in\n{each.stack}" for each in member.standstills]
    return Remains(at_work="; ".join(still))
