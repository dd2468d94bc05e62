"""Replays one key of one operator from a snapshot; the program runs in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from headgate.common.errors import UsageError
from headgate.common.keys.key_text import key_text
from headgate.offline.inspecting import asked
from headgate.offline.replay.replay_report import ReplayReport, ReplayRequest
from headgate.offline.replay.to_failure import INSPECTOR
from headgate.offline.replay.unlike import unlike
from headgate.offline.storages import absolute, refuse_unreadable, storage_options

_SEED_VARIABLE: Final = "PYTHONHASHSEED"
_SEEDS: Final = (1, 2)


def replay(
    program: str | Path,
    uid: str,
    key: Hashable,
    snapshot: str,
    to: str | None = None,
    arguments: Sequence[str] = (),
    options: Sequence[str] = (),
    *,
    count: int | None = None,
    records: str | Path | None = None,
    save: str | Path | None = None,
    side_effects: bool = False,
    until_failure: bool = False,
    twice: bool = True,
    debug: bool = False,
    timeout_s: float | None = None,
) -> ReplayReport:
    """Run the operator `uid` of a program again on one key, from a snapshot on, and report each step.

    The input is read again from the positions that the snapshot has. Nothing is written: sinks do not run.

    Args:
        program: the Python file. It runs up to ``execute()`` in a process of its own and starts no job.
        uid: of a keyed operator.
        key: as the program's ``key_by`` gives it.
        snapshot: URI of the checkpoint or savepoint from which the state is taken; it is only read.
        to: URI of a later one of the same run: the replay stops where that was taken, and the states are
            compared. None: at the end of the input.
        arguments: those of the program.
        options: ``key=value`` settings; those of storages count for the snapshots, too.
        count: stop after so many records of the key; None: no limit.
        records: a file with a JSON value a line: records in place of a source that cannot go back.
        save: a file into which a test is written, with the state, the records and the output.
        side_effects: whether functions may run that reach outside of the job.
        until_failure: whether to go on, from checkpoint to checkpoint that is stored, until the function
            raises or the state is not as recorded; the report is of that stretch. Without `to` and `count`.
        twice: whether it is replayed again, in a process with another order of sets, and what differs is
            reported as :attr:`ReplayReport.unlike`.
        debug: whether Python's debugger opens in this terminal where the function is called for the key, and
            where it raises; then there is no second replay.
        timeout_s: bounds each of the replays; None: no limit.

    Raises:
        StorageError: a snapshot or the input cannot be read or trusted.
        UsageError: the program cannot be planned, does not fit the snapshot, or cannot be replayed.
    """
    if until_failure and (to is not None or count is not None):
        raise UsageError("a replay until failure has its own end; leave out where else it should stop")
    with storage_options(options):
        for uri in filter(None, (snapshot, to)):
            refuse_unreadable(uri)
        request: ReplayRequest = {
            "program": str(Path(program).absolute()),
            "uid": uid,
            "key": key_text(key),
            "snapshot": absolute(snapshot),
            "to": None if to is None else absolute(to),
            "count": count,
            "records": None if records is None else str(Path(records).absolute()),
            "save": None if save is None else str(Path(save).absolute()),
            "side_effects": side_effects,
            "until_failure": until_failure,
            "debug": debug,
        }

    def once(seed: int) -> ReplayReport:
        with _hash_seed(seed):
            return asked(ReplayReport, INSPECTOR, request, program, arguments, options, timeout_s)

    first = once(_SEEDS[0])
    return (
        msgspec.structs.replace(first, unlike=unlike(first, once(_SEEDS[1])))
        if twice and not debug
        else first
    )


@contextmanager
def _hash_seed(seed: int) -> Iterator[None]:
    # Processes that are started within the block hash text by this seed, and so order sets alike.
    before = os.environ.get(_SEED_VARIABLE)
    os.environ[_SEED_VARIABLE] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SEED_VARIABLE]
        else:
            os.environ[_SEED_VARIABLE] = before
