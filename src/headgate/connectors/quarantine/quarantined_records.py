"""Records in a quarantine's files, and which of them somebody has dealt with.

The files are committed output, and are never changed. A record's id is made of its file's name and its line,
which both stay. Ids that are dealt with lie beside the files, below `_discarded`: a new file for each time,
so that two who do it at once lose nothing.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from headgate.api.on_error import QUARANTINE_FOLDER
from headgate.common.decoders import UNDECODABLE, json_decoder
from headgate.common.errors import StorageError, UsageError
from headgate.common.files import durable, durable_file
from headgate.common.files.folder_names import name_of_folder
from headgate.serde.codecs.dynamic import decode_tagged

DISCARDED: Final = "_discarded"
"""Name of the folder, beside the files, with ids that are dealt with; sources of files skip such names."""

_NOT_COMMITTED: Final = frozenset({"_pending", "_taken_back"})  # where a sink of files has such ones


class Kept(msgspec.Struct, frozen=True):
    """A record as it lies in a quarantine: the fields of `Quarantined`, which are written there, and its id,
    the name of its job, its file, and whether somebody has dealt with it.
    """

    operator: str
    subtask: int
    attempt: int
    failed_ms: int
    kind: str
    message: str
    line: str
    traceback: str
    key: str | None
    record: str | None
    timestamp: int | None
    timer: bool
    data: str | None
    source: str | None = None
    split: str | None = None
    position: str | None = None
    skip: int | None = None
    held: bool = False
    id: str = ""
    job: str = ""
    file: str = ""
    discarded: bool = False

    @property
    def to_feed(self) -> bool:
        """Whether a source gives it: it is a record, not dealt with, and its operator does not hold it."""
        return not (self.timer or self.discarded or self.held)

    def value(self) -> Any:
        """Return the record itself, as plain values; UsageError: it has no stored form, or is a timer."""
        if self.timer or self.data is None:
            what = "a timer" if self.timer else f"of a type that has no stored form ({self.record})"
            raise UsageError(
                f"record {self.id} in {self.file} is {what}, and cannot be fed to a function again; leave it "
                "out, or discard it"
            )
        return decode_tagged(base64.b64decode(self.data))


def kept_in(place: Path, operator: str | None = None, job: str | None = None) -> Iterator[Kept]:
    """Yield the records in the quarantines below a folder: of one operator by its uid, and of one job by its
    name, or all. Those of a subtask come in the order in which they failed.

    Raises:
        UsageError: there is no such folder.
        StorageError: a file cannot be read.
    """
    for path, named in files_in(place):
        if job in (None, named):
            for kept in read_file(path, named):
                if operator in (None, kept.operator):
                    yield kept


def files_in(place: Path) -> list[tuple[Path, str]]:
    """Return the files of the quarantines below a folder with the names of their jobs, oldest first.
    UsageError: there is no such folder.
    """
    if not place.is_dir():
        raise UsageError(f"there is no folder {place}; name the checkpoint directory, or quarantine.dir")
    root = place / QUARANTINE_FOLDER if (place / QUARANTINE_FOLDER).is_dir() else place
    found = []
    for path in sorted(root.rglob("part-*.jsonl")):
        inside = path.relative_to(root).parts[:-1]
        # Names of jobs and operators may begin with "_" or ".", too.
        if not _NOT_COMMITTED.intersection(inside):
            # A job's folder has those of its operators; `place` may be any of these.
            folders = "/".join(inside[:-1]) or path.resolve().parent.parent.name
            found.append((path, name_of_folder(folders)))
    return sorted(found, key=lambda each: _began(each[0]))


def _began(path: Path) -> int:
    first = next(iter(read_file(path)), None)
    return 0 if first is None else first.failed_ms


def read_file(path: Path, job: str = "") -> list[Kept]:
    """Return the records of one file; StorageError: it is none of a quarantine."""
    decoder, gone = json_decoder(Kept), _discarded(path.parent)
    found = []
    for number, line in enumerate(durable.read_bytes(path).splitlines(), 1):
        try:
            kept = decoder.decode(line)
        except UNDECODABLE as error:
            raise StorageError(
                f"{path}, line {number}, is no quarantined record ({error}); it is damaged, or no file "
                "of a quarantine"
            ) from None
        known = hashlib.blake2b(f"{path.name}:{number}".encode(), digest_size=6).hexdigest()
        found.append(
            msgspec.structs.replace(kept, id=known, job=job, file=str(path), discarded=known in gone)
        )
    return found


def _discarded(folder: Path) -> set[str]:
    ids: set[str] = set()
    decoder = json_decoder(list[str])
    for path in sorted((folder / DISCARDED).glob("*.json")):
        try:
            ids.update(decoder.decode(durable.read_bytes(path)))
        except UNDECODABLE as error:
            raise StorageError(f"{path} is no list of discarded records ({error}); it is damaged") from None
    return ids


def discard(records: Sequence[Kept]) -> int:
    """Note that these records are dealt with, durably; return how many were not before."""
    fresh = [each for each in records if not each.discarded]
    for folder in sorted({Path(each.file).parent for each in fresh}):
        ids = sorted(each.id for each in fresh if Path(each.file).parent == folder)
        name = f"{time.time_ns() // 1_000_000}-{durable.token(6)}.json"
        durable_file.create_new(folder / DISCARDED / name, [msgspec.json.encode(ids)], folders=2)
    return len(fresh)
