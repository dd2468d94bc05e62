"""A little HTTP server that keeps what is sent to it, for tests of what a job tells others."""

from __future__ import annotations

import gzip
import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Got:
    """One request: its path, headers with small letters, and body."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """Answers POST requests with `status`, after `sleep_s`, and keeps them."""

    status: int = 200
    sleep_s: float = 0.0
    got: list[Got] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def bodies(self, path: str) -> list[bytes]:
        """What has come to a path so far."""
        return [each.body for each in list(self.got) if each.path == path]


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A server on a free port of this machine, until the block ends."""
    found = Receiver()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length", 0)))
            if headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            found.got.append(Got(self.path, headers, body))
            time.sleep(found.sleep_s)
            self.send_response(found.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        found.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
