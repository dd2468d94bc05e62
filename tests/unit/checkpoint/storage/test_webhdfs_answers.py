"""A name node whose answers get lost, or that stands by: what a writer finds out, and what stays open."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from headgate.checkpoint.storage.storage_contract import TellsAge, UnsureWriteError
from headgate.checkpoint.storage.webhdfs import WebHdfsDisk
from headgate.checkpoint.storage.webhdfs_client import WebHdfsClient
from headgate.common.errors import StorageError

WRITTEN_MS = 1_700_000_000_123


class Node(ThreadingHTTPServer):
    """Keeps files in memory, and loses answers to renames: before the deed or after it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.lost: list[str] = []
        self.standby = self.comes_first = self.sweeps = False

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Node

    def log_message(self, *arguments: Any) -> None:
        """Quiet."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True

    def _answer(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _body(self) -> bytes:
        data = b""
        while self.headers.get("Transfer-Encoding") == "chunked" and (size := int(self.rfile.readline(), 16)):
            data += self.rfile.read(size)
            self.rfile.readline()
        return data

    def _any(self) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path.removeprefix("/webhdfs/v1"))
        options = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if self.server.standby:
            self._answer(403, {"RemoteException": {"exception": "StandbyException", "message": "not active"}})
        else:
            getattr(self, f"_{options.get('op', 'data').lower()}")(path, options)

    do_GET = do_PUT = do_DELETE = _any  # noqa: N815

    def _create(self, path: str, options: dict[str, str]) -> None:
        self._answer(200, {"Location": f"http://{self.server.address}/webhdfs/v1{path}"})

    def _data(self, path: str, options: dict[str, str]) -> None:
        self.server.files[path] = self._body()
        self._answer(201, {})

    def _rename(self, path: str, options: dict[str, str]) -> None:
        lost, target = self.server.lost.pop(0) if self.server.lost else "", options["destination"]
        if self.server.comes_first:
            self.server.files[target] = b"other"
        if self.server.sweeps:
            self.server.files.pop(path, None)
        done = path in self.server.files and ("renameoptions" in options or target not in self.server.files)
        if lost != "before" and done:
            self.server.files[target] = self.server.files.pop(path)
        if lost:
            self.close_connection = True
        else:
            self._answer(200, {"boolean": done})

    def _getfilestatus(self, path: str, options: dict[str, str]) -> None:
        if path in self.server.files:
            status = {"length": len(self.server.files[path]), "modificationTime": WRITTEN_MS}
            self._answer(200, {"FileStatus": status})
        else:
            self._answer(404, {"RemoteException": {"exception": "FileNotFoundException"}})

    def _open(self, path: str, options: dict[str, str]) -> None:
        if path in self.server.files:
            self._answer(200, {"Location": f"http://{self.server.address}/webhdfs/v1{path}?op=fetch"})
        else:
            self._answer(404, {"RemoteException": {"exception": "FileNotFoundException"}})

    def _fetch(self, path: str, options: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.files[path])))
        self.end_headers()
        self.wfile.write(self.server.files[path])

    def _delete(self, path: str, options: dict[str, str]) -> None:
        self._answer(200, {"boolean": self.server.files.pop(path, None) is not None})


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    """Two name nodes."""
    made = [Node(), Node()]
    threads = [threading.Thread(target=node.serve_forever, args=(0.01,)) for node in made]
    for thread in threads:
        thread.start()
    yield made
    for node, thread in zip(made, threads):
        node.shutdown()
        thread.join()
        node.server_close()


def disk_of(*nodes: Node) -> WebHdfsDisk:
    """The disk of name nodes."""
    return WebHdfsDisk(
        WebHdfsClient([node.address for node in nodes], "me", timeout_s=20), "/r", "hdfs://n/r"
    )


METHODS = pytest.mark.parametrize("method", ["create", "create_if_absent"])


def write(disk: WebHdfsDisk, method: str) -> Any:
    """One write of the file `a`."""
    return disk.create("a", [b"mine"]) if method == "create" else disk.create_if_absent("a", b"mine")


@METHODS
@pytest.mark.parametrize("lost", [["after"], ["before"], ["before", "after"]])
def test_a_lost_answer_is_found_out(nodes: list[Node], method: str, lost: list[str]) -> None:
    """What was renamed is known by its bytes, or by its temporary name; what was not is renamed again."""
    nodes[0].lost = lost
    assert write(disk_of(nodes[0]), method) in (None, True)
    assert nodes[0].files == {"/r/a": b"mine"}


def test_a_lost_answer_where_another_was_first(nodes: list[Node]) -> None:
    """The file has other bytes: it is another's, whether the temporary one is still there or was swept."""
    node, disk = nodes[0], disk_of(nodes[0])
    node.comes_first = True
    for node.lost, node.sweeps in (["before"], False), (["before"], True), ([], True):
        node.files.clear()
        assert not write(disk, "create_if_absent")
        assert node.files == {"/r/a": b"other"}


def test_a_file_that_was_swept_before_its_rename_was_not_written(nodes: list[Node]) -> None:
    """The name node refuses to rename what another driver has removed; nobody may take that for success."""
    nodes[0].sweeps = True
    with pytest.raises(StorageError, match="removed before it got its name") as caught:
        write(disk_of(nodes[0]), "create_if_absent")
    assert not isinstance(caught.value, UnsureWriteError)
    assert nodes[0].files == {}


def test_a_lost_answer_about_a_file_that_is_nowhere_stays_open(nodes: list[Node]) -> None:
    """It may have been renamed and deleted since, or swept before: neither is certain."""
    nodes[0].lost, nodes[0].sweeps = ["before"], True
    with pytest.raises(UnsureWriteError, match="whether it got its name is unknown"):
        write(disk_of(nodes[0]), "create_if_absent")


@METHODS
def test_what_cannot_be_found_out_stays_open(nodes: list[Node], method: str) -> None:
    """Without any answer the file may be there."""
    disk = disk_of(nodes[0])
    nodes[0].lost = ["before"] * 3
    with pytest.raises(UnsureWriteError, match="whether it got its name is unknown"):
        write(disk, method)


@METHODS
def test_the_active_name_node_is_found(nodes: list[Node], method: str) -> None:
    """One that stands by, or is not there, is passed over."""
    nodes[0].standby = True
    assert write(disk_of(nodes[0], nodes[1]), method) in (None, True)
    assert nodes[1].files == {"/r/a": b"mine"}
    with pytest.raises(StorageError, match="StandbyException"):
        write(disk_of(nodes[0]), method)


def test_how_old_a_file_is(nodes: list[Node]) -> None:
    """As the name node says, also of an unfinished file; where there is no file it says so."""
    disk = disk_of(nodes[0])
    assert isinstance(disk, TellsAge)
    nodes[0].files = {"/r/chk-1/a": b"x", "/r/chk-1/.tmp-7": b"x"}
    assert [disk.modified_ms(name) for name in ("chk-1/a", "chk-1/.tmp-7")] == [WRITTEN_MS] * 2
    with pytest.raises(FileNotFoundError):
        disk.modified_ms("chk-1/b")
