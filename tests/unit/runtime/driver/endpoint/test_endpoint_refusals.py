"""What the endpoint refuses, over real connections: every kind of hostile input that is known."""

from __future__ import annotations

import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from endpoint_samples import Answering, answering

from headgate.runtime.driver.endpoint.guard import BODY_BYTES_MAX, Guard
from headgate.runtime.driver.endpoint.http_server import (
    CONNECTIONS_MAX,
    HEAD_BYTES_MAX,
    HEAD_WAIT_S,
    PatientProtocol,
)

HERE = Path(__file__).parent
TLS = {
    "security.ssl.rest.certfile": str(HERE / "test_certificate.pem"),
    "security.ssl.rest.keyfile": str(HERE / "test_key.pem"),
}

ROUTES = [
    ("GET", "/v1/job"),
    ("GET", "/v1/checkpoints"),
    ("GET", "/v1/plan"),
    ("GET", "/v1/operations/1"),
    ("GET", "/v1/state/a/b?key=1"),
    ("POST", "/v1/checkpoint"),
    ("POST", "/v1/savepoint"),
    ("POST", "/v1/stop"),
    ("POST", "/v1/cancel"),
    ("POST", "/v1/rescale"),
    ("GET", "/nothing"),
]


def alive(served: Answering) -> bool:
    """Whether the endpoint answers, and the job was asked for nothing."""
    return served.asks("GET", "/v1/job")[1]["name"] == "words" and served.control.wishes == []


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_nobody_without_the_secret_gets_anything(served: Answering, method: str, path: str) -> None:
    """401 on every path, also on those that do not exist, with none, a wrong or a half secret."""
    secret = served.file.secret
    shown = [
        None, "", "Bearer", "Bearer ", "Bearer wrong", f"Bearer {secret[:-1]}", f"Bearer {secret}x",
        f"Basic {secret}", secret, "Bearer \xff\xfe",
    ]  # fmt: skip
    for authorization in shown:
        status, facts = served.asks(method, path, b"{}", authorization=authorization)
        assert (status, "secret" in facts["error"]["message"]) == (401, True), authorization
        assert secret not in str(facts)
    assert alive(served)


def test_the_body_of_a_stranger_is_not_read(served: Answering) -> None:
    """The refusal comes although the body that was announced never does."""
    head = f"POST /v1/stop HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {10**12}\r\n\r\n"
    with served.connection() as line:
        line.sendall(head.encode())
        assert line.recv(65536).startswith(b"HTTP/1.1 401 ")
    assert alive(served)


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/v1/../../etc/passwd",
        "/v1/%2e%2e/%2e%2e/etc/passwd",
        "/v1/%252e%252e/job",
        "//etc/passwd",
        "/v1/state/%2e%2e/count?key=1",
        "/v1/state/../job?key=1",
        "/v1/state/a%00b/count?key=1",
        "/v1/state/a/b/c?key=1",
        "/v1/state//count?key=1",
        "/v1/operations/..%2f..%2fjob",
        "/v1/job/",
        "/etc/passwd",
        "/page/",
        "/page/../app.py",
        "/page/app.css/",
        "/page/nothing.js",
    ],
)
def test_paths_lead_nowhere_else(served: Answering, path: str) -> None:
    """404 for whatever is not one of the routes; no file is served at all."""
    status, facts = served.asks("GET", path)
    assert (status, facts["error"]["kind"]) == (404, "UsageError")
    assert alive(served)


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("/v1/rescale", b'{"parallelism": "4"}', "$.parallelism"),
        ("/v1/rescale", b'{"parallelism": 0}', "$.parallelism"),
        ("/v1/rescale", b'{"parallelism": 1e99}', "$.parallelism"),
        ("/v1/rescale", b"{}", "parallelism"),
        ("/v1/rescale", b'{"parallelism": 2, "now": true}', "now"),
        ("/v1/savepoint", b'{"format": "odd"}', "$.format"),
        ("/v1/savepoint", b'{"target": 7}', "$.target"),
        ("/v1/savepoint", b'{"target": ""}', "$.target"),
        ("/v1/savepoint", b'{"drain": true}', "drain"),
        ("/v1/stop", b'{"drain": "yes"}', "$.drain"),
        ("/v1/stop", b'{"targt": "/x"}', "targt"),
        ("/v1/cancel", b'{"why": 1}', "why"),
        ("/v1/checkpoint", b"[]", "object"),
        ("/v1/stop", b"null", "object"),
        ("/v1/stop", b"", "truncated"),
        ("/v1/stop", b'{"drain"', "truncated"),
        ("/v1/stop", b"\xff\xfe", "malformed"),
        ("/v1/stop", b'{"target": ' + b"[" * 30_000 + b"]" * 30_000 + b"}", "$.target"),
        ("/v1/stop", b"[" * 60_000, "object"),
        ("/v1/stop", b'{"x": ' + b"[" * 30_000, "x"),
    ],
)
def test_a_wrong_body_is_refused_by_the_name_of_its_field(
    served: Answering, path: str, body: bytes, named: str
) -> None:
    """400, with the field; and nothing was asked of the job."""
    status, facts = served.asks("POST", path, body)
    assert status == 400
    assert named in facts["error"]["message"]
    assert alive(served)


def test_bodies_have_a_limit_announced_or_not(served: Answering) -> None:
    """413 before the body is read, and in the middle of one that comes in pieces."""
    assert served.asks("POST", "/v1/stop", content_length=str(BODY_BYTES_MAX + 1))[0] == 413
    assert served.asks("POST", "/v1/stop", content_length="9" * 18)[0] == 413
    piece = b"2000\r\n" + b" " * 0x2000 + b"\r\n"
    body = piece * (BODY_BYTES_MAX // 0x2000 + 1) + b"0\r\n\r\n"
    assert served.asks("POST", "/v1/stop", body, content_length=None, transfer_encoding="chunked")[0] == 413
    assert alive(served)


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_what_a_form_of_another_site_can_send_is_refused(served: Answering, kind: str | None) -> None:
    """Only JSON by name, which no form can send without asking first."""
    assert served.asks("POST", "/v1/cancel", b"{}", content_type=kind)[0] == 415
    assert alive(served)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("attacker.example", 421),
        ("127.0.0.1.attacker.example", 421),
        ("localhost.attacker.example:80", 421),
        ("", 421),
        ("[::1", 421),
        ("localhost", 200),
        ("LOCALHOST:99", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        (socket.gethostname(), 200),
    ],
)
def test_a_name_that_was_rebound_to_this_machine_is_refused(
    served: Answering, host: str, status: int
) -> None:
    """The Host header tells under which name a page found the endpoint."""
    assert served.asks("GET", "/v1/job", host=host)[0] == status


@pytest.mark.parametrize("origin", ["http://attacker.example", "null", "https://127.0.0.1", ""])
def test_pages_of_other_sites_may_ask_nothing(served: Answering, origin: str) -> None:
    """403, even with the secret."""
    assert served.asks("POST", "/v1/cancel", b"{}", origin=origin)[0] == 403
    assert alive(served)


def test_no_header_that_matters_comes_twice(served: Answering) -> None:
    """Nobody can have a right one checked and a wrong one used."""
    doubled = f"Bearer {served.file.secret}\r\nauthorization: Bearer wrong"
    assert served.asks("GET", "/v1/job", authorization=doubled)[0] == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/job"), ("GET", "/v1/cancel"), ("DELETE", "/v1/job"), ("PUT", "/v1/stop")],
)
def test_other_methods_are_refused(served: Answering, method: str, path: str) -> None:
    """405; a link that is followed changes nothing."""
    assert served.asks(method, path)[0] == 405
    assert alive(served)


def test_who_is_slow_is_sent_away(served: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection without a whole request is closed, before the first one as behind an answer."""
    monkeypatch.setattr(PatientProtocol, "head_wait_s", 0.05)
    for begun in (b"", b"GET /v1/job HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
        with served.connection() as line, suppress(ConnectionError):
            line.sendall(begun)
            while line.recv(65536):
                pass
    monkeypatch.undo()
    assert alive(served)


def test_a_crowd_that_says_nothing_gives_way(served: Answering) -> None:
    """Hundreds of open connections cost nobody his answer: those that have been silent longest are closed."""
    with ExitStack() as scope:
        for _ in range(3):
            lines = [scope.enter_context(served.connection()) for _ in range(CONNECTIONS_MAX + 8)]
            began = time.monotonic()
            assert alive(served)
            assert time.monotonic() - began < HEAD_WAIT_S
            ended = 0
            for line in lines[:8]:
                with suppress(ConnectionError):
                    assert line.recv(1) == b""
                ended += 1
            assert ended == 8
        assert len(living(served)) <= CONNECTIONS_MAX + 1


def test_who_is_being_answered_does_not_give_way(served: Answering) -> None:
    """A crowd comes while the outcome of something is awaited."""
    served.control.holds = True
    begun = served.asks("POST", "/v1/checkpoint", b"{}")[1]["operation"]
    with ThreadPoolExecutor(1) as pool, ExitStack() as scope:
        waiting = pool.submit(served.asks, "GET", f"/v1/operations/{begun}?wait_ms=20000")
        while not served.endpoint._operations.find(begun).asked:  # type: ignore[union-attr]
            time.sleep(0.01)
        for _ in range(2 * CONNECTIONS_MAX):
            scope.enter_context(served.connection())
        assert served.asks("GET", "/v1/job")[0] == 200
        served.control.held[0]("file:///x", None)
        assert waiting.result(20)[1]["state"] == "done"


def test_a_crowd_that_never_ends_its_tls_handshake_gives_way(home: Path) -> None:
    """The server behind the sockets does not know of it yet; also when it only waits."""
    with answering(**TLS) as served, ExitStack() as scope:
        lines = [scope.enter_context(served.connection()) for _ in range(300)]
        assert served.job.status().state == "running"
        assert len(living(served)) <= CONNECTIONS_MAX + 1
        clients = served.endpoint._socket.clients
        assert clients is not None
        clients._silent.update(dict.fromkeys(clients._silent, 0.0))
        with suppress(ConnectionError):
            assert lines[-1].recv(1) == b""
        assert served.job.status().state == "running"


def living(served: Answering) -> list[str]:
    """The endpoint's file handles that are connections."""
    port = served.endpoint._socket.getsockname()[1]
    lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    mine = [line.split() for line in lines]
    return [" ".join(each) for each in mine if each[1].endswith(f":{port:04X}") and each[3] == "01"]


def test_the_endpoint_outlives_a_heap_of_garbage(served: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever bytes come, with the secret or without: an answer or a closed connection, and it goes on."""
    chance = random.Random(149)
    lines = [
        "POST /v1/stop HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {served.file.secret}",
        "Content-Type: application/json",
        "Connection: close",
        "Content-Length: 17",
        "",
        '{"drain": "true"}',
    ]
    good = "\r\n".join(lines)
    monkeypatch.setattr(PatientProtocol, "head_wait_s", 0.02)
    monkeypatch.setattr(Guard, "body_wait_s", 0.02)
    for number in range(250):
        data = bytearray(good.encode())
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(data))
            data[at : at + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
        if number % 10 == 0:
            data = bytearray(chance.randbytes(chance.randint(1, 2 * HEAD_BYTES_MAX)))
        answer = served.says(bytes(data))
        assert answer[:9] in (b"", b"HTTP/1.1 ")
        assert b" 500 " not in answer[:16]
    monkeypatch.undo()
    assert alive(served)
