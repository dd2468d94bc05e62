"""Whether a changed program can go on from a snapshot, asked before the running job is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headgate.offline.inspecting import asked
from headgate.offline.report import UpgradeReport
from headgate.offline.storages import absolute, refuse_unreadable, storage_options

_INSPECTOR = "headgate.offline.judging:inspect"


def check_upgrade(
    snapshot: str,
    program: str | Path,
    arguments: Sequence[str] = (),
    options: Sequence[str] = (),
    *,
    allow_non_restored: bool = False,
    timeout_s: float = 60.0,
) -> UpgradeReport:
    """What becomes of every state of a snapshot, and of every state of a program, should it go on from there.

    The program runs up to ``execute()`` in a process of its own; no job is started, and the snapshot is only
    read.

    Args:
        snapshot: path or URI of a checkpoint or savepoint.
        program: path of a Python file.
        arguments: the program's own.
        options: ``key=value`` settings, as behind ``-D``; those of storages count for the snapshot, too.
        allow_non_restored: whether state that the program lacks may be left behind.
        timeout_s: how long it may take.

    Raises:
        StorageError: the snapshot cannot be read or trusted.
        UsageError: the program cannot be planned; says why.
    """
    with storage_options(options):
        refuse_unreadable(snapshot)
        request = {
            "snapshot": absolute(snapshot),
            "program": str(program),
            "allow_non_restored": allow_non_restored,
        }
    return asked(UpgradeReport, _INSPECTOR, request, program, arguments, options, timeout_s)
