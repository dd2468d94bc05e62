"""A snapshot for another number of key groups. Without a program every value stays what it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headgate.offline.migrating import migrate
from headgate.offline.rewriting import Change, Progress, Rewritten, rewrite
from headgate.offline.storages import storage_options
from headgate.state.stored.values import PlainValues


def reslice(
    snapshot: str,
    target: str,
    max_parallelism: int,
    form: str | None = None,
    progress: Progress | None = None,
    *,
    program: str | Path | None = None,
    arguments: Sequence[str] = (),
    options: Sequence[str] = (),
) -> Rewritten:
    """Write a snapshot again as a savepoint with another number of key groups.

    It is what lets a job run at a parallelism above the number that it began with. Keyed state and timers
    are written anew; all else is copied. Memory stays bounded: what does not fit goes through the disk for
    temporary files.

    A program is needed where values cannot be told apart without it: those of a serializer of its own outside
    tables, and those of older types in RocksDB's files. They are written as it declares them then, as by
    :func:`headgate.offline.migrating.migrate`.

    Args:
        snapshot: path or URI of a checkpoint or savepoint; it is only read.
        target: path or URI of a folder that is empty or not there.
        max_parallelism: the new number of key groups.
        form: "canonical" or "native"; None: that of a savepoint stays, a checkpoint becomes a native one.
        progress: is told what is done, how much of it, and of how much.
        program: path of a Python file; None: none is needed.
        arguments: the program's own.
        options: ``key=value`` settings, as behind ``-D``; those of storages count for both places, too.

    Raises:
        UsageError: it cannot be done with this snapshot; says why.
        StorageError: the snapshot is damaged, or a disk refused.
    """
    if program is not None:
        return migrate(
            snapshot,
            target,
            program,
            arguments,
            options,
            max_parallelism=max_parallelism,
            form=form,
            progress=progress,
        )
    with storage_options(options):
        return rewrite(snapshot, target, _Resliced(max_parallelism), form, progress)


class _Resliced(Change):
    def __init__(self, max_parallelism: int) -> None:
        self.max_parallelism = max_parallelism

    def values(self, uid: str) -> PlainValues:
        return PlainValues()
