"""Every disk that needs no server keeps the contract of disks."""

from __future__ import annotations

from pathlib import Path

import pytest
from obstore.store import MemoryStore

from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.storage.memory import MemoryDisk
from headgate.checkpoint.storage.objects import ObjectDisk
from headgate.common.ports import Disk
from headgate.testing.simulation.virtual_disk import SimDisk, SimFiles
from headgate.testing.suites.disk import DiskSuite


class TestLocal(DiskSuite):
    """A folder."""

    @pytest.fixture(autouse=True)
    def root(self, tmp_path: Path) -> None:
        """Folders of pytest's own."""
        self._root = tmp_path / "root"

    def new_disk(self) -> Disk:
        return LocalDisk(self._root)


class TestMemory(DiskSuite):
    """This process's memory."""

    def new_disk(self) -> Disk:
        return MemoryDisk("conformance/folder")


class TestObjects(DiskSuite):
    """The library's own object store in memory: the code for S3 without a server."""

    store = MemoryStore()

    def new_disk(self) -> Disk:
        return ObjectDisk(self.store, self.store, "s3://bucket/prefix")


class TestSimulated(DiskSuite):
    """The simulator's disk, so that what the simulator shows holds for the others."""

    refuses_bad_names = takes_threads = False
    files = SimFiles()

    def new_disk(self) -> Disk:
        return SimDisk(self.files)
