"""A folder on a device that refuses: what is left, what is said, and that no half file is ever seen."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.storage.storage_contract import UnsureWriteError
from headgate.common.errors import StorageError
from headgate.common.files import durable
from headgate.common.files.permissions import Permissions

SRC = Path(__file__).parents[4] / "src"
NOBODY = 65534


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """The operating system takes no byte of a file behind `size`."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture
def disk(tmp_path: Path) -> LocalDisk:
    """A disk with one file."""
    made = LocalDisk(tmp_path / "root")
    made.create("job/old", [b"old"])
    return made


def test_f19_a_write_that_is_cut_short(disk: LocalDisk) -> None:
    """The system writes a part and then refuses: nothing of it is left, and the old file stays."""
    with file_size_limit(100_000):
        for name in ("job/old", "job/chk-1/new"):
            with pytest.raises(
                StorageError, match=r"File too large; (raise the limit|RLIMIT_FSIZE)"
            ) as caught:
                disk.create(name, [bytes(60_000), bytes(60_000)])
            assert not isinstance(caught.value, UnsureWriteError)
    assert disk.list("") == ["job/old"]
    assert disk.temporaries("") == []
    assert disk.read("job/old") == b"old"
    assert not (disk.root / "job/chk-1").exists()


def test_f19_short_writes_that_go_on(disk: LocalDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that takes seven bytes at a time gets all of them."""
    real = os.write
    monkeypatch.setattr(durable.system, "write", lambda descriptor, data: real(descriptor, data[:7]))
    data = bytes(range(100))
    disk.create("job/a", [data, memoryview(data)])
    assert disk.read("job/a") == data * 2


def test_a_device_that_takes_nothing(disk: LocalDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """No bytes and no error are an error, and not a loop for ever."""
    monkeypatch.setattr(durable.system, "write", lambda descriptor, data: 0)
    with pytest.raises(StorageError, match="took no bytes"):
        disk.create("job/a", [b"x"])


def test_f22_a_file_whose_flush_failed_is_never_used(
    disk: LocalDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed flush the system may have dropped the bytes, so the next try has a file of its own."""
    opened: list[str] = []
    real_open, real_fsync, failures = os.open, os.fsync, iter([True])

    def opening(path: Any, flags: int, *rest: Any) -> int:
        if flags & os.O_CREAT:
            opened.append(str(path))
        return real_open(path, flags, *rest)

    def failing_once(descriptor: int) -> None:
        if next(failures, False):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real_fsync(descriptor)

    monkeypatch.setattr(durable.system, "open", opening)
    monkeypatch.setattr(durable.system, "fsync", failing_once)
    with pytest.raises(StorageError, match="check the disk; the file is not used"):
        disk.create("job/a", [b"first"])
    disk.create("job/a", [b"second"])
    assert len(set(opened)) == len(opened) == 2
    assert disk.read("job/a") == b"second"
    assert disk.temporaries("") == []


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that every user of the machine can enter; pytest's own are closed."""
    with tempfile.TemporaryDirectory(prefix="headgate-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
        for inner in (Path(folder) / "root", Path(folder) / "root" / "job"):
            inner.chmod(0o755)


def test_f25_a_folder_that_may_not_be_written(open_to_all: Path) -> None:
    """A user without the right is told so; what is there can be read."""
    root = open_to_all / "root"
    LocalDisk(root, Permissions.UMASK).create("job/old", [b"old"])
    root.chmod(0o555)
    (root / "job").chmod(0o555)
    code = (
        "import os, sys\n"
        "from headgate.checkpoint.storage.local import LocalDisk\n"
        "from headgate.common.errors import StorageError\n"
        f"if os.getuid() == 0: os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "disk = LocalDisk(sys.argv[1])\n"
        "print(disk.read('job/old').decode(), disk.list(''))\n"
        "calls = {'create': lambda: disk.create('job/a', [b'x']),\n"
        "    'create_if_absent': lambda: disk.create_if_absent('new/a', b'x'),\n"
        "    'delete': lambda: disk.delete('job/old')}\n"
        "for name, call in calls.items():\n"
        "    try: call()\n"
        "    except StorageError as error:\n"
        "        print(name, type(error).__name__, 'grant the user' in str(error))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(SRC)}, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "old ['job/old']",
        "create StorageError True",
        "create_if_absent StorageError True",
        "delete StorageError True",
    ], done.stderr


def test_lists_while_others_create_and_delete(disk: LocalDisk) -> None:
    """Folders that come and go during a listing are no error, and what stays is always listed."""
    over = threading.Event()

    def churn(number: int) -> None:
        mine = LocalDisk(disk.root)
        while not over.is_set():
            for place in range(5):
                mine.create(f"job/chk-{number}/{place}/a", [b"x"])
            for place in range(5):
                mine.delete(f"job/chk-{number}/{place}/a")

    threads = [threading.Thread(target=churn, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        seen = [disk.list("") for _ in range(60)]
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert all("job/old" in names for names in seen)
    assert disk.list("") == ["job/old"]
