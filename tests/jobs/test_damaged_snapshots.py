"""Every file of real checkpoints and savepoints, damaged: refused by file and offset; nothing starts or goes.

One bit of a byte is flipped at sampled positions, and files are cut at sampled lengths. The message names the
file and where in it the damage shows, and offers the next older checkpoint that is whole.
"""

from __future__ import annotations

import atexit
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import pytest
from everything_job import Everything, Plain, came

from headgate.checkpoint.data_files import verify_handle
from headgate.checkpoint.metadata.metadata_bytes import decode_metadata
from headgate.checkpoint.opening import open_checkpoint, referenced_ranges
from headgate.checkpoint.storage.memory import MemoryDisk
from headgate.checkpoint.store.entries import decode_entry
from headgate.checkpoint.verifying import verify
from headgate.common.errors import DamagedFileError
from headgate.state.snapshots import FileRange

ALL_KINDS = ["heap", "changelog", "rocksdb", "incremental"]
OFFER = "the next older checkpoint that is complete: --from "
SETTINGS = {"execution.checkpointing.num-retained": 3, "execution.checkpointing.data-inline-threshold": "0b"}


class Watching(Plain):
    """Tells whether it was ever opened."""

    opened: ClassVar[list[str]] = []

    def open(self, ctx: Any) -> None:
        Watching.opened.append("opened")


@dataclass(frozen=True)
class Drawn:
    """What a job has left: three checkpoints, and a savepoint of each format."""

    folder: Path
    job: Path
    canonical: Path
    native: Path

    @property
    def newest(self) -> Path:
        return self.checkpoints[0]

    @property
    def checkpoints(self) -> list[Path]:
        """Folders, the newest first."""
        return sorted(self.job.glob("chk-*"), key=lambda path: -int(path.name[4:]))

    def restored(self, backend: str, uri: Path) -> None:
        """Begin a job from it."""
        job = Everything(self.folder, backend, function=Watching, **SETTINGS)
        job.env.execute("everything", restore_from=str(uri))


@cache
def drawn(backend: str) -> Drawn:
    """By one job for all tests, which put back what they damage."""
    folder = Path(mkdtemp(prefix="headgate-damage-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    job = Everything(folder, backend, function=Watching, limit=2, **SETTINGS)
    with job.env.execute_async("everything") as handle:
        came(handle, 2 * 2 + 2)
        handle.checkpoint()
        for limit in (8, 16):
            job.valves[0].open_to(limit)
            came(handle, 2 * limit + 2)
            handle.checkpoint()
        uris = [handle.savepoint(str(folder / "sp"), format=form) for form in ("canonical", "native")]
        handle.cancel()
    assert Watching.opened  # so that a test which finds none has something to tell
    canonical, native = (Path(unquote(urlsplit(uri).path)) for uri in uris)
    (job_folder,) = [each for each in (folder / "checkpoints").iterdir() if each.name[0] != "."]
    return Drawn(folder, job_folder, canonical, native)


@pytest.fixture(params=["heap", *(pytest.param(name, marks=pytest.mark.ci) for name in ALL_KINDS[1:])])
def kind(request: pytest.FixtureRequest) -> str:
    """Where the state was."""
    return str(request.param)


def path_of(disk: Any, item: FileRange) -> Path:
    """The file that a range is of."""
    return Path(unquote(urlsplit(disk.describe(item.file)).path))


def pieces(snapshot: Path) -> Iterator[tuple[Path, int, int]]:
    """Every piece of a file that a snapshot is made of, and the entries of the log that names it."""
    files = [snapshot / "_metadata", *sorted((snapshot.parent / "log").glob("*"))]
    yield from ((path, 0, path.stat().st_size) for path in files)
    disk, metadata = open_checkpoint(str(snapshot))
    for item in dict.fromkeys(referenced_ranges(metadata)):
        if item.length:
            yield path_of(disk, item), item.offset, item.offset + item.length


def sampled(start: int, stop: int, samples: int) -> list[int]:
    """Positions from the first to the last."""
    step = max(1, (stop - start) // samples)
    return sorted({*range(start, stop, step), stop - 1})


def flipped(whole: bytes, at: int) -> bytes:
    """With another bit at `at`."""
    return whole[:at] + bytes((whole[at] ^ 1 << at % 8,)) + whole[at + 1 :]


def damages(whole: bytes, start: int, stop: int, samples: int) -> Iterator[tuple[bytes, int]]:
    """Damaged bytes and where the damage is: `samples` flipped bytes, a third as many lengths."""
    for at in sampled(start, stop, samples):
        yield flipped(whole, at), at
    for at in sampled(start, stop, max(1, samples // 3)):
        yield whole[:at], at


def demand_place(text: str, uri: str, at: int) -> None:
    """The message names the file, and bytes of it that hold the damage."""
    assert uri in text, text
    said = text[text.index(uri) + len(uri) :]
    ranges = [(int(a), int(b)) for a, b in re.findall(r"bytes (\d+) to (\d+)", said)]
    single = [int(found) for found in re.findall(r"byte (\d+)", said)]
    assert at in single or any(first <= at < behind for first, behind in ranges), (at, text)


def demand_offer(text: str, older: list[Path], sound: list[Path]) -> None:
    """The newest of the older ones that a verification finds to be whole, or that there is none."""
    if sound:
        assert text.endswith(f"{OFFER}{sound[0].as_uri()}"), text
    else:
        assert text.endswith(f"none of the older checkpoints ({len(older)}) is complete"), text


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def sweep(snapshot: Path, samples: int, refuse: Callable[[Path, int, bool], None]) -> int:
    """Damage each piece in turn and put it back; gives how many damages were tried."""
    tried = 0
    for path, start, stop in pieces(snapshot):
        whole, of_log = path.read_bytes(), path.parent.name == "log"
        try:
            for damaged, at in damages(whole, start, stop, samples):
                path.write_bytes(damaged)
                refuse(path, at, of_log)
                tried += 1
        finally:
            path.write_bytes(whole)
    return tried


@pytest.mark.ci
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_every_file_of_a_checkpoint(kind: str) -> None:
    """By its folder, and by its job's folder where the log is damaged; older ones are read before offered."""
    made = drawn(kind)
    before, older = contents(made.folder), made.checkpoints[1:]
    # A file is damaged for the older ones that need it wherever it is.
    sound = cache(lambda path: [each for each in older if verify(str(each)).clean])

    def refuse(path: Path, at: int, of_log: bool) -> None:
        with pytest.raises(DamagedFileError) as caught:
            open_checkpoint(str(made.job if of_log else made.newest), whole=True)
        demand_place(str(caught.value), path.as_uri(), at)
        if not of_log:
            demand_offer(str(caught.value), older, sound(path))
        else:
            assert f"{OFFER}{made.job.as_uri()}/chk-" in str(caught.value) or "no older" in str(caught.value)

    samples = 1 if kind == "incremental" else 3  # of many files of three checkpoints
    assert sweep(made.newest, samples, refuse) >= 2 * len([*pieces(made.newest)])
    assert contents(made.folder) == before


@pytest.mark.parametrize("form", ["canonical", "native"])
@pytest.mark.ci
def test_every_file_of_a_savepoint(kind: str, form: str) -> None:
    """A savepoint stands by itself, and the message says so."""
    made = drawn(kind)
    snapshot: Path = getattr(made, form)

    def refuse(path: Path, at: int, of_log: bool) -> None:
        with pytest.raises(DamagedFileError, match="a savepoint stands by itself: begin from") as caught:
            open_checkpoint(str(snapshot), whole=True)
        demand_place(str(caught.value), path.as_uri(), at)

    assert sweep(snapshot, 3, refuse) >= 2 * len([*pieces(snapshot)])


@pytest.mark.proof
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_every_byte_of_metadata_and_log_and_200_of_each_piece(kind: str) -> None:
    """Each by its own reader, which is the only way to what it reads."""
    made = drawn(kind)
    for path in (made.newest / "_metadata", made.canonical / "_metadata", made.native / "_metadata"):
        check_each(path, lambda data, path: decode_metadata(data, path.as_uri()))
    for path in (made.job / "log").glob("*"):
        check_each(path, lambda data, path: decode_entry(data, path.as_uri()))
    memory = MemoryDisk(f"damage-{kind}")
    for snapshot in (made.newest, made.canonical, made.native):
        disk, metadata = open_checkpoint(str(snapshot))
        for item in dict.fromkeys(referenced_ranges(metadata)):
            whole = path_of(disk, item).read_bytes()
            for damaged, at in damages(whole, item.offset, item.offset + item.length, 200):
                memory.create(item.file, [damaged])
                with pytest.raises(DamagedFileError) as caught:
                    verify_handle(memory, item)
                demand_place(str(caught.value), memory.describe(item.file), at)
    memory.forget()


def check_each(path: Path, read: Callable[[bytes, Path], Any]) -> None:
    """Every byte flipped, and every length."""
    whole = path.read_bytes()
    read(whole, path)
    for at in range(len(whole)):
        for damaged in (flipped(whole, at), whole[:at]):
            with pytest.raises(DamagedFileError) as caught:
                read(damaged, path)
            demand_place(str(caught.value), path.as_uri(), at)


def test_no_job_starts_from_a_damaged_one(kind: str) -> None:
    """Told to begin from it, a job refuses before any operator is opened, and changes no file."""
    made = drawn(kind)
    for snapshot in (made.newest, made.canonical, made.native):
        for path, start, stop in {path: piece for piece in pieces(snapshot) for path in piece[:1]}.values():
            whole = path.read_bytes()
            at = (start + stop) // 2
            path.write_bytes(flipped(whole, at))
            before = contents(made.folder)
            Watching.opened.clear()
            with pytest.raises(DamagedFileError) as caught:
                made.restored(kind, made.job if path.parent.name == "log" else snapshot)
            demand_place(str(caught.value), path.as_uri(), at)
            assert Watching.opened == []
            assert contents(made.folder) == before
            path.write_bytes(whole)


def test_several_damaged_in_a_row(kind: str) -> None:
    """The one that is offered is whole, however many before it are not; at last there is none."""
    made = drawn(kind)
    whole = {path: (path / "_metadata").read_bytes() for path in made.checkpoints}
    newest, second, oldest = made.checkpoints
    for damaged, said in (
        ([newest], f"{OFFER}{second.as_uri()}"),
        ([newest, second], f"{OFFER}{oldest.as_uri()}"),
        ([newest, second, oldest], "none of the older checkpoints (2) is complete"),
    ):
        for path in damaged:
            (path / "_metadata").write_bytes(whole[path][:-1])
        for place in (newest, made.job):
            with pytest.raises(DamagedFileError) as caught:
                open_checkpoint(str(place), whole=True)
            assert str(caught.value).endswith(said), place
        if oldest in damaged:
            with pytest.raises(DamagedFileError, match=r"there is no older checkpoint$"):
                open_checkpoint(str(oldest))
        for path, data in whole.items():
            (path / "_metadata").write_bytes(data)
