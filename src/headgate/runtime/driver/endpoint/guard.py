"""Checks every HTTP request before the application sees it: host, origin, secret, content type and size.

It is ASGI middleware. Before the secret is known to be right, only the head of a request is read, and nothing
of it is kept; so the order of the checks matters.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import socket
from collections.abc import Container
from typing import Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.common.process.loopback import LOCALHOST

BODY_BYTES_MAX: Final = 64 * 1024
BODY_WAIT_S: Final = 10.0


class RefusedError(Exception):
    """Raised by a check of the guard: the request is answered with the HTTP `status` and `text`."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class Guard:
    """The endpoint's ASGI middleware: refuses bad requests; all but GETs of `public` paths need `secret`.
    Without a secret (None) what `inner` answers is for everybody who can connect.
    """

    body_wait_s: float = BODY_WAIT_S  # how long a body may take to arrive

    def __init__(self, inner: ASGIApp, secret: str | None, scheme: str, public: Container[str] = ()) -> None:
        self._inner, self._scheme, self._public = inner, scheme, public
        self._secret = None if secret is None else secret.encode()
        self._names = frozenset({LOCALHOST, socket.gethostname().lower()})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request, then either refuse it (4xx, as JSON) or hand it to the inner application."""
        if scope["type"] != "http":
            return  # the server speaks nothing else; its start and end need no answer
        try:
            headers = _single(scope["headers"])
            self._check_host(headers)
            if scope["method"] != "GET" or scope["path"] not in self._public:
                self._check_secret(headers)
            body = b""
            if scope["method"] == "POST":
                _check_form(headers)
                body = await self._body(receive)
        except RefusedError as refused:
            await _refuse(send, refused)
            return
        await self._inner(scope, _replaying(body, receive), send)

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not _host_is_ours(host, self._names):
            raise RefusedError(
                421, "the Host header names no address of this endpoint; ask it by its own address"
            )
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower() != f"{self._scheme}://{host}":
            raise RefusedError(403, "the request comes from another site, and such may ask nothing here")

    def _check_secret(self, headers: dict[bytes, bytes]) -> None:
        if self._secret is None:
            return
        scheme, _, shown = headers.get(b"authorization", b"").partition(b" ")
        right = hmac.compare_digest(shown.strip(), self._secret)
        if scheme.lower() != b"bearer" or not right:
            raise RefusedError(
                401, "the request does not show the job's secret; it is in the job's file, as Bearer token"
            )

    async def _body(self, receive: Receive) -> bytes:
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.body_wait_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RefusedError(400, "the connection ended before the request")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > BODY_BYTES_MAX:
                        raise _too_large()
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise RefusedError(
                408, f"the request was not complete within {self.body_wait_s:g} s; send it at once"
            ) from None


def _single(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in found and name in (b"host", b"origin", b"authorization", b"content-type"):
            raise RefusedError(400, f"the header {name.decode('latin-1')} is there twice; send it once")
        found[name] = value
    return found


def _host_is_ours(host: str, names: frozenset[str]) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    try:
        # An attacker who rebinds a name in DNS sends that name, never an address.
        ipaddress.ip_address(name)
    except ValueError:
        return name in names
    return True


def _check_form(headers: dict[bytes, bytes]) -> None:
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        raise RefusedError(415, "the Content-Type is not application/json; requests are JSON")
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length[:20]) > BODY_BYTES_MAX:
        raise _too_large()


def _too_large() -> RefusedError:
    return RefusedError(413, f"the request is larger than {BODY_BYTES_MAX} bytes")


def _replaying(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _refuse(send: Send, refused: RefusedError) -> None:
    body = json.dumps({"error": {"kind": "UsageError", "message": refused.text}}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        # What may still come of the request is not read.
        (b"connection", b"close"),
    ]
    if refused.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="headgate"'))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
