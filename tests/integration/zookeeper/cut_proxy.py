"""A network that can be cut: a TCP proxy on loopback whose directions can be stopped or delayed."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from enum import Enum

DELAY_S = 0.3


class Network(Enum):
    """What happens to bytes."""

    WHOLE = "whole"
    CUT = "cut"
    NO_ANSWERS = "no answers"
    NO_REQUESTS = "no requests"
    SLOW = "slow"


class CutProxy:
    """Passes connections on to a server.

    Attributes:
        address: where clients connect.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._network = Network.WHOLE
        self._links: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def become(self, network: Network) -> None:
        """Change the network; connections of which bytes were lost end when it heals."""
        with self._lock:
            lost = self._network in (Network.NO_ANSWERS, Network.NO_REQUESTS) or network is Network.CUT
            self._network = network
            links = list(self._links) if lost else []
        for link in links:
            _end(link)

    def close(self) -> None:
        """End it with all its connections."""
        self.become(Network.CUT)
        _end(self._server)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            if self._network is Network.CUT:
                _end(client)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target), timeout=5)
            except OSError:
                _end(client)
                continue
            server.settimeout(None)
            with self._lock:
                self._links |= {client, server}
            for source, sink, lost in (
                (client, server, Network.NO_REQUESTS),
                (server, client, Network.NO_ANSWERS),
            ):
                threading.Thread(target=self._pump, args=(source, sink, lost), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, lost: Network) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if self._network is Network.SLOW:
                    time.sleep(DELAY_S)
                if self._network is not lost:
                    sink.sendall(data)
        with self._lock:
            self._links -= {source, sink}
        _end(source)
        _end(sink)


def _end(link: socket.socket) -> None:
    with suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
    link.close()
