"""S3 with a server process: the contract, servers that die or hang in the middle, and settings."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from servers import S3Server, run_elsewhere, together

from headgate.checkpoint.pruning import prune
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage.objects import ObjectDisk, open_s3
from headgate.checkpoint.storage.settings import StorageSettings
from headgate.checkpoint.storage.storage_contract import UnsureWriteError
from headgate.checkpoint.storage.uris import open_disk
from headgate.common.errors import StorageError
from headgate.common.ids import JobId
from headgate.common.ports import Disk
from headgate.offline.storages import storage_options
from headgate.testing.suites.disk import DiskSuite

pytestmark = pytest.mark.ci

MEGABYTE = 1024 * 1024


def settings(server: S3Server) -> StorageSettings:
    """Those of the server."""
    return StorageSettings(s3_endpoint=server.endpoint, s3_access_key="an-id", s3_secret_key="do-not-show")


def impatient(server: S3Server) -> ObjectDisk:
    """A disk that waits a second for an answer, and asks once."""
    return open_s3("s3://bucket/prefix", settings(server), timedelta(seconds=1), retries=0)


@pytest.fixture(scope="module")
def shared() -> Iterator[S3Server]:
    """A server that stays."""
    server = S3Server().start()
    yield server
    server.kill()


@pytest.fixture
def server() -> Iterator[S3Server]:
    """A server for one test, which may kill it."""
    server = S3Server().start()
    yield server
    server.kill()


class TestS3(DiskSuite):
    """The contract, with a server of another process."""

    files_in_a_long_list = 1_100  # a page of S3 has 1,000

    @pytest.fixture(autouse=True)
    def at(self, shared: S3Server) -> None:
        """Where the server is."""
        self._server = shared

    def new_disk(self) -> Disk:
        return open_disk("s3://bucket/a/prefix", settings(self._server))


def test_one_of_many_processes_creates(shared: S3Server) -> None:
    """Among processes, too, exactly one creates a file."""
    code = (
        "import sys; from headgate.checkpoint.storage.uris import open_disk;"
        "disk = open_disk('s3://bucket/processes'); sys.stdin.readline();"
        "print(disk.create_if_absent('log/1', sys.argv[1].encode()))"
    )
    variables = {
        "AWS_ENDPOINT_URL": shared.endpoint,
        "AWS_ACCESS_KEY_ID": "an-id",
        "AWS_SECRET_ACCESS_KEY": "do-not-show",
    }
    running = [run_elsewhere(code, str(number), env=variables) for number in range(4)]
    outputs = together(running)
    assert sorted(output.strip() for output, _ in outputs) == ["False", "False", "False", "True"], outputs
    winner = [output.strip() for output, _ in outputs].index("True")
    assert open_disk("s3://bucket/processes", settings(shared)).read("log/1") == str(winner).encode()


@pytest.mark.parametrize("size_mb", [1, 40])
def test_f17_a_server_that_is_killed_in_the_middle_of_a_write(server: S3Server, size_mb: int) -> None:
    """Nothing is half visible when it is there again, and the write succeeds when it is repeated."""
    disk = impatient(server)

    def parts() -> Iterator[bytes]:
        for number in range(size_mb):
            if number == size_mb - 1:
                server.kill()
            yield bytes([number]) * MEGABYTE

    with pytest.raises(StorageError) as caught:
        disk.create("chk-1/a", parts())
    assert "s3://bucket/prefix/chk-1/a" in str(caught.value)
    assert "do-not-show" not in str(caught.value)
    server.start()
    assert disk.list("") == []
    disk.create("chk-1/a", (bytes([number]) * MEGABYTE for number in range(size_mb)))
    assert disk.size("chk-1/a") == size_mb * MEGABYTE


@pytest.mark.parametrize("method", ["create", "create_if_absent"])
def test_a_server_that_is_not_there(server: S3Server, method: str) -> None:
    """No connection means that nothing was sent: the failure is certain."""
    disk = impatient(server)
    server.kill()
    with pytest.raises(StorageError, match="no connection") as caught:
        disk.create("a", [b"x"]) if method == "create" else disk.create_if_absent("a", b"x")
    assert not isinstance(caught.value, UnsureWriteError)


@pytest.mark.parametrize("method", ["create", "create_if_absent"])
def test_f22_a_server_that_hangs_leaves_it_open(server: S3Server, method: str) -> None:
    """Without an answer the file may come to be, and the error says so."""
    disk = impatient(server)
    disk.list("")
    server.pause()
    try:
        with pytest.raises(UnsureWriteError, match="whether it was stored is unknown"):
            disk.create("a", [b"x"]) if method == "create" else disk.create_if_absent("a", b"x")
    finally:
        server.go_on()


def test_a_lost_answer_is_found_out(server: S3Server) -> None:
    """A server that goes on before the writer gives up is asked whose the file is."""
    disk = impatient(server)
    disk.list("")
    server.pause()
    timer = threading.Timer(1.5, server.go_on)  # after the first try's time is up, before the last one's
    timer.start()
    try:
        assert disk.create_if_absent("a", b"mine")
    finally:
        timer.join()
    assert disk.read("a") == b"mine"
    assert not disk.create_if_absent("a", b"mine")


def test_a_bucket_that_is_not_there(shared: S3Server) -> None:
    """A missing bucket is no missing file: a log must not look empty because of it."""
    disk = open_disk("s3://elsewhere/prefix", settings(shared))
    for call in (lambda: disk.read("a"), lambda: disk.list(""), lambda: disk.create("a", [b"x"])):
        with pytest.raises(StorageError, match=r"NoSuchBucket.*create the bucket"):
            call()


def test_what_an_ended_job_left_is_pruned_by_its_age(server: S3Server) -> None:
    """Its log names no checkpoint any more, so that only the age of a file proves it to be left over."""
    disk, job = open_disk("s3://bucket/ended", settings(server)), JobId("job")
    keys = [f"s3.endpoint={server.endpoint}", "s3.access-key=an-id", "s3.secret-key=do-not-show"]
    service = CheckpointService(disk, job)
    permit = service.claim()
    disk.create("job/chk-1/left", [b"x"])
    service.discard_completed(permit, [])
    with storage_options(keys):
        young = prune("s3://bucket/ended", delete=True)
        assert [orphan.why for orphan in young.orphans if "written" in orphan.why] != []
        assert (young.deleted, disk.list("job/chk-1")) == (0, ["job/chk-1/left"])
        assert prune("s3://bucket/ended", delete=True, older_than_ms=-1).deleted == 1
    assert disk.list("job/chk-1") == []
