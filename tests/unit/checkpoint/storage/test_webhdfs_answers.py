"""A name node whose answers get lost, or that stands by: what a writer finds out, and what stays open."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from headgate.checkpoint.storage.base import UnsureWriteError
from headgate.checkpoint.storage.webhdfs import WebHdfsDisk
from headgate.checkpoint.storage.webhdfs_client import WebHdfsClient
from headgate.common.errors import StorageError


class Node(ThreadingHTTPServer):
    """Keeps files in memory, and loses answers to renames: before the deed or after it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.lost: list[str] = []
        self.standby = self.comes_first = False

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
        done = "renameoptions" in options or target not in self.server.files
        if lost != "before" and done:
            self.server.files[target] = self.server.files.pop(path)
        if lost:
            self.close_connection = True
        else:
            self._answer(200, {"boolean": done})

    def _getfilestatus(self, path: str, options: dict[str, str]) -> None:
        if path in self.server.files:
            self._answer(200, {"FileStatus": {"length": len(self.server.files[path])}})
        else:
            self._answer(404, {"RemoteException": {"exception": "FileNotFoundException"}})

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
    """A temporary name that is gone was renamed; one that is there is renamed again."""
    nodes[0].lost = lost
    assert write(disk_of(nodes[0]), method) in (None, True)
    assert nodes[0].files == {"/r/a": b"mine"}


def test_a_lost_answer_where_another_was_first(nodes: list[Node]) -> None:
    """The temporary name is still there and the file is, too: it is another's."""
    node, disk = nodes[0], disk_of(nodes[0])
    node.lost, node.comes_first = ["before"], True
    assert not write(disk, "create_if_absent")
    assert node.files == {"/r/a": b"other"}


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
