"""Requests to HDFS over HTTP; the type of an error shows whether the request was carried out."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from headgate.common.errors import StorageError

TIMEOUT_S: Final = 60.0
PREFIX: Final = "/webhdfs/v1"

_ASCII: Final = "".join(map(chr, range(33, 127)))


class RemoteError(StorageError):
    """The server refused the request (HTTP `status`, Java exception `kind`); nothing was done."""

    def __init__(self, message: str, status: int, kind: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


class UnreachedError(StorageError):
    """No connection could be opened: the request was not sent."""


class UnansweredError(StorageError):
    """The request was sent, and no complete answer came."""


class WebHdfsClient:
    """Sends requests to one HDFS cluster's name nodes, `addresses` (host:port); transfers files' bytes."""

    def __init__(
        self, addresses: list[str], user: str | None, secure: bool = False, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._addresses, self._user, self._secure, self._timeout_s = addresses, user, secure, timeout_s

    def ask(self, method: str, path: str, operation: str, **options: str | int) -> Any:
        """Return the JSON answer to the WebHDFS `operation` on `path`, of the first name node that is active.
        RemoteError: refused; UnreachedError: not sent; UnansweredError: whether it was done is unknown.
        """
        last: StorageError | None = None
        for address in list(self._addresses):
            try:
                answer = self._decoded(
                    self._send(address, method, self._target(path, operation, options), None)
                )
            except (UnreachedError, RemoteError) as error:
                if isinstance(error, RemoteError) and error.kind != "StandbyException":
                    raise
                last = error
                continue
            self._addresses = sorted(self._addresses, key=lambda each: each != address)  # this one first
            return answer
        raise last or UnreachedError("no address of a name node is known; set dfs.namenode.http-address")

    def write(self, location: str, data: Iterable[bytes | memoryview]) -> None:
        address, target = _address_and_target(location)
        self._decoded(self._send(address, "PUT", target, data))

    def fetch(self, location: str) -> bytes:
        address, target = _address_and_target(location)
        status, body = self._send(address, "GET", target, None)
        if status != http.client.OK:
            self._decoded((status, body))
        return body

    def _target(self, path: str, operation: str, options: dict[str, str | int]) -> str:
        query: dict[str, str | int] = {"op": operation, **options}
        if self._user is not None:
            query["user.name"] = self._user
        return f"{PREFIX}{quote(path)}?{urlencode(query)}"

    def _send(
        self, address: str, method: str, target: str, data: Iterable[bytes | memoryview] | None
    ) -> tuple[int, bytes]:
        make = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = make(address, timeout=self._timeout_s)
        try:
            try:
                connection.connect()
            except OSError as error:
                raise UnreachedError(f"{address}: {error.strerror or error}") from error
            source = None if data is None else _Chunks(data)
            headers = {} if source is None else {"Content-Type": "application/octet-stream"}
            try:
                connection.request(method, target, source, headers, encode_chunked=source is not None)
                response = connection.getresponse()
                return response.status, response.read()
            except (OSError, http.client.HTTPException) as error:
                if source is not None and source.error is not None:
                    raise source.error from error
                raise UnansweredError(f"{address}: {str(error) or type(error).__name__}") from error
        finally:
            connection.close()

    @staticmethod
    def _decoded(answer: tuple[int, bytes]) -> Any:
        status, body = answer
        try:
            content = json.loads(body) if body else {}
        except ValueError:
            content = {}
        if status < 300:
            return content
        remote = content.get("RemoteException", {}) if isinstance(content, dict) else {}
        kind = str(remote.get("exception", http.client.responses.get(status, "unknown")))
        message = str(remote.get("message", "")).partition("\n")[0]
        raise RemoteError(f"{status} {kind}" + (f": {message}" if message else ""), status, kind)


def _address_and_target(location: str) -> tuple[str, str]:
    parts = urlsplit(location)  # in which the server leaves letters beyond ASCII as they are
    return parts.netloc, quote(f"{parts.path}?{parts.query}", safe=_ASCII)


class _Chunks:
    """The parts of a file as the HTTP library wants them; remembers the error of the code that makes them."""

    def __init__(self, parts: Iterable[bytes | memoryview]) -> None:
        self._parts = iter(parts)
        self.error: BaseException | None = None

    def __iter__(self) -> _Chunks:
        return self

    def __next__(self) -> bytes | memoryview:
        try:
            for part in self._parts:
                if memoryview(part).nbytes:  # an empty chunk would end the file
                    return part
        except BaseException as error:
            self.error = error
            raise
        raise StopIteration
