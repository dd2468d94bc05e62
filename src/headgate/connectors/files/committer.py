"""The committer of the files sink: renames prepared files to publish them, and removes abandoned ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from typing_extensions import override

from headgate.api.sink import Fork, SinkCommitter, SinkCommitterContext
from headgate.common.errors import OperatingError, UsageError
from headgate.common.files.durable import checksum, rename, sync, touch, unlink
from headgate.common.files.stored_paths import inside, unlinked
from headgate.connectors.files.file_names import (
    PENDING,
    TAKEN_BACK,
    Prepared,
    generation_of,
    held_by,
    held_mark,
    pending_folder,
    pending_path,
    safe,
)
from headgate.connectors.files.owner_log import OwnerLog
from headgate.connectors.files.part_file import remove, storage_error

_VISIBLE: Final = re.compile(r"(?:[^/.=][^/=]*=[^/=]+/)*[^/_.][^/]*", re.DOTALL)
"""Matches names of files, in the output directory or in folders of partitions, that readers do not skip."""

SUCCESS: Final = "_SUCCESS"
"""Name of the empty file that says that a job has ended well."""


class FilesCommitter(SinkCommitter[Prepared]):
    """Committer of a files sink, in the driver: renames pending files to their final names, durably.
    All names are relative to the output directory `root`, which may be moved between a savepoint and its
    restore. Which job may publish there is decided by the directory's :class:`OwnerLog`. `success_markers`:
    leave an empty file `_SUCCESS` at the end of the job, and remove it when more is published.
    """

    tells_commits = True
    takes_back = True

    def __init__(self, root: str, success_markers: bool = False) -> None:
        self._root, self._success_markers = Path(root), success_markers
        self._context: SinkCommitterContext | None = None
        self._kept: set[Path] = set()

    @override
    def begin(self, context: SinkCommitterContext) -> None:
        self._context = context

    @override
    def commit(self, committables: Sequence[Prepared]) -> None:
        # What another job has prepared is history: the job that restored the snapshot may publish that.
        own = [ready for ready in committables if self._is_own(ready)]  # all names, before anything is done
        owners = self._owners() if own else None
        first = False
        with self._storing():
            if owners is not None:
                first = owners.require()
            renamed = self._publish_all(committables)
            if owners is not None and renamed and not owners.owned:
                self._undo(ready for ready in renamed if self._is_own(ready))
                owners.require()
            self._remove_marks(renamed)
        if owners is not None and first:
            self._clear(self._folders_of_ancestors(owners), self._kept)

    @override
    def committed_after(self, context: SinkCommitterContext) -> str | None:
        owners = OwnerLog(self._root, context)
        with self._storing():
            missing, newer = owners.describe_missing(), owners.describe_newer()
        if missing is not None:
            raise UsageError(
                f"sink {context.uid!r} does not hold all that the snapshot builds on: {missing}; begin with "
                "execution.sinks.older-snapshot=take-back, which puts them back and takes back what came "
                "instead, or from another snapshot"
            )
        return newer

    @override
    def check_restore(
        self, context: SinkCommitterContext, committables: Sequence[Prepared], own: bool
    ) -> None:
        with self._storing():
            fenced = OwnerLog(self._root, context).fenced() if own else None
            lost = None if fenced is not None else self._first_lost(committables, own)
        if fenced is not None:
            raise UsageError(str(fenced))
        if lost is not None:
            raise UsageError(
                f"sink {context.uid!r} writes to {str(self._root)!r}, and {lost['pending']!r}, which the "
                "snapshot holds as output that may not be published yet, is not there as it was prepared; "
                "let the sink write where it did, move its whole output directory along, or begin from a "
                "snapshot that holds no such output"
            )

    def _first_lost(self, committables: Sequence[Prepared], own: bool) -> Prepared | None:
        # A file that was taken back (set aside) counts as present, unless the snapshot is this job's own.
        for ready in committables:
            final = self._final(ready)
            places = [final, self._pending(ready)]
            if not own:
                # What was taken back is restored first, or refused before.
                inner = final.relative_to(self._root)
                places += (folder / inner for folder in (self._root / TAKEN_BACK).glob("*/"))
            found = next((place for place in places if place.exists()), None)
            if found is None or found.stat().st_size != ready["size"]:
                return ready
        return None

    @override
    def take_back(self, context: SinkCommitterContext) -> None:
        owners = OwnerLog(self._root, context)
        with self._storing(TAKEN_BACK):
            missing = owners.missing()
            if not missing and not owners.newer():
                return
            aside = unlinked(self._root, TAKEN_BACK, safe(context.job))
            # From here on no other job of the lineage publishes, so that looking again sees everything.
            owners.seize()
            aside.mkdir(parents=True, exist_ok=True)
            moves = [(path, aside / path.relative_to(self._root)) for path in owners.newer()]
            taken = self._root / TAKEN_BACK
            for path in owners.missing():
                moves.append((path, Path(self._root, *path.relative_to(taken).parts[1:])))
            for path, to in moves:
                to.parent.mkdir(parents=True, exist_ok=True)
                rename(path, to)
            both = [path for move in moves for path in move]
            for folder in {aside, aside.parent, *self._folders_above(both)}:
                sync(folder)

    @override
    def hold(self, committables: Sequence[Prepared], savepoint: Fork) -> None:
        with self._storing(PENDING):
            held = [pending for ready in committables if (pending := self._pending(ready)).exists()]
            for pending in held:
                touch(_mark(pending, savepoint))
            for folder in {pending.parent for pending in held}:
                sync(folder)

    @override
    def release(self, committables: Sequence[Prepared], savepoint: Fork) -> None:
        with self._storing(PENDING):
            for ready in committables:
                unlink(_mark(self._pending(ready), savepoint), missing_ok=True)

    @override
    def abandon(self, committed_through: Sequence[Prepared]) -> None:
        keep = {self._pending(ready) for ready in committed_through}
        self._clear({self._own_folder()}, keep)
        owners = self._owners()
        with self._storing():
            mine = owners.owned
        if mine:
            self._clear(self._folders_of_ancestors(owners), keep)

    @override
    def finish(self) -> None:
        # Workers of a driver that was replaced write until they are ended, also after `abandon`.
        self._clear({self._own_folder()}, set())
        if self._success_markers:
            with self._storing():
                self._root.mkdir(parents=True, exist_ok=True)
                touch(self._root / SUCCESS)
                sync(self._root)

    @contextmanager
    def _storing(self, folder: str = "") -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise storage_error(self._root / folder, problem) from problem

    # -- publishing

    def _publish_all(self, committables: Sequence[Prepared]) -> list[Prepared]:
        if committables and self._success_markers:
            unlink(self._root / SUCCESS, missing_ok=True)
        renamed = [ready for ready in committables if self._publish(ready)]
        folders = {self._pending(ready).parent for ready in renamed}
        folders |= self._folders_above([self._final(ready) for ready in renamed])
        for folder in sorted(folders, key=lambda path: (len(path.parts), path), reverse=True):
            sync(folder)
        return renamed

    def _folders_above(self, paths: Iterable[Path]) -> set[Path]:
        return {above for path in paths for above in path.parents if above.is_relative_to(self._root)}

    def _publish(self, ready: Prepared) -> bool:
        """Check a pending file's size and checksum and rename it; return False if it was published before.
        OperatingError if the pending or published file is damaged, or neither of the two exists.
        """
        pending, final = self._pending(ready), self._final(ready)
        expected = (ready["size"], ready["crc32"])
        if final.exists():
            self._check_published(pending, final, ready)
            return False
        if not pending.exists():
            raise OperatingError(
                f"neither {str(pending)!r} nor {str(final)!r} exists but the checkpoint holds it; "
                "were files removed, or is the output directory on a disk that not every worker shares?"
            )
        found = checksum(pending)
        if found != expected:
            raise OperatingError(
                f"{str(pending)!r} has size, checksum {found}; expected {expected}; it is damaged and not "
                "published"
            )
        if final.parent != self._root:
            final.parent.mkdir(parents=True, exist_ok=True)
        rename(pending, final)
        return True

    def _check_published(self, pending: Path, final: Path, ready: Prepared) -> None:
        size = final.stat().st_size
        if size != ready["size"]:
            raise OperatingError(
                f"{str(final)!r} is published with {size} bytes; expected {ready['size']}; it was "
                "changed or cut short after it was written"
            )
        # A rename leaves no second name, so both are there only when the name was used before.
        if pending.exists() and checksum(final)[1] != ready["crc32"]:
            raise OperatingError(
                f"{str(final)!r} is published already with other bytes than {str(pending)!r}; was another "
                "job of the same id run here, and its checkpoints removed? move the old files away"
            )
        remove(pending)

    def _remove_marks(self, renamed: Sequence[Prepared]) -> None:
        # By these marks savepoints held the files, which are published for good now.
        published = {self._pending(ready) for ready in renamed}
        for folder in {pending.parent for pending in published}:
            for path in folder.glob("*"):
                held = held_by(path.name)
                if held is not None and folder / held in published:
                    remove(path)

    def _undo(self, renamed: Iterable[Prepared]) -> None:
        undone = [(self._final(ready), self._pending(ready)) for ready in renamed]
        for final, pending in undone:
            # The job that takes output back may have been faster.
            with suppress(FileNotFoundError):
                rename(final, pending)
        for folder in self._folders_above([final for final, _ in undone]) | {self._root}:
            sync(folder)

    # -- whose files

    def _pending(self, ready: Prepared) -> Path:
        return pending_path(self._root, ready["pending"])

    def _final(self, ready: Prepared) -> Path:
        return inside(self._root, ready["final"], "an output file", _VISIBLE)

    def _begun(self) -> SinkCommitterContext:
        if self._context is None:
            raise OperatingError(f"the committer of {str(self._root)!r} is used before it has begun")
        return self._context

    def _owners(self) -> OwnerLog:
        return OwnerLog(self._root, self._begun())

    def _own_folder(self) -> str:
        return f"{PENDING}/{pending_folder(self._begun().job, self._begun().uid)}"

    def _is_own(self, ready: Prepared) -> bool:
        return self._pending(ready).parent == self._root / self._own_folder()

    def _folders_of_ancestors(self, owners: OwnerLog) -> set[str]:
        # The jobs that this one descends from publish nothing more.
        uid, own = self._begun().uid, self._own_folder()
        return {f"{PENDING}/{pending_folder(fork.job, uid)}" for fork in owners.ancestors} - {own}

    def _clear(self, folders: set[str], keep: set[Path]) -> None:
        # Files held by savepoints, and those that writers of a later driver have made, stay, too.
        own, generation = self._own_folder(), self._begun().generation
        for folder in sorted(folders):
            paths = self._pending_in(folder)
            names = {path.name for path in paths}
            held = {held_by(name) for name in names}
            for path in paths:
                marked = held_by(path.name)
                later = folder == own and generation_of(path.name) > generation
                # A mark is removed with its file; after a crash it may be there without the file.
                stays = marked in names if marked is not None else path.name in held or path in keep
                if not stays and not later:
                    remove(path)

    def _pending_in(self, folder: str) -> list[Path]:
        place = unlinked(self._root, folder)
        try:
            return sorted(place.iterdir())
        except FileNotFoundError:
            return []
        except OSError as problem:
            raise storage_error(place, problem) from problem


def _mark(pending: Path, savepoint: Fork) -> Path:
    which = f"{savepoint.job}/{savepoint.generation}/{savepoint.attempt}/{savepoint.checkpoint}"
    return pending.with_name(held_mark(pending.name, which))
