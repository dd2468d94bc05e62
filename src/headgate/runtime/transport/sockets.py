"""Addresses, listening and connecting sockets, and receiving complete frames from a blocking socket.

An address is text that may name several endpoints of the same listener, joined by ",":

- ``unix:@name#host-id``: a Unix socket in Linux's abstract namespace, which leaves no file behind
  when its process is killed;
- ``unix:/path#host-id``: a Unix socket where there is no such namespace;
- ``tcp:host:port``: for other machines (an IPv6 host has brackets).

The host id says on which machine and boot the name is valid.

Sockets that carry frames block, and each has a thread of its own, on purpose: a thread gives up the
interpreter lock in every system call, and next to a CPU-bound loop it waits up to a switch interval (5 ms) to
get it back. So a frame should take few calls: one `sendmsg` sends as many frames as are queued, one `recv`
receives as many small frames as have arrived or all of a large one. `handshake.py` authenticates peers.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from headgate.common.errors import ConfigError, ProtocolError
from headgate.common.files.durable import read_bytes
from headgate.common.process.children import hide
from headgate.runtime.protocol.frames import Frame, FrameHeader, FrameReader, Part

BUFFER_BYTES: Final = 4 * 1024 * 1024
"""Requested size of socket buffers; the system may grant less."""

RECEIVE_BYTES: Final = 256 * 1024
"""Most bytes that one `recv` receives while the next frame's size is not known yet."""

_IOV_MAX: Final = 1024
_BACKLOG: Final = 128
_KEEPALIVE_IDLE_S: Final = 5
_KEEPALIVE_INTERVAL_S: Final = 5
_KEEPALIVE_PROBES: Final = 4
_UNACKNOWLEDGED_MS: Final = 30_000


class Endpoint(NamedTuple):
    """One of the sockets, Unix or TCP, at which a listener can be reached."""

    family: str  # "unix" or "tcp"
    target: str | tuple[str, int]  # a path, an abstract name (first byte zero), or (host, port)
    host_id: str = ""  # for Unix sockets, the machine and boot where the name is valid

    @property
    def text(self) -> str:
        if isinstance(self.target, tuple):
            host, port = self.target
            return f"tcp:[{host}]:{port}" if ":" in host else f"tcp:{host}:{port}"
        name = "@" + self.target[1:] if self.target.startswith("\0") else self.target
        return f"unix:{name}#{self.host_id}"


@functools.cache
def host_id() -> str:
    try:
        boot = read_bytes("/proc/sys/kernel/random/boot_id").decode().strip()
    except OSError:
        boot = "unknown-boot"
    name = "".join(letter if letter not in ",#" else "-" for letter in socket.gethostname())
    return f"{name}/{boot}"


def parse_address(text: str) -> list[Endpoint]:
    """Return the endpoints of an address, in its order; raise ProtocolError if the text is not an address.

    Example:
        >>> parse_address("unix:@hg-1#node/boot,tcp:node:4711")[1]
        Endpoint(family='tcp', target=('node', 4711), host_id='')
    """
    return [_parse_endpoint(part, text) for part in text.split(",")]


def _parse_endpoint(part: str, text: str) -> Endpoint:
    family, _, rest = part.partition(":")
    if family == "unix":
        name, _, where = rest.rpartition("#")
        if name[:1] in ("@", "/") and where:
            return Endpoint("unix", "\0" + name[1:] if name.startswith("@") else name, where)
    elif family == "tcp":
        host, _, port = rest.rpartition(":")
        if host and port.isascii() and port.isdigit() and 0 < int(port) < 65536:
            return Endpoint("tcp", (host.removeprefix("[").removesuffix("]"), int(port)))
    raise ProtocolError(
        f"address {text!r} has the part {part!r}, expected unix:@name#host, unix:/path#host or tcp:host:port"
    )


@dataclass(slots=True)
class Listener:
    """The listening sockets of one server, and the address by which peers reach them."""

    sockets: list[socket.socket]
    address: str
    folder: str | None = None

    def close(self) -> None:
        for sock in self.sockets:
            sock.close()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def listen(bind_host: str, advertise_host: str | None = None) -> Listener:
    """Listen on a Unix socket of this machine and on a free TCP port of `bind_host`; return the listener.
    Its address has `advertise_host` for other machines; by default `bind_host`, or this machine's name if
    that is a wildcard. Raises ConfigError if `bind_host` is no address of this machine.
    """
    try:
        info = socket.getaddrinfo(bind_host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        tcp = hide(socket.socket(info[0], socket.SOCK_STREAM))
    except OSError as error:
        raise _unbindable(bind_host, error) from error
    listener = Listener([tcp], "")
    try:
        tcp.bind(info[4])
        tcp.listen(_BACKLOG)
        wildcard = bind_host in ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to
        host = advertise_host or (socket.gethostname() if wildcard else bind_host)
        unix = _listen_unix(listener)
    except OSError as error:
        listener.close()
        raise _unbindable(bind_host, error) from error
    listener.address = f"{unix.text},{Endpoint('tcp', (host, tcp.getsockname()[1])).text}"
    return listener


def _unbindable(bind_host: str, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot listen on headgate.network.bind-host {bind_host!r}: {error};"
        " set it to an address of this machine, such as 127.0.0.1"
    )


def _listen_unix(listener: Listener) -> Endpoint:
    name = f"headgate-{os.getpid()}-{secrets.token_hex(8)}"
    if sys.platform == "linux":
        target = "\0" + name
    else:
        listener.folder = tempfile.mkdtemp(prefix="headgate-")
        target = f"{listener.folder}/socket"
    sock = hide(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    listener.sockets.append(sock)
    sock.bind(target)
    sock.listen(_BACKLOG)
    return Endpoint("unix", target, host_id())


def connect(address: str, timeout_ms: int) -> socket.socket:
    """Return a blocking socket, connected to the first reachable endpoint of `address`, Unix before TCP.
    `timeout_ms` is for each endpoint. Raises ProtocolError: the text is not an address, or has no endpoint
    for this machine; OSError: the error of the last endpoint, if none could be reached.
    """
    endpoints = [e for e in parse_address(address) if e.family == "tcp" or e.host_id == host_id()]
    if not endpoints:
        raise ProtocolError(
            f"address {address!r} has no endpoint for this machine, {host_id()}: the peer must offer TCP"
        )
    endpoints.sort(key=lambda endpoint: endpoint.family == "tcp")
    while True:
        try:
            sock = _connect_endpoint(endpoints.pop(0), timeout_ms / 1000)
        except OSError:
            # The same machine may still be another network namespace (a container): try the next one.
            if not endpoints:
                raise
        else:
            tune(sock)
            return sock


def _connect_endpoint(endpoint: Endpoint, timeout_s: float) -> socket.socket:
    if isinstance(endpoint.target, tuple):
        return hide(socket.create_connection(endpoint.target, timeout_s))
    sock = hide(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    try:
        sock.settimeout(timeout_s)
        sock.connect(endpoint.target)
    except BaseException:
        sock.close()
        raise
    return sock


def tune(sock: socket.socket) -> None:
    """Set up a connected socket for frames: blocking, large buffers, small frames sent without a delay. On
    TCP, a peer whose machine is lost makes calls fail with OSError after about 30 s (on Linux).
    """
    sock.settimeout(None)
    for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, buffer, BUFFER_BYTES)
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Keepalive detects a silent partition of an idle connection, the user timeout one with data in flight.
    # Receivers always drain their sockets, so a full window means a stopped process, not backpressure.
    for option, value in (
        ("TCP_KEEPIDLE", _KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", _KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", _KEEPALIVE_PROBES),
        ("TCP_USER_TIMEOUT", _UNACKNOWLEDGED_MS),
    ):
        number = getattr(socket, option, None)
        if number is not None:
            sock.setsockopt(socket.IPPROTO_TCP, number, value)


def send_parts(sock: socket.socket, parts: Sequence[Part]) -> None:
    """Send pieces of bytes in order, in as few system calls as possible; OSError if the connection broke."""
    views = [memoryview(part) for part in parts]
    pending = [view.cast("B") for view in views if view.nbytes]
    start = 0
    while start < len(pending):
        sent = sock.sendmsg(pending[start : start + _IOV_MAX])
        while start < len(pending) and sent >= pending[start].nbytes:
            sent -= pending[start].nbytes
            start += 1
        if sent:
            pending[start] = pending[start][sent:]


class FrameReceiver:
    """Receives verified frames from a blocking socket, several per system call if they are small."""

    __slots__ = ("_buffer", "_reader", "_sock")

    def __init__(self, sock: socket.socket, frame_size_max: int) -> None:
        self._sock = sock
        self._reader = FrameReader(frame_size_max)
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))

    def receive(self) -> list[tuple[FrameHeader, Frame]]:
        """Wait for the next frames, at least one, with headers; return [] if the peer closed between frames.

        Raises ProtocolError: the bytes are not valid frames, or end inside one; OSError: connection broken.
        """
        while True:
            space = self._reader.space()
            if space is None:
                size = self._sock.recv_into(self._buffer)
                frames = self._reader.feed(self._buffer[:size])
            else:
                size = self._sock.recv_into(space, 0, socket.MSG_WAITALL)
                frames = self._reader.filled(size)
            if size == 0:
                if self._reader.inside_frame:
                    raise ProtocolError("the connection ended inside a frame: the peer died or was cut off")
                return []
            if frames:
                return frames
