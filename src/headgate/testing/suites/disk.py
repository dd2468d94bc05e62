"""The conformance suite of disks, the storages of checkpoints, as tests that a class inherits."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import pytest

from headgate.checkpoint.storage.reachability import probe
from headgate.checkpoint.storage.storage_contract import KeepsTemporaries, RandomAccess
from headgate.common.errors import StorageError

if TYPE_CHECKING:  # the contract of disks is internal, and no part of what the test kit offers
    from headgate.common.ports import Disk

MEGABYTE = 1024 * 1024

LARGE_MB = 64
"""Size (MB) of a file that storages upload or buffer in several pieces."""

WRITERS = 8

_FOLDERS = itertools.count()


class DiskSuite:
    """Tests of a disk (a storage of checkpoints); inherit from it under a name that pytest collects.

    One hook is needed, `new_disk`: another way to the same files at every call. Every test works in a folder
    of its own, so the files may stay from one test to the next.

    Example:
        >>> from headgate.checkpoint.storage.memory import MemoryDisk
        >>> class TestMemory(DiskSuite):
        ...     def new_disk(self):
        ...         return MemoryDisk("example")
        >>> len([name for name in dir(TestMemory) if name.startswith("test_")]) > 10
        True
    """

    refuses_bad_names: ClassVar[bool] = True
    """Whether the disk refuses names that lead out of its root; a simulated disk has no outside."""

    takes_threads: ClassVar[bool] = True
    """Whether several threads may use disks at once; a simulation has only one thread."""

    removes_what_it_gave_up: ClassVar[bool] = True
    """Whether a failed write removes its unfinished file before it raises; else a sweep removes it later."""

    def new_disk(self) -> Disk:
        """Return a new disk object; all of them show the same files."""
        raise NotImplementedError

    @pytest.fixture
    def disk(self) -> Disk:
        """Provide the disk under test."""
        return self.new_disk()

    @pytest.fixture
    def folder(self) -> str:
        """Provide the name of a folder that no other test uses."""
        return f"suite-{next(_FOLDERS)}"

    def test_a_file_has_all_its_parts(self, disk: Disk, folder: str) -> None:
        """The parts of a file are joined in order, of any bytes type, and other disk objects see the file."""
        parts: list[bytes | memoryview] = [b"one", memoryview(b"-two-"), memoryview(bytearray(b"three")), b""]
        disk.create(f"{folder}/a", iter(parts))
        assert disk.read(f"{folder}/a") == b"one-two-three"
        assert self.new_disk().read(f"{folder}/a") == b"one-two-three"

    def test_a_file_may_be_empty(self, disk: Disk, folder: str) -> None:
        """A file may be empty, whether `create` or `create_if_absent` made it."""
        disk.create(f"{folder}/a", [])
        assert disk.create_if_absent(f"{folder}/b", b"")
        assert (disk.read(f"{folder}/a"), disk.read(f"{folder}/b")) == (b"", b"")
        assert disk.list(folder) == [f"{folder}/a", f"{folder}/b"]

    def test_a_file_is_replaced_whole(self, disk: Disk, folder: str) -> None:
        """A file that is replaced by a shorter one has nothing of the old one."""
        disk.create(f"{folder}/a", [b"a long one"])
        disk.create(f"{folder}/a", [b"short"])
        assert disk.read(f"{folder}/a") == b"short"

    def test_a_writer_that_fails_changes_nothing(self, disk: Disk, folder: str) -> None:
        """If the parts to write raise an error, an old file stays as it was and a new one does not appear."""
        disk.create(f"{folder}/old", [b"old"])

        def broken(size: int) -> Iterator[bytes | memoryview]:
            for _ in range(size):
                yield bytes(MEGABYTE)
            raise ValueError("no more")

        for size, name in itertools.product((1, LARGE_MB // 2), ("old", "new")):
            with pytest.raises(ValueError, match="no more"):
                disk.create(f"{folder}/{name}", broken(size))
        assert disk.list(folder) == [f"{folder}/old"]
        assert disk.read(f"{folder}/old") == b"old"
        if self.removes_what_it_gave_up and isinstance(disk, KeepsTemporaries):
            assert list(disk.temporaries(folder)) == []

    def test_large_files(self, disk: Disk, folder: str) -> None:
        """A file larger than one upload or buffer is stored completely, and any range of it can be read."""
        disk.create(f"{folder}/a", (bytes([n]) * MEGABYTE for n in range(LARGE_MB)))
        if not isinstance(disk, RandomAccess):
            data = disk.read(f"{folder}/a")
            assert [data[n * MEGABYTE] for n in range(LARGE_MB)] == list(range(LARGE_MB))
            return
        assert disk.size(f"{folder}/a") == LARGE_MB * MEGABYTE
        for n in range(1, LARGE_MB):
            seam = disk.read_range(f"{folder}/a", n * MEGABYTE - 1, 2)
            assert seam == bytes([n - 1, n])

    def test_create_if_absent(self, disk: Disk, folder: str) -> None:
        """The first call creates the file, later ones return False; a deleted name can be created again."""
        assert disk.create_if_absent(f"{folder}/a", b"first")
        assert not disk.create_if_absent(f"{folder}/a", b"second")
        assert not self.new_disk().create_if_absent(f"{folder}/a", b"first")
        assert disk.read(f"{folder}/a") == b"first"
        disk.delete(f"{folder}/a")
        assert disk.create_if_absent(f"{folder}/a", b"third")

    def test_one_of_many_creates(self, folder: str) -> None:
        """Of several concurrent callers, with equal bytes or not, exactly one creates each file."""
        disks = [self.new_disk() for _ in range(WRITERS)]
        data = [b"%d" % (number // 2) for number in range(WRITERS)]
        for round_ in range(5):
            name = f"{folder}/{round_}"
            calls = [partial(disk.create_if_absent, name, mine) for disk, mine in zip(disks, data)]
            won = self._at_once(calls)
            assert sum(won) == 1
            assert disks[0].read(name) == data[won.index(True)]

    def test_replacing_is_atomic(self, disk: Disk, folder: str) -> None:
        """A reader during replacements gets the complete bytes of one version of the file."""
        name, sizes = f"{folder}/a", (10, 300_000)
        disk.create(name, [b"0" * sizes[0]])

        def write(number: int) -> bool:
            mine = self.new_disk()
            for size in sizes * 3:
                mine.create(name, [b"%d" % number * (size // 2)] * 2)
            return True

        def read() -> bool:
            mine = self.new_disk()
            seen = [mine.read(name) for _ in range(20)]
            return all(len(data) in sizes and len(set(data)) == 1 for data in seen)

        assert all(self._at_once([read, lambda: write(1), lambda: write(2)]))

    def test_ranges(self, disk: Disk, folder: str) -> None:
        """A range of a file can be read; it is shorter at the file's end, and empty after it."""
        if not isinstance(disk, RandomAccess):
            pytest.skip("this disk reads whole files only")
        name = f"{folder}/a"
        disk.create(name, [b"0123456789"])
        wanted = [(0, 10), (2, 3), (8, 5), (9, 1), (10, 1), (12, 3), (4, 0)]
        assert [disk.read_range(name, *each) for each in wanted] == [
            b"0123456789", b"234", b"89", b"9", b"", b"", b"",
        ]  # fmt: skip
        assert disk.size(name) == 10
        disk.create(f"{folder}/empty", [])
        assert (disk.size(f"{folder}/empty"), disk.read_range(f"{folder}/empty", 0, 1)) == (0, b"")

    def test_what_is_absent(self, disk: Disk, folder: str) -> None:
        """Of an absent file: reading raises FileNotFoundError, deleting does nothing, listing is empty."""
        disk.delete(f"{folder}/a")
        reads: list[Callable[[str], bytes | int]] = [disk.read]
        if isinstance(disk, RandomAccess):
            reads += [
                disk.size,
                lambda name: disk.read_range(name, 0, 1),
                lambda name: disk.read_range(name, 0, 0),
            ]
        for read in reads:
            with pytest.raises(FileNotFoundError):
                read(f"{folder}/a")
        assert list(disk.list(folder)) == []

    def test_lists_are_of_folders_and_sorted(self, disk: Disk, folder: str) -> None:
        """A list has all files below a folder, at any depth; a list of `a` has no files of folder `a0`."""
        names = [f"{folder}/{name}" for name in ("b", "a/z", "a/b/c", "a/y", "a0", "chk-1/x", "chk-10/x")]
        for name in names:
            disk.create(name, [b"x"])
        assert list(disk.list(folder)) == sorted(names)
        assert list(disk.list(f"{folder}/a")) == [f"{folder}/{n}" for n in ("a/b/c", "a/y", "a/z")]
        assert list(disk.list(f"{folder}/chk-1/")) == [f"{folder}/chk-1/x"]
        assert set(names) <= set(disk.list(""))
        for name in names[1:]:
            disk.delete(name)
        assert list(disk.list(folder)) == [names[0]]

    def test_long_lists(self, disk: Disk, folder: str) -> None:
        """A list of many files is complete; how many is up to `files_in_a_long_list`."""
        names = [f"{folder}/{number:04}" for number in range(self.files_in_a_long_list)]
        for name in names:
            disk.create_if_absent(name, b"")
        assert list(disk.list(folder)) == names

    files_in_a_long_list: ClassVar[int] = 60
    """Number of files in `test_long_lists`; more than a page if the storage lists in pages and is quick."""

    def test_names(self, disk: Disk, folder: str) -> None:
        """Names may have letters of any script, blanks, and characters with a meaning in URIs."""
        names = sorted(
            f"{folder}/{name}" for name in ("ü-ß/日本", "a b", "50%20", "a+b=c&d#e?", "~,;@!'()[]", "Ａ")
        )
        for name in names:
            disk.create(name, [name.encode()])
        assert list(disk.list(folder)) == names
        for name in names:
            assert disk.read(name) == name.encode()
            disk.delete(name)
        assert list(disk.list(folder)) == []

    @pytest.mark.parametrize(
        "name", ["", "/a", "../a", "b/../../a", "b//a", "./a", "b/\0", "b/", "b/.tmp-1", ".."]
    )
    def test_names_that_lead_elsewhere(self, disk: Disk, name: str) -> None:
        """Names that are empty, absolute, reserved, or with parts such as `..` or "", raise StorageError."""
        if not self.refuses_bad_names:
            pytest.skip("this disk has no outside")
        for call in (
            lambda: disk.create(name, [b""]),
            lambda: disk.create_if_absent(name, b""),
            lambda: disk.read(name),
        ):
            with pytest.raises(StorageError, match="is no file name below"):
                call()

    def test_messages_name_the_file(self, disk: Disk, folder: str) -> None:
        """A file's URI in messages begins with the URI of the disk's root, joined by one slash."""
        root = disk.describe()
        assert "://" in root
        assert disk.describe(f"{folder}/a") == f"{root.rstrip('/')}/{folder}/a"

    def test_it_passes_the_check_before_a_job(self, disk: Disk) -> None:
        """The driver's storage check before a job finds nothing wrong and leaves no file."""
        before = list(disk.list(""))
        probe(disk)
        assert list(disk.list("")) == before

    def _at_once(self, calls: Sequence[Callable[[], bool]]) -> list[bool]:
        return _all_at_once(calls) if self.takes_threads else [call() for call in calls]


def _all_at_once(calls: Sequence[Callable[[], bool]]) -> list[bool]:
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], bool]) -> bool:
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))
