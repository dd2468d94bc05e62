"""HDFS with a server process: the contract, rights, a writer and a server that die in the middle."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from servers import HdfsServer, run_elsewhere, together

from headgate.checkpoint.storage.settings import StorageSettings
from headgate.checkpoint.storage.uris import open_disk
from headgate.checkpoint.storage.webhdfs import WebHdfsDisk
from headgate.checkpoint.storage.webhdfs_client import WebHdfsClient
from headgate.common.errors import ConfigError, StorageError
from headgate.common.ports import Disk
from headgate.testing.suites.disk import DiskSuite

pytestmark = pytest.mark.proof

MEGABYTE = 1024 * 1024


def disk_at(server: HdfsServer, folder: str, user: str = "writer") -> WebHdfsDisk:
    """A folder of the server, for a user."""
    disk = open_disk(f"webhdfs://{server.address}/{folder}", StorageSettings(hdfs_user=user))
    assert isinstance(disk, WebHdfsDisk)
    return disk


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """A server for all tests of this file; the last one kills it."""
    made = HdfsServer(tmp_path_factory.mktemp("hdfs")).start()
    yield made
    made.kill()


class TestHdfs(DiskSuite):
    """The contract, over HTTP."""

    removes_what_it_gave_up = False  # a data node may begin a file after its writer has gone

    @pytest.fixture(autouse=True)
    def at(self, server: HdfsServer) -> None:
        """Where the server is."""
        self._server = server

    def new_disk(self) -> Disk:
        return disk_at(self._server, "suite")


def test_the_uri_of_the_name_node(server: HdfsServer) -> None:
    """hdfs: names the node that Hadoop's clients use, the option where its HTTP service is."""
    settings = StorageSettings(hdfs_http_address=f"127.0.0.1:1, {server.address}", hdfs_user="writer")
    disk = open_disk("hdfs://namenode:8020/by/name%20node", settings)
    disk.create("a", [b"x"])
    assert disk.describe("a") == "hdfs://namenode:8020/by/name%20node/a"
    assert disk_at(server, "by").list("") == ["name node/a"]


def test_one_of_many_processes_creates(server: HdfsServer) -> None:
    """Among processes, too, exactly one creates a file."""
    code = (
        "import sys; from headgate.checkpoint.storage.uris import open_disk;"
        f"disk = open_disk('webhdfs://{server.address}/processes'); sys.stdin.readline();"
        "print(disk.create_if_absent('log/1', sys.argv[1].encode()))"
    )
    outputs = together(
        [run_elsewhere(code, str(number), env={"HADOOP_USER_NAME": "writer"}) for number in range(4)]
    )
    assert sorted(output.strip() for output, _ in outputs) == ["False", "False", "False", "True"], outputs


def test_a_writer_that_dies_leaves_an_unfinished_file(server: HdfsServer) -> None:
    """It is not listed among the files, can be found, and goes by delete."""
    code = (
        "import os, sys; from headgate.checkpoint.storage.uris import open_disk;"
        f"disk = open_disk('webhdfs://{server.address}/dying');"
        "parts = lambda: (bytes(1 << 20) if n < 4 else os._exit(9) for n in range(9));"
        "disk.create('chk-1/a', parts())"
    )
    process = run_elsewhere(code, env={"HADOOP_USER_NAME": "writer"})
    process.communicate()
    assert process.returncode == 9
    disk = disk_at(server, "dying")
    assert disk.list("") == []
    (left,) = disk.temporaries("")
    disk.delete(left)
    assert disk.temporaries("") == []


def test_how_old_a_file_is(server: HdfsServer) -> None:
    """By one clock for all files: a later one is not older."""
    disk = disk_at(server, "aged")
    for name in ("a", "b"):
        disk.create(name, [b"x"])
    assert abs(disk.modified_ms("a") - time.time() * 1000) < 60_000
    assert disk.modified_ms("a") <= disk.modified_ms("b")
    with pytest.raises(FileNotFoundError):
        disk.modified_ms("c")


def test_f25_without_the_right_to_write(server: HdfsServer) -> None:
    """Another user's folder is refused in a sentence, and nothing of it changes."""
    disk_at(server, "owned").create("a", [b"mine"])
    WebHdfsClient([server.address], "writer").ask("PUT", "/owned", "SETPERMISSION", permission="755")
    stranger = disk_at(server, "owned", "stranger")
    with pytest.raises(StorageError, match=r"cannot write .*/owned/b: 403 Acc.*grant the user"):
        stranger.create("b", [b"x"])
    with pytest.raises(StorageError, match="cannot write"):
        stranger.create_if_absent("c", b"x")
    assert disk_at(server, "owned").list("") == ["a"]


def test_f17_a_server_that_is_killed_in_the_middle_of_a_write(server: HdfsServer) -> None:
    """The writer is told, and so is everybody later; this is the last test of the file."""
    disk = disk_at(server, "killed")

    def parts() -> Iterator[bytes]:
        for number in range(9):
            if number == 4:
                server.kill()
            yield bytes(MEGABYTE)

    with pytest.raises(StorageError, match="cannot write"):
        disk.create("chk-1/a", parts())
    with pytest.raises(StorageError, match=r"cannot read .*reached there"):
        disk.read("chk-1/a")


def test_a_path_needs_a_name_node() -> None:
    """Hadoop's default file system is in a file that we do not read."""
    with pytest.raises(ConfigError, match="names no name node"):
        open_disk("hdfs:///path")
