"""Gives quarantined records to their operator again; the program runs in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from headgate.connectors.quarantine.quarantined_records import Kept
from headgate.offline.inspecting import asked
from headgate.offline.replay.quarantined_report import QuarantineReport, QuarantineRequest
from headgate.offline.storages import absolute, refuse_unreadable, storage_options

INSPECTOR: Final = "headgate.offline.replay.quarantined_in_program:inspect"


def replay_quarantined(
    program: str | Path,
    uid: str,
    records: Sequence[Kept],
    snapshot: str | None = None,
    arguments: Sequence[str] = (),
    options: Sequence[str] = (),
    *,
    side_effects: bool = False,
    timeout_s: float | None = None,
) -> QuarantineReport:
    """Run the operator `uid` of a program on records of its quarantine, one after the other, and report each.

    Nothing is written. A record that fails again leaves nothing behind for the next one, as in a job.

    Args:
        program: the Python file. It runs up to ``execute()`` in a process of its own and starts no job.
        uid: of the operator.
        records: from the quarantine, in order.
        snapshot: URI of the checkpoint or savepoint from which the state of keys is taken; it is only read.
            None for an operator without keys.
        arguments: those of the program.
        options: ``key=value`` settings; those of storages count for the snapshot, too.
        side_effects: whether a function may run that reaches outside of the job.
        timeout_s: bounds it; None: no limit.

    Raises:
        StorageError: the snapshot cannot be read or trusted.
        UsageError: the program cannot be planned, does not fit the snapshot, or has no such operator.
    """
    with storage_options(options):
        if snapshot is not None:
            refuse_unreadable(snapshot)
        request: QuarantineRequest = {
            "uid": uid,
            "records": msgspec.to_builtins(list(records)),
            "snapshot": None if snapshot is None else absolute(snapshot),
            "side_effects": side_effects,
        }
    return asked(QuarantineReport, INSPECTOR, request, program, arguments, options, timeout_s)
